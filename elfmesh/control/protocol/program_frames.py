"""What a program and the agent it is attached to say to each other, one msgpack value a frame.

Owns the frames and their limits; knows no socket. A name of a message is the process that sent it (20 random
bytes, one life of one process) and that process's own number: an agent that sees a name twice sees one
message.

Paper: ELF 2.4, Tables 1 and 2.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from elfmesh.errors import ProtocolError
from elfmesh.machine import Count, Id
from elfmesh.wire import UNREADABLE

MESSAGE_BYTES_MAX = 512 << 10
"""Of one message of a program: a multicast is kept by every agent of the tree, many times over."""

FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + (16 << 10)
TEXT_MAX = 4 << 10

Process: TypeAlias = Id
"""One life of one process."""

Body: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MESSAGE_BYTES_MAX)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
Group: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
Verb: TypeAlias = Literal["route", "send_to", "multicast"]
Status: TypeAlias = Literal["ok", "failed", "root", "fenced", "silent", "busy"]
"""How a message ended: handled; its handler raised; the root has no parent; another process is the
master side; no agent has answered in time; too much is under way."""


class ResultPosition(msgspec.Struct, frozen=True, array_like=True, order=True):
    """How far the master side has come with the job's results: the greatest of those told counts.

    Attributes:
        term: of the master side that says so.
        count: grows within a term.
        text: what the program's library makes of it.
    """

    term: Count = 0
    count: Count = 0
    text: Text = ""


NOWHERE = ResultPosition()
"""Before the first result."""


class Say(msgspec.Struct, frozen=True, tag="say"):
    """A program: bring this to whom the verb means.

    Attributes:
        number: of this message, by this process.
        target: "namespace/name" of a program (route), a group (send_to), "" (multicast).
        creator: of the program that is meant.
        timeout_s: after which the answer is "silent".
    """

    number: Count
    verb: Verb
    target: Group
    body: Body
    creator: Group = ""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 30.0


class Join(msgspec.Struct, frozen=True, tag="join"):
    """A program: be a vertex of this group's tree."""

    group: Group


class Handled(msgspec.Struct, frozen=True, tag="handled"):
    """A program: the message of this name was handled, or could not be."""

    process: Process
    number: Count
    body: Body = b""
    error: Text = ""


class Reached(msgspec.Struct, frozen=True, tag="reached"):
    """The master side: results up to here are handled."""

    place: ResultPosition


class Role(msgspec.Struct, frozen=True, tag="role"):
    """The agent: who is the master side now, and how far it has come."""

    master: bool
    term: Count
    agent: str
    place: ResultPosition = NOWHERE


class Deliver(msgspec.Struct, frozen=True, tag="deliver"):
    """The agent: a message for the program, again and again until it is `Handled`.

    Attributes:
        process, number: its name.
        verb: by which it was sent.
        sender: the agent beside which its sender is.
        group: of a `send_to`.
        term: of the master side; of multicasts, (term, number) grows.
    """

    process: Process
    number: Count
    verb: Verb
    sender: str
    body: bytes
    group: str = ""
    term: Count = 0


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The agent: how the program's message `number` ended."""

    number: Count
    status: Status
    body: bytes = b""
    error: str = ""
    acknowledged: Count = 0
    expected: Count = 0


class Replaced(msgspec.Struct, frozen=True, tag="replaced"):
    """The agent: another process of this program has attached here; this one is let go."""


FromProgram: TypeAlias = Say | Join | Handled | Reached
FromAgent: TypeAlias = Role | Deliver | Answer | Replaced
_ENCODER = msgspec.msgpack.Encoder()
_FROM_PROGRAM: msgspec.msgpack.Decoder[FromProgram] = msgspec.msgpack.Decoder(FromProgram)
_FROM_AGENT: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)


def encode(frame: FromProgram | FromAgent) -> bytes:
    """The bytes of a frame."""
    return _ENCODER.encode(frame)


def pack_place(place: ResultPosition) -> bytes:
    """A place as it is kept on disk."""
    return _ENCODER.encode(place)


def read_place(data: bytes) -> ResultPosition | None:
    """A place from disk; None if it is damaged."""
    try:
        return msgspec.msgpack.decode(data, type=ResultPosition)
    except UNREADABLE:
        return None


def from_program(data: bytes) -> FromProgram:
    """What a program has said; raises ProtocolError if that is no frame of its side."""
    try:
        return _FROM_PROGRAM.decode(data)
    except UNREADABLE as error:
        raise ProtocolError(f"malformed frame: {error}") from None


def from_agent(data: bytes) -> FromAgent:
    """What an agent has said; raises ProtocolError if that is no frame of its side."""
    try:
        return _FROM_AGENT.decode(data)
    except UNREADABLE as error:
        raise ProtocolError(f"malformed frame: {error}") from None
