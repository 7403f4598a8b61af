"""Messages between agents about jobs.

Owns the messages about jobs and requests, the list of all messages with the tag "ctl.*" (others:
`messages_early`, `messages_order`, `messages_parts`, `messages_residency`, `messages_succession`,
`messages_safety`, `messages_versions`), and their packed form, which routed messages and multicasts contain.

Every message of a master has its epoch, so that agents refuse messages of earlier epochs (D-5). Every message
may arrive twice, late or never. Receivers are idempotent, and senders repeat what must arrive.

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
from elfmesh.control.protocol.messages_early import EARLY_MESSAGES
from elfmesh.control.protocol.messages_order import ORDER_MESSAGES
from elfmesh.control.protocol.messages_register import REGISTER_MESSAGES
from elfmesh.control.protocol.messages_residency import RESIDENCY_MESSAGES
from elfmesh.control.protocol.messages_standby import STANDBY_MESSAGES
from elfmesh.machine import Amount, Caused, Contact, Count, Id, Index, Message
from elfmesh.srt.residency import Rule
from elfmesh.wire import Codec

TRIPS_MAX = 64
"""Round trips in one report of a member."""

HOPS_MAX = 3
"""Maximum number of agents that forward a request of a client."""


class Submit(Message, frozen=True, tag="ctl.submit"):
    """Submission of a job, routed to the agent closest to its id.

    Attributes:
        dry_run: whether agents only check the text.
        update: whether the job runs already.
        seen: state of the job that the client has seen (`requests.precondition`); "": an earlier release's
            client.
        keep_in: rules of the agent of the client and of the hosts that would be members: of the two
            placements of a new job, the one is taken that satisfies more of them.
    """

    manifest: Manifest
    origin: Contact
    token: Count
    dry_run: bool = False
    hops: Count = 0
    update: bool = False
    start: Index = FIRST
    seen: Annotated[str, msgspec.Meta(max_length=256)] = ""
    keep_in: Rule | msgspec.UnsetType = msgspec.UNSET


class Announce(Message, frozen=True, tag="ctl.announce"):
    """A job runs over a stream: routed to the stream's rendezvous, which multicasts it to the member hosts.

    Attributes:
        manifest: the job.
        master: its master.
        epoch: term of the master.
        version: version of the roster.
        start: first interval to which founding members contribute.
        wanted: whether the master needs verdicts of the member hosts; otherwise it only reminds the
            rendezvous.
        stream: the stream; the master announces a job over several streams for each of them.
    """

    manifest: Manifest
    master: Contact
    epoch: Count
    version: Count = 0
    start: Index = FIRST
    wanted: bool = False
    stream: str = ""


class Verdict(Message, frozen=True, tag="ctl.verdict"):
    """A member host's answer to an `Announce`: it takes part, does not (labels), or cannot (`error`)."""

    participant: Participant
    takes_part: bool
    error: str = ""


class Announced(Message, frozen=True, tag="ctl.announced"):
    """Rendezvous to master: the participants, the errors, and the number of member hosts of the stream."""

    job: Id
    epoch: Count
    participants: tuple[Participant, ...]
    errors: tuple[str, ...]
    expected: Count
    stream: str = ""


class WhatRuns(Message, frozen=True, tag="ctl.what_runs"):
    """Member host to the rendezvous of a stream, routed: which jobs run?"""

    stream: str
    asker: Contact


class Running(Message, frozen=True, tag="ctl.running"):
    """The rendezvous's answer to `WhatRuns`."""

    stream: str
    jobs: tuple[Announce, ...]


class Withdraw(Message, frozen=True, tag="ctl.withdraw"):
    """This incarnation of the job has ended: routed to the rendezvous, and sent to agents with replicas."""

    job: Id
    stream: str
    incarnation: str
    epoch: Count


class Enroll(Message, frozen=True, tag="ctl.enroll"):
    """Member to master, or routed to the job: its newest roster, and the first interval of its worker.

    Attributes:
        trips: round trips to other members in microseconds, if the job has a layout. A master of an earlier
            release ignores them.
    """

    job: Id
    incarnation: str
    participant: Participant
    epoch: Count = 0
    version: Count = 0
    start: Index = FIRST
    trips: Annotated[tuple[tuple[Id, Count], ...], msgspec.Meta(max_length=TRIPS_MAX)] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class Leaving(Message, frozen=True, tag="ctl.leaving"):
    """Member to master: it leaves and has sealed all intervals below `frontier`; which is its last one?

    The master answers with the roster, or with `Stop` if the agent is not on it.

    Attributes:
        ahead: it leaves at once, see `RosterEntry`. A master of an earlier release ignores it.
    """

    job: Id
    incarnation: str
    member: Contact
    epoch: Count
    frontier: Index
    ahead: bool = False


class Roster(Caused, frozen=True, tag="ctl.roster"):
    """The master's terms, multicast to the members or sent to one member."""

    terms: Terms


class RosterAck(Message, frozen=True, tag="ctl.roster_ack"):
    """Member to master: it has stored the roster `version` of this epoch."""

    job: Id
    epoch: Count
    version: Count
    number: Count


class Mark(Caused, frozen=True, tag="ctl.mark"):
    """Closed watermark, multicast to the members: all intervals below `closed` are closed.

    `lacks` lists the missing members, `revised` the revisions above 1 and `partly` the prefixes of missing
    members, for the intervals from `lacked_from` on.
    """

    job: Id
    incarnation: str
    epoch: Count
    version: Count
    closed: Index
    lacked_from: Index
    lacks: tuple[messages_safety.Lack, ...] = ()
    revised: tuple[messages_safety.Revisions, ...] = ()
    partly: tuple[messages_safety.PrefixIn, ...] = ()


class Stop(Message, frozen=True, tag="ctl.stop"):
    """This incarnation of the job has ended, so that members stop."""

    job: Id
    incarnation: str
    epoch: Count


class Fenced(Message, frozen=True, tag="ctl.fenced"):
    """Answer to a message of an earlier epoch: the highest known epoch."""

    job: Id
    epoch: Count


class Waiting(Message, frozen=True, tag="ctl.waiting"):
    """Member to master: it has sealed all intervals below `frontier`, and some are not closed."""

    job: Id
    epoch: Count
    number: Count
    frontier: Index


class Rate(Message, frozen=True, tag="ctl.rate"):
    """Member to master: its usual number of records per interval, in all and by input.

    `nbytes` is the usual size of its contribution to an interval; 0: an earlier release, or nothing.
    """

    job: Id
    epoch: Count
    number: Count
    records: Amount
    inputs: tuple[Amount, ...] = ()
    nbytes: Amount = 0.0


class Report(Message, frozen=True, tag="ctl.report"):
    """Member to master: samples of unparsable lines, or an error, for display."""

    job: Id
    name: str
    samples: tuple[str, ...]
    error: str = ""


class Ask(Message, frozen=True, tag="ctl.ask"):
    """A client's request to a job's master, routed by the job's id and forwarded to the master."""

    verb: str
    job: Id
    body: bytes
    origin: Contact
    token: Count
    hops: Count = 0


class AskAll(Message, frozen=True, tag="ctl.ask_all"):
    """A client's request to all agents, routed to the root of the tree of all agents."""

    verb: str
    body: bytes
    origin: Contact
    token: Count


class Question(Message, frozen=True, tag="ctl.question"):
    """The multicast of an `AskAll`; agents answer with JSON bytes."""

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
    *EARLY_MESSAGES,
    *ORDER_MESSAGES,
    *STANDBY_MESSAGES,
    *messages_parts.MESSAGES,
    *messages_succession.MESSAGES,
    *messages_safety.MESSAGES,
    *messages_versions.MESSAGES,
    *messages_programs.MESSAGES,
    *REGISTER_MESSAGES,
    *RESIDENCY_MESSAGES,
)
"""All message types of this room, for the codec."""

_CODEC = Codec(MESSAGES)
_PACK = msgspec.msgpack.Encoder()


def pack(message: Message) -> bytes:
    return _PACK.encode(message)


def unpack(body: bytes) -> Message:
    """Decode a packed message.

    Raises:
        ProtocolError: the body is no message of this room.
    """
    return _CODEC.decode_header(body)
