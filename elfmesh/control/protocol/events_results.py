"""Effects and events about the rows of intervals and results logs; `events` exports them with all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.machine import Effect, Event

LOG_PAGE_BYTES_MAX = 4 << 20
"""Approximate size of the records that one read returns, so that replies do not block the bulk lane."""


@dataclass(frozen=True, slots=True)
class Finalise(Effect):
    """Merge an interval's payloads (per partition) and evaluate the query's final part, in a thread.

    Attributes:
        open: groups that are open before the interval, which its records continue; None: no group of the
            query spans intervals.
        completeness: completeness of the interval.
        members: ids of the members that the interval expects, if groups of the query span intervals.
        inputs: (input, start, rows) of the results of other jobs: without `parts` the only input, with
            `parts` the side inputs.
        early: the early rows of the interval, as Arrow IPC streams; the rows are compared with them.
        tentative: fidelity and rows of the tentative record, with which the final rows are compared.
        prefixes: payloads of prefixes, which are left out if they cannot be merged.
        then: orders for later intervals of the same version. Each continues the groups that the order before
            it leaves open, and not its own `open`.
    """

    job: bytes
    epoch: int
    manifest: Manifest
    interval: int
    parts: tuple[tuple[bytes, ...], ...]
    rev: int = 1
    open: bytes | None = None
    completeness: float = 1.0
    inputs: tuple[tuple[str, int, bytes], ...] = ()
    members: tuple[str, ...] = ()
    early: tuple[bytes, ...] = ()
    tentative: tuple[float, bytes] | None = None
    prefixes: tuple[bytes, ...] = ()
    then: tuple[Finalise, ...] = ()


@dataclass(frozen=True, slots=True)
class Finalised(Event):
    """The rows of an interval as an Arrow IPC stream, or an error.

    Attributes:
        pages: pages of the rows, if they are too large for the record; `rows` is then their table.
        open: groups that are open after the interval.
        due_us: some of them end with the first interval that ends then or later, even if it has no records.
        late: number of records of groups that had ended.
        completeness: lowest completeness of the intervals that may have records of the ended groups.
        counts: counts of records, if there were `inputs`.
        withdrawn: early rows that are not among the rows.
        accuracy: fidelity, overlap and error of the tentative record; None: nothing was compared.
        lacks_prefixes: whether the rows are made without the prefixes, because these could not be merged.
        broken: violations of ASSUME by groups that are open together.
        then: outcomes of the orders in `Finalise.then`, up to the first error.
    """

    job: bytes
    epoch: int
    interval: int
    rows: bytes = b""
    error: str = ""
    rev: int = 1
    open: bytes = b""
    completeness: float = 1.0
    counts: tuple[int, ...] = ()
    pages: tuple[bytes, ...] = ()
    due_us: int = 0
    late: int = 0
    withdrawn: tuple[dict[str, Any], ...] = ()
    accuracy: tuple[float, float, float | None] | None = None
    lacks_prefixes: bool = False
    broken: int = 0
    then: tuple[Finalised, ...] = ()


class Append(Effect, Struct, frozen=True):
    """Add a record to the results log of a job; an index that is not above the last one changes nothing.

    `first` is the index of the job's first record, as far as the sender of the record knows it.
    """

    job: bytes
    incarnation: str
    record: ResultRecord
    rows: bytes
    first: int | None = None


class KeepPage(Effect, Struct, frozen=True):
    """Store a page of the rows of an interval durably, before the vote on its record; see `row_pages`."""

    job: bytes
    incarnation: str
    index: int
    data: bytes


class DropLog(Effect, Struct, frozen=True):
    """Delete the results logs of a job, or set the present one aside and delete earlier ones.

    `retire`: set it aside, because the job continues with another numbering, and readers may still need this
    one.
    """

    job: bytes
    retire: bool = False


class ReadLog(Effect, Struct, frozen=True):
    """Read records with start <= index < stop, at most `limit` and about LOG_PAGE_BYTES_MAX bytes.

    Attributes:
        incarnation: incarnation of the log, which may be set aside; the log of another one is not read. "":
            the present one.
        digest: digest of a page of rows of interval `start` to read instead of records; b"": records.
    """

    token: int
    job: bytes
    start: int | None
    stop: int | None
    limit: int
    incarnation: str = ""
    digest: bytes = b""


class LogRead(Event, Struct, frozen=True):
    """The outcome of a `ReadLog`.

    Attributes:
        token: token of the `ReadLog`.
        page: records and rows, as `pages.encode_page` writes them, or the requested page of rows.
        next: index from which to continue; None if the page is empty.
        earliest: first index in the log; None if the log is empty.
        latest: last index in the log.
        expired: highest index that retention has deleted; None if it has deleted none.
        schema: serialised Arrow schema of the results so far; b"" while unknown.
        partials: the same of the stored partial aggregates; b"" if there are none.
        error: why the log could not be read; "" if it could.
        first: index of the job's first record; None if it is not known.
        hole: missing records [first, second), if the page ends there.
        ended: whether the page has all records before `stop`, or before the hole.
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


class LogInfo(Struct, frozen=True):
    """A results log on disk.

    `holes` are the ranges of damaged records, in order. `pages` are index and digest of the row pages after
    its last record.
    """

    job: bytes
    incarnation: str
    latest: int | None
    first: int | None = None
    holes: tuple[tuple[int, int], ...] = ()
    pages: tuple[tuple[int, bytes], ...] = ()


class LogDamaged(Event, Struct, frozen=True):
    """Some records of a results log cannot be read any more."""

    log: LogInfo


class MendLog(Effect, Struct, frozen=True):
    """Fill the hole of a results log that begins at `start` with a page; the rest begins at `stop`."""

    job: bytes
    incarnation: str
    start: int
    stop: int
    page: bytes
