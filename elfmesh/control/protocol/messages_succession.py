"""What agents say to each other so that a job outlives its master: who knows it, who has its records.

Owns the messages; refuses to know who may lead: the control register decides.

Paper: ELF 3 (a job's master fails, the agent closest to its id goes on).
"""

from __future__ import annotations

from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Count, Id, Index, Message


class Inquire(Message, frozen=True, tag="ctl.inquire"):
    """The new root of a job's tree to the agents closest to it: what do you know of it?"""

    job: Id
    token: Count


class Known(Message, frozen=True, tag="ctl.known"):
    """The answer to `Inquire`.

    Attributes:
        terms: None if nothing is known.
        leads: the answering agent leads the job.
        epoch: the highest it has seen of it, in any incarnation.
        lost_votes: the answering agent has lost its votes: it shall not vote first on a job.
        ended: the value by which the job is over, if the answering agent has accepted it.
    """

    job: Id
    token: Count
    terms: Terms | None
    latest: Index | None
    leads: bool = False
    epoch: Count = 0
    lost_votes: bool = False
    ended: RegisterValue | None = None


class Replica(Message, frozen=True, tag="ctl.replica"):
    """The master to the agents closest to the job and those that vote on it: what a successor needs.

    `latest`: an acceptor completes its copy of the records up to here; None to who need not have one.
    """

    terms: Terms
    latest: Index | None


class Fetch(Message, frozen=True, tag="ctl.fetch"):
    """Send me your records of this incarnation with an index above `after` and, if given, below `until`.

    `part`: no record, but the page of rows of interval `after` that has this digest.
    """

    job: Id
    incarnation: str
    after: Index | None
    token: Count
    until: Index | None = None
    part: bytes = b""


class Page(Message, frozen=True, tag="ctl.page"):
    """Records in answer to `Fetch` (the payload).

    Attributes:
        done: there are no more now.
        hole: the sender's own log lacks records from the first index up to the second, which is why the page
            ends there.
        first: index of the first record that the job ever had, None if the sender does not know it.
        part: digest of the page of rows that was asked for and is the payload; without one it is not here.
    """

    job: Id
    incarnation: str
    token: Count
    done: bool
    first: Index | None = None
    hole: tuple[Index, Index] | None = None
    part: bytes = b""


class Handover(Message, frozen=True, tag="ctl.handover"):
    """The old root of a job's tree to the new one: lead it from here, I have stopped closing intervals."""

    terms: Terms
    latest: Index | None


MESSAGES: tuple[type[Message], ...] = (Inquire, Known, Replica, Fetch, Page, Handover)
"""For the codec."""
