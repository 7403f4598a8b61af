"""Messages of the succession of masters: terms queries, replicas and pages of the results log.

The control register elects a master; these messages only transfer the state of a job.

Paper: ELF 3 (a job's master fails, the agent closest to its id continues).
"""

from __future__ import annotations

from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Caused, Count, Id, Index, Message


class Inquire(Message, frozen=True, tag="ctl.inquire"):
    """Terms query: new root of a job's tree to the agents closest to the job's id."""

    job: Id
    token: Count


class Known(Message, frozen=True, tag="ctl.known"):
    """The answer to `Inquire`.

    Attributes:
        terms: terms of the job at the sender; None: it has none.
        latest: last record of the sender's copy of the results log.
        leads: whether the sender leads the job.
        epoch: highest epoch of the job that the sender knows, of any incarnation.
        lost_votes: whether the sender has lost its votes, so that it must not be a first acceptor.
        ended: the value that ended the job, if the sender has accepted it.
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
    """Master to the voters and the agents closest to the job's id: state for a successor.

    `latest` is the last record to which a voter completes its copy of the log; None for other agents.
    """

    terms: Terms
    latest: Index | None


class Fetch(Message, frozen=True, tag="ctl.fetch"):
    """Request for records of an incarnation with an index above `after` and, if given, below `until`.

    `part`: digest of a page of rows of interval `after`, to send instead of records.
    """

    job: Id
    incarnation: str
    after: Index | None
    token: Count
    until: Index | None = None
    part: bytes = b""


class Page(Message, frozen=True, tag="ctl.page"):
    """The answer to `Fetch`; the payload is a page of records.

    Attributes:
        done: whether there are no more records now.
        first: index of the job's first record; None if the sender does not know it.
        hole: records [first, second) that the sender's log lacks, so that the page ends there.
        part: digest of the requested page of rows, which is the payload; an empty payload: the sender lacks
            it.
    """

    job: Id
    incarnation: str
    token: Count
    done: bool
    first: Index | None = None
    hole: tuple[Index, Index] | None = None
    part: bytes = b""


class Handover(Caused, frozen=True, tag="ctl.handover"):
    """Old root of a job's tree to the new one: lead the job; the old master has stopped closing intervals."""

    terms: Terms
    latest: Index | None


MESSAGES: tuple[type[Message], ...] = (Inquire, Known, Replica, Fetch, Page, Handover)
"""For the codec."""
