"""What agents say to each other so that a job outlives its master: who knows it, who has its records.

Owns the messages; refuses to know who may lead: the control register decides.

Paper: ELF 3 (a job's master fails, the agent closest to its id goes on).
"""

from __future__ import annotations

from elfmesh.control.terms import Terms
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
    """

    job: Id
    token: Count
    terms: Terms | None
    latest: Index | None
    leads: bool = False
    epoch: Count = 0


class Replica(Message, frozen=True, tag="ctl.replica"):
    """The master to the agents closest to the job and those that vote on it: what a successor needs.

    `latest`: an acceptor completes its copy of the records up to here; None to who need not have one.
    """

    terms: Terms
    latest: Index | None


class Fetch(Message, frozen=True, tag="ctl.fetch"):
    """Send me your records of this incarnation with an index above `after`."""

    job: Id
    incarnation: str
    after: Index | None
    token: Count


class Page(Message, frozen=True, tag="ctl.page"):
    """Records in answer to `Fetch` (the payload); `done` if there are no more now."""

    job: Id
    incarnation: str
    token: Count
    done: bool


class Handover(Message, frozen=True, tag="ctl.handover"):
    """The old root of a job's tree to the new one: lead it from here, I have stopped closing intervals."""

    terms: Terms
    latest: Index | None


MESSAGES: tuple[type[Message], ...] = (Inquire, Known, Replica, Fetch, Page, Handover)
"""For the codec."""
