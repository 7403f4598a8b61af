"""What proposers and acceptors of control registers say to each other.

Owns the shapes only; `register_acceptor.py` and `register_proposer.py` speak. The tail of a value, which is
the records closed last, is the payload of the message that carries the value.

Paper: CASPaxos (Rystsov 2018) 2.2: prepare, promise, accept, confirmation, conflict.
"""

from __future__ import annotations

from typing import ClassVar

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.jobs.register_value import Generation, RegisterValue
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Caused, Contact, Count, Id, Index, Message


class Prepare(Message, frozen=True, tag="ctl.prepare", omit_defaults=True):
    """Promise to accept nothing below this ballot, and say what you have accepted.

    Attributes:
        job: whose register.
        ballot: of the attempt.
        founds: the sender creates a register of which it is the only acceptor.
        generation: of the register that is changed: what was voted on in an earlier one is void, and who
            knows a later one promises nothing.
        floors: the sender minds `Promised.floor`. An acceptor that has forgotten votes promises no other
            sender anything that it has no vote on.
        boot: the newest in which the sender has seen an answer of the acceptor, 0 if it has seen none.
        votes: given by the acceptor until then. One that knows fewer has gone back in time.
    """

    job: Id
    ballot: Ballot
    founds: bool = False
    generation: Generation = 0
    floors: bool = False
    boot: Count = 0
    votes: Count = 0


class Promised(Message, frozen=True, tag="ctl.promised"):
    """An acceptor has promised.

    Attributes:
        job: whose register.
        ballot: promised.
        accepted: ballot of `value`.
        value: accepted last, None if nothing was; the payload is its tail.
        terms: what the acceptor holds for a successor.
        latest: last record of the acceptor's copy of the results log.
        votes: given by the acceptor in all; 0: it does not count them.
        floor: without a value: a vote up to here may be forgotten, since its job was over (`ended.py`).
    """

    job: Id
    ballot: Ballot
    accepted: Ballot
    value: RegisterValue | None
    terms: Terms | None
    latest: Index | None
    votes: Count = 0
    floor: Ballot = NONE


class Accept(Caused, frozen=True, tag="ctl.accept"):
    """Accept this value; the payload is its tail.

    Attributes:
        job: whose register.
        ballot: of the value.
        value: to be accepted.
        settled: ballot of the value that was chosen before this one by the same proposer.
        terms: what a successor needs, if the acceptor may lack it.
        sources: who has the records before the tail, if the acceptor lacks them.
        boot: as of `Prepare`.
        votes: as of `Prepare`.
    """

    job: Id
    ballot: Ballot
    value: RegisterValue
    settled: Ballot | None = None
    terms: Terms | None = None
    sources: tuple[Contact, ...] = ()
    boot: Count = 0
    votes: Count = 0


class Accepted(Caused, frozen=True, tag="ctl.accepted", omit_defaults=True):
    """An acceptor has accepted; it promises the ballot that follows to the same proposer.

    Attributes:
        job: whose register.
        ballot: of the value.
        votes: as of `Promised`.
    """

    job: Id
    ballot: Ballot
    votes: Count = 0


class Outdated(Message, frozen=True, tag="ctl.outdated"):
    """A proposer to an acceptor: your answer is older than another one that I have seen of your id.

    Attributes:
        boot: in which the other answer was given.
        votes: given until then.
    """

    since: ClassVar[int] = 3

    boot: Count
    votes: Count


class Conflict(Message, frozen=True, tag="ctl.conflict", omit_defaults=True):
    """An acceptor refuses `ballot`: it has promised another, or it is `behind` and cannot vouch for it.

    Attributes:
        job: whose register.
        ballot: refused.
        promised: by the acceptor.
        behind: it lacks records or terms.
        lost_at: it has lost its votes; the boot of the agent that has found the loss.
        superseded: it knows a later generation of the job, and votes in this one no more.
    """

    job: Id
    ballot: Ballot
    promised: Ballot
    behind: bool = False
    lost_at: Count | None = None
    superseded: bool = False


class Resign(Message, frozen=True, tag="ctl.resign"):
    """An acceptor to the master of a job: I go for good; let another vote in my place.

    Attributes:
        job: whose register.
        incarnation: of the job.
        voter: who goes.
        last: nothing else holds it: if no agent can replace it, the others vote alone.
    """

    job: Id
    incarnation: str
    voter: Contact
    last: bool = True


class Resigned(Message, frozen=True, tag="ctl.resigned"):
    """The answer to `Resign`, once the register has settled without the acceptor."""

    job: Id
    incarnation: str


class Departed(Message, frozen=True, tag="ctl.departed"):
    """An agent to all it has met: I have left for good, and am none of those of which most must be there."""

    since: ClassVar[int] = 2


REGISTER_MESSAGES: tuple[type[Message], ...] = (
    *(Prepare, Promised, Accept, Accepted, Conflict, Outdated),
    *(Resign, Resigned, Departed),
)
