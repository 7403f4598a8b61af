"""Messages between the proposers and acceptors of control registers.

`register.acceptor` and `register.proposer` send them. The tail of a value, the records closed last, is the
payload of the message with the value.

Paper: CASPaxos (Rystsov 2018) 2.2: prepare, promise, accept, confirmation, conflict.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.jobs.register_value import Generation, RegisterValue
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Caused, Contact, Count, Id, Index, Message


class ProposerHas(msgspec.Struct, frozen=True, array_like=True):
    """What a proposer has, so that the answer of an acceptor leaves it out (`register.left_out`).

    Attributes:
        tail: digest of the tail that it has accepted.
        terms: digest of its terms of the job.
        links: the chained digest of each record on which it has voted.
    """

    tail: bytes = b""
    terms: bytes = b""
    links: tuple[bytes, ...] = ()


class Prepare(Message, frozen=True, tag="ctl.prepare", omit_defaults=True):
    """Proposer to acceptor: promise to accept no lower ballot, and return the accepted value.

    Attributes:
        job: job of the register.
        ballot: ballot of the attempt.
        founds: whether the sender creates a register of which it is the only acceptor.
        generation: generation of the register. Votes of earlier generations are void, and an acceptor that
            knows a later one promises nothing.
        floors: whether the sender evaluates `Promised.floor`. To another sender, an acceptor that has
            forgotten votes promises nothing for a register on which it has no vote.
        boot: newest boot of the acceptor from which the sender has an answer; 0: none.
        votes: number of votes in that answer. An acceptor with fewer votes has lost some.
        has: what the sender has; an acceptor of an earlier release sends it all the same.
    """

    job: Id
    ballot: Ballot
    founds: bool = False
    generation: Generation = 0
    floors: bool = False
    boot: Count = 0
    votes: Count = 0
    has: ProposerHas = ProposerHas()


class Promised(Message, frozen=True, tag="ctl.promised"):
    """Acceptor to proposer: it has promised.

    Attributes:
        job: job of the register.
        ballot: the promised ballot.
        accepted: ballot of `value`.
        value: value that was accepted last, None if there is none; the payload is its tail, unless the
            proposer has that.
        terms: the acceptor's terms of the job, for a successor.
        latest: last record of the acceptor's copy of the results log.
        votes: number of all votes of the acceptor; 0: it does not count them.
        floor: without a value, the highest ballot of a vote that the acceptor may have forgotten, because its
            job had ended (`ended.py`).
        voted_bytes: length of the last part of the payload: the records on which the acceptor has voted under
            the ballot `accepted`.
        left_out: number of such records before these, which the proposer has.
        same_terms: whether the acceptor has the terms of the proposer, instead of `terms`.
    """

    job: Id
    ballot: Ballot
    accepted: Ballot
    value: RegisterValue | None
    terms: Terms | None
    latest: Index | None
    votes: Count = 0
    floor: Ballot = NONE
    voted_bytes: Count = 0
    left_out: Count = 0
    same_terms: bool = False


class Accept(Caused, frozen=True, tag="ctl.accept"):
    """Proposer to acceptor: accept a value; the payload is its tail.

    Attributes:
        job: job of the register.
        ballot: ballot of the value.
        value: the value.
        settled: ballot of the earlier value of the same proposer, which was chosen.
        terms: terms for a successor, if the acceptor may lack them.
        sources: agents with the records before the tail, if the acceptor lacks them.
        boot: see `Prepare`.
        votes: see `Prepare`.
        voted: number of records on which the acceptor has voted that are the tail; 0: the payload is.
    """

    job: Id
    ballot: Ballot
    value: RegisterValue
    settled: Ballot | None = None
    terms: Terms | None = None
    sources: tuple[Contact, ...] = ()
    boot: Count = 0
    votes: Count = 0
    voted: Count = 0


class Accepted(Caused, frozen=True, tag="ctl.accepted", omit_defaults=True):
    """Acceptor to proposer: it has accepted, and promises the following ballot to the same proposer.

    Attributes:
        job: job of the register.
        ballot: ballot of the value.
        votes: see `Promised`.
    """

    job: Id
    ballot: Ballot
    votes: Count = 0


class Chosen(Message, frozen=True, tag="ctl.chosen"):
    """Master to a site that votes: the value of a ballot is chosen, so its records may be read there."""

    since: ClassVar[int] = 3

    job: Id
    ballot: Ballot


class CumulativeVote(Caused, frozen=True, tag="ctl.vote", omit_defaults=True):
    """Acceptor to the other ones: it holds these records, all complete under the grant of a ballot.

    Attributes:
        job: job of the register.
        incarnation: numbering of the records.
        ballot: ballot of the value with the grant.
        links: the chained digest of each record.
        begin: position of the first record in the payload.
        votes: see `Promised`.
        asks: whether the receiver is to send the records that the sender lacks, now and with later votes.
    """

    since: ClassVar[int] = 3

    job: Id
    incarnation: str
    ballot: Ballot
    links: tuple[bytes, ...]
    begin: Count = 0
    votes: Count = 0
    asks: bool = False


class Outdated(Message, frozen=True, tag="ctl.outdated"):
    """Proposer to acceptor: the acceptor's answer is older than another one from its id.

    Attributes:
        boot: boot of the other answer.
        votes: number of votes in the other answer.
    """

    since: ClassVar[int] = 3

    boot: Count
    votes: Count


class Conflict(Message, frozen=True, tag="ctl.conflict", omit_defaults=True):
    """Acceptor to proposer: it refuses `ballot`.

    Attributes:
        job: job of the register.
        ballot: the refused ballot.
        promised: ballot that the acceptor has promised.
        behind: whether it lacks records or terms.
        lost_at: boot in which the acceptor found that it has lost its votes; None: it has not.
        superseded: whether it knows a later generation of the job, so that it does not vote in this one.
    """

    job: Id
    ballot: Ballot
    promised: Ballot
    behind: bool = False
    lost_at: Count | None = None
    superseded: bool = False


class Resign(Message, frozen=True, tag="ctl.resign"):
    """Acceptor to the master of a job: it leaves for good, and another agent must replace it as a voter.

    Attributes:
        job: job of the register.
        incarnation: incarnation of the job.
        voter: the acceptor that leaves.
        last: whether it waits only for this; if no agent can replace it, the register continues without it.
    """

    job: Id
    incarnation: str
    voter: Contact
    last: bool = True


class Resigned(Message, frozen=True, tag="ctl.resigned"):
    """The answer to `Resign`, sent when the register has settled without the acceptor."""

    job: Id
    incarnation: str


class Departed(Message, frozen=True, tag="ctl.departed"):
    """Agent to all known agents: it has left for good, and does not count towards the majority of agents."""

    since: ClassVar[int] = 2


REGISTER_MESSAGES: tuple[type[Message], ...] = (
    *(Prepare, Promised, Accept, Accepted, Chosen, CumulativeVote, Conflict, Outdated),
    *(Resign, Resigned, Departed),
)
