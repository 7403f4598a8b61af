"""What agents say to each other about jobs.

Owns the messages about jobs and questions, the list of all with the tag "ctl.*" (others: `messages_parts`,
`messages_succession`, `messages_safety`, `messages_versions`), and their packed form, which travels inside
routed messages and multicasts. Refuses to know when they are sent.

Every message of a master carries its epoch: a lower one than the highest seen is refused (D-5). Every message
can come twice, late or never; the receivers are idempotent and what matters is sent again.

Paper: ELF 2.3 (rendezvous, multicast), 2.4 and 3 (job builder, tracker, coordinator).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Participant, Terms
from elfmesh.control.protocol import (
    messages_parts,
    messages_programs,
    messages_safety,
    messages_succession,
    messages_versions,
)
from elfmesh.control.protocol.messages_register import REGISTER_MESSAGES
from elfmesh.machine import Amount, Contact, Count, Id, Index, Message
from elfmesh.wire import Codec

HOPS_MAX = 3
"""How often a request of a client is passed on from one agent to another."""


class Submit(Message, frozen=True, tag="ctl.submit"):
    """A job for the agent closest to its id, routed. `dry_run`: only ask. `update`: it runs already.

    `seen`: what the client has seen of the job (`requests.precondition`); "": an earlier version's.
    """

    manifest: Manifest
    origin: Contact
    token: Count
    dry_run: bool = False
    hops: Count = 0
    update: bool = False
    start: Index = FIRST
    seen: Annotated[str, msgspec.Meta(max_length=256)] = ""


class Announce(Message, frozen=True, tag="ctl.announce"):
    """A job runs on a stream: routed to the stream's rendezvous, and multicast by it to the stream hosts.

    Attributes:
        manifest: the job.
        master: who leads it.
        epoch: the master's term.
        version: of its roster.
        start: first interval that founding members contribute.
        wanted: the master wants the stream hosts' verdicts; otherwise it only reminds the rendezvous.
        stream: whose rendezvous is told; a job over several is announced at each.
    """

    manifest: Manifest
    master: Contact
    epoch: Count
    version: Count = 0
    start: Index = FIRST
    wanted: bool = False
    stream: str = ""


class Verdict(Message, frozen=True, tag="ctl.verdict"):
    """A stream host's answer to an `Announce`: it takes part, does not (labels), or cannot (`error`)."""

    participant: Participant
    takes_part: bool
    error: str = ""


class Announced(Message, frozen=True, tag="ctl.announced"):
    """The rendezvous to the master: who will take part, who cannot and why, how many carry the stream."""

    job: Id
    epoch: Count
    participants: tuple[Participant, ...]
    errors: tuple[str, ...]
    expected: Count
    stream: str = ""


class WhatRuns(Message, frozen=True, tag="ctl.what_runs"):
    """A stream host of `stream` to its rendezvous, routed: which jobs are there?"""

    stream: str
    asker: Contact


class Running(Message, frozen=True, tag="ctl.running"):
    """The rendezvous' answer to `WhatRuns`."""

    stream: str
    jobs: tuple[Announce, ...]


class Withdraw(Message, frozen=True, tag="ctl.withdraw"):
    """This incarnation of the job is over: routed to the rendezvous, sent to the holders of replicas."""

    job: Id
    stream: str
    incarnation: str
    epoch: Count


class Enroll(Message, frozen=True, tag="ctl.enroll"):
    """A member to its master, or routed to the job: the newest roster it knows, where its worker began."""

    job: Id
    incarnation: str
    participant: Participant
    epoch: Count = 0
    version: Count = 0
    start: Index = FIRST


class Leaving(Message, frozen=True, tag="ctl.leaving"):
    """A member to the master: I go, and have sealed everything below `frontier`; which is my last interval?

    The roster says; who is not on it is told to stop.
    """

    job: Id
    incarnation: str
    member: Contact
    epoch: Count
    frontier: Index


class Roster(Message, frozen=True, tag="ctl.roster"):
    """The master's terms, multicast to the members or sent to one of them."""

    terms: Terms


class RosterAck(Message, frozen=True, tag="ctl.roster_ack"):
    """A member has taken the roster `version` of this epoch."""

    job: Id
    epoch: Count
    version: Count
    number: Count


class Mark(Message, frozen=True, tag="ctl.mark"):
    """Everything below `closed` is closed; multicast to the members.

    `lacks` says without whom, and `revised` with what in another revision than the first, complete for the
    intervals from `lacked_from` on.
    """

    job: Id
    incarnation: str
    epoch: Count
    version: Count
    closed: Index
    lacked_from: Index
    lacks: tuple[messages_safety.Lack, ...] = ()
    revised: tuple[messages_safety.Revisions, ...] = ()


class Stop(Message, frozen=True, tag="ctl.stop"):
    """This incarnation of the job is over: members stop and forget it."""

    job: Id
    incarnation: str
    epoch: Count


class Fenced(Message, frozen=True, tag="ctl.fenced"):
    """What you said is from a term that is over; this is the newest I know."""

    job: Id
    epoch: Count


class Waiting(Message, frozen=True, tag="ctl.waiting"):
    """A member to its master: I have sealed everything below `frontier` and it is not closed."""

    job: Id
    epoch: Count
    number: Count
    frontier: Index


class Rate(Message, frozen=True, tag="ctl.rate"):
    """A member to its master: how many records an interval of mine usually has."""

    job: Id
    epoch: Count
    number: Count
    records: Amount


class Report(Message, frozen=True, tag="ctl.report"):
    """A member to its master: what is worth showing to people."""

    job: Id
    name: str
    samples: tuple[str, ...]
    error: str = ""


class Ask(Message, frozen=True, tag="ctl.ask"):
    """A client's question for a job's master, routed by the job's id and passed on to the master."""

    verb: str
    job: Id
    body: bytes
    origin: Contact
    token: Count
    hops: Count = 0


class AskAll(Message, frozen=True, tag="ctl.ask_all"):
    """A client's question for all agents, routed to the rendezvous of all."""

    verb: str
    body: bytes
    origin: Contact
    token: Count


class Question(Message, frozen=True, tag="ctl.question"):
    """`AskAll` on its way down the tree of all agents; answered by JSON bytes."""

    verb: str
    body: bytes


class Answered(Message, frozen=True, tag="ctl.reply"):
    """The answer to an `Ask`, `AskAll` or `Submit`; the payload is `body_size` bytes of JSON, then data."""

    token: Count
    status: Count
    body_size: Count


MESSAGES: tuple[type[Message], ...] = (
    Submit,
    Announce,
    Verdict,
    Announced,
    WhatRuns,
    Running,
    Withdraw,
    Enroll,
    Leaving,
    Roster,
    RosterAck,
    Mark,
    Stop,
    Fenced,
    Waiting,
    Rate,
    Report,
    Ask,
    AskAll,
    Question,
    Answered,
    *messages_parts.MESSAGES,
    *messages_succession.MESSAGES,
    *messages_safety.MESSAGES,
    *messages_versions.MESSAGES,
    *messages_programs.MESSAGES,
    *REGISTER_MESSAGES,
)
"""All message types of this room, for the codec."""

_CODEC = Codec(MESSAGES)
_PACK = msgspec.msgpack.Encoder()


def pack(message: Message) -> bytes:
    return _PACK.encode(message)


def unpack(body: bytes) -> Message:
    """The message of a body.

    Raises:
        ProtocolError: anything but one of ours.
    """
    return _CODEC.decode_header(body)
