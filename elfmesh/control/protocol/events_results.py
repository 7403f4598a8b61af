"""Results logs: what the control machine wants of them, and what it is told.

Owns the shapes; `events` names them with all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.machine import Effect, Event

LOG_PAGE_BYTES_MAX = 4 << 20
"""Records read from a results log at a time: bounds a reply and keeps a bulk lane moving."""


@dataclass(frozen=True, slots=True)
class Append(Effect):
    """Add a record to the results log of a job; the same or a lower index again changes nothing.

    `first` is the first record that the job ever had, as far as the agent knows that the record comes from.
    """

    job: bytes
    incarnation: str
    record: ResultRecord
    rows: bytes
    first: int | None = None


@dataclass(frozen=True, slots=True)
class KeepPage(Effect):
    """Keep a page of the rows of an interval, durably, before its record is voted on; see `row_pages`."""

    job: bytes
    incarnation: str
    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DropLog(Effect):
    """Delete the results logs of a job, or set the present one aside and delete those before it.

    `retire`: the job goes on with another numbering, and readers may be behind in this one.
    """

    job: bytes
    retire: bool = False


@dataclass(frozen=True, slots=True)
class ReadLog(Effect):
    """Read records with start <= index < stop, at most `limit` and about LOG_PAGE_BYTES_MAX bytes.

    Attributes:
        incarnation: of the job; one that was set aside is read as well, and that of
            another is as if it were not there. "": the present one.
        digest: of a page of the rows of interval `start`, which is read instead of records; b"": none.
    """

    token: int
    job: bytes
    start: int | None
    stop: int | None
    limit: int
    incarnation: str = ""
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class LogRead(Event):
    """The outcome of a `ReadLog`.

    Attributes:
        token: of the question.
        page: records and rows, as `pages.encode_page` writes them, or the page of rows that was asked for.
        next: index to go on from; None if there was nothing.
        earliest: first index held, None if the log is empty.
        latest: last index held.
        expired: highest index that retention has dropped, None if none was.
        schema: serialised Arrow schema of the results so far, b"" while unknown.
        partials: the same of the partial aggregates that are kept, b"" where none are.
        error: why it could not be read, "" if it could.
        first: index of the first record that the job ever had, None if it is not known.
        hole: where records lack, from the first index up to and without the second, if the page ends there.
        ended: the page has all that there is before `stop`, or before the hole.
        lost: intervals of the log that are declared lost, first and last of each run.
    """

    token: int
    page: bytes = b""
    next: int | None = None
    earliest: int | None = None
    latest: int | None = None
    expired: int | None = None
    schema: bytes = b""
    partials: bytes = b""
    error: str = ""
    first: int | None = None
    hole: tuple[int, int] | None = None
    ended: bool = False
    lost: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LogInfo:
    """A results log found on disk.

    `holes`: where damage took records of it, in order. `pages`: index and digest of the row pages behind its
    last record.
    """

    job: bytes
    incarnation: str
    latest: int | None
    first: int | None = None
    holes: tuple[tuple[int, int], ...] = ()
    pages: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class LogDamaged(Event):
    """Records that were in a results log cannot be read any more."""

    log: LogInfo


@dataclass(frozen=True, slots=True)
class MendLog(Effect):
    """Put a page of records into the hole of a results log that begins at `start`, and then at `stop`."""

    job: bytes
    incarnation: str
    start: int
    stop: int
    page: bytes
