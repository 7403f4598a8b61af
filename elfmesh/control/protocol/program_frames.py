"""Frames between a program and the agent beside it: one msgpack value per frame.

Owns the frames and their limits. The name of a message is the id of the sending process (20 random bytes per
start) and the process's number of the message. An agent recognises a repeated message by its name.

Paper: ELF 2.4, Tables 1 and 2.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from elfmesh.errors import ProtocolError
from elfmesh.machine import Count, Id
from elfmesh.wire import UNREADABLE

MESSAGE_BYTES_MAX = 512 << 10
"""Maximum size of one message of a program, because every agent of the tree stores a multicast."""

FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + (16 << 10)
TEXT_MAX = 4 << 10

Process: TypeAlias = Id
"""Id of a process; it changes with each start."""

Body: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MESSAGE_BYTES_MAX)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
Group: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
Topic: TypeAlias = Annotated[str, msgspec.Meta(max_length=257)]
"""Name of a topic: namespace and name of 128 characters each, and what separates them."""
Verb: TypeAlias = Literal["route", "send_to", "multicast"]
Status: TypeAlias = Literal["ok", "failed", "root", "fenced", "silent", "busy"]
"""Result of a message: handled; its handler raised an error; the sender is the root and has no parent;
another process is the master side; no answer in time; too many messages are under way."""


class ResultPosition(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Position of the master side in the job's results; the greatest reported one is valid.

    Attributes:
        term: term of the reporting master side.
        count: number that grows within a term.
        text: position in the format of the program's library.
    """

    term: Count = 0
    count: Count = 0
    text: Text = ""


NOWHERE = ResultPosition()
"""Before the first result."""


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Program to agent: send a message.

    Attributes:
        number: number of the message, given by the process.
        target: "namespace/name" of a program (route), a group (send_to), "" (multicast).
        creator: creator of the target program.
        timeout_s: time after which the answer is "silent".
    """

    number: Count
    verb: Verb
    target: Group
    body: Body
    creator: Group = ""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 30.0


class Join(msgspec.Struct, frozen=True, tag="join"):
    """Program to agent: join the tree of a group."""

    group: Group


class Handled(msgspec.Struct, frozen=True, tag="handled"):
    """Program to agent: the program has handled a message, or its handler has failed."""

    process: Process
    number: Count
    body: Body = b""
    error: Text = ""


class Reached(msgspec.Struct, frozen=True, tag="reached"):
    """Master side to agent: it has handled the results up to a position."""

    place: ResultPosition


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    """Program to agent: report up to which record of a topic the vertex here has come."""

    topic: Topic


class PostsHandled(msgspec.Struct, frozen=True, tag="posts"):
    """Program to agent: it has handled the posts of a topic up to a position."""

    topic: Topic
    text: Text


class TopicPosition(msgspec.Struct, frozen=True, tag="followed"):
    """Agent to program: the position of the vertex in a topic; "" if it has none."""

    topic: str
    text: str


class Role(msgspec.Struct, frozen=True, tag="role"):
    """Agent to program: the present master side and its position."""

    master: bool
    term: Count
    agent: str
    place: ResultPosition = NOWHERE


class Deliver(msgspec.Struct, frozen=True, tag="deliver"):
    """Agent to program: a message, repeated until it is `Handled`.

    Attributes:
        process, number: name of the message.
        verb: verb with which it was sent.
        sender: name of the agent beside its sender.
        group: group of a `send_to`.
        term: term of the master side; (term, number) of multicasts grows.
    """

    process: Process
    number: Count
    verb: Verb
    sender: str
    body: bytes
    group: str = ""
    term: Count = 0


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """Agent to program: the result of the program's message `number`."""

    number: Count
    status: Status
    body: bytes = b""
    error: str = ""
    acknowledged: Count = 0
    expected: Count = 0


class Replaced(msgspec.Struct, frozen=True, tag="replaced"):
    """Agent to program: another process of the program has connected and replaces this one."""


FromProgram: TypeAlias = Say | Join | Handled | Reached | Follow | PostsHandled
FromAgent: TypeAlias = Role | Deliver | Answer | Replaced | TopicPosition
_ENCODER = msgspec.msgpack.Encoder()
_FROM_PROGRAM: msgspec.msgpack.Decoder[FromProgram] = msgspec.msgpack.Decoder(FromProgram)
_FROM_AGENT: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)


def encode(frame: FromProgram | FromAgent | ResultPosition | dict[str, str]) -> bytes:
    return _ENCODER.encode(frame)


def read_place(data: bytes) -> ResultPosition | None:
    """Return a stored position; None if it is damaged."""
    try:
        return msgspec.msgpack.decode(data, type=ResultPosition)
    except UNREADABLE:
        return None


def read_topics(data: bytes) -> dict[str, str]:
    """Return stored positions in topics; none if they are damaged."""
    try:
        return msgspec.msgpack.decode(data, type=dict[str, str])
    except UNREADABLE:
        return {}


def from_program(data: bytes) -> FromProgram:
    """Decode a frame of a program; raises `ProtocolError` if it is none."""
    try:
        return _FROM_PROGRAM.decode(data)
    except UNREADABLE as error:
        raise ProtocolError(f"malformed frame: {error}") from None


def from_agent(data: bytes) -> FromAgent:
    """Decode a frame of an agent; raises `ProtocolError` if it is none."""
    try:
        return _FROM_AGENT.decode(data)
    except UNREADABLE as error:
        raise ProtocolError(f"malformed frame: {error}") from None
