"""Intervals between decision and publication, and the interface of the interval closer to its master.

Owns these types and the content of an interval's record; `Closer` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from msgspec.structs import replace

from elfmesh.control.closing.decisions import Decision
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST, ResultRecord, State, counts_dict
from elfmesh.control.protocol.events import Finalise
from elfmesh.interval_map import IntervalMap
from elfmesh.srt.coverage import bitmap_of


class Phase(StrEnum):
    """State of an interval; the head of `interval_closer` has the table of transitions."""

    OPEN = "OPEN"
    MAKING = "MAKING"
    READY = "READY"
    HANDED = "HANDED"
    CLOSED = "CLOSED"
    GONE = "GONE"


@dataclass(slots=True)
class Closing:
    """An interval that is decided and not published.

    Attributes:
        record: its record.
        rows: rows of the record; None while they are being made.
        handed: whether the committer has it.
        decision: the decision from which the record follows.
        order: the order to make the rows, while they are being made, if they continue open groups.
    """

    record: ResultRecord
    rows: bytes | None
    handed: bool = False
    decision: Decision | None = None
    order: Finalise | None = None

    @property
    def phase(self) -> Phase:
        if self.rows is None:
            return Phase.MAKING
        return Phase.HANDED if self.handed else Phase.READY


class Failed:
    """Contributions that cannot be merged with the others, so that their members are missing."""

    def __init__(self) -> None:
        self._failed: IntervalMap[tuple[tuple[int, str], ...]] = IntervalMap(FIRST, ())

    def add(self, start: int, stop: int, mask: int, why: str) -> None:
        """Add those of the members in `mask` for the intervals [start, stop)."""
        self._failed.change(start, stop, lambda before: (*before, (mask, why)))

    def named(self, record: ResultRecord, missing: int) -> ResultRecord:
        reasons = (why for mask, why in self._failed.at(record.index) if mask & missing)
        return replace(record, reason=next(reasons, record.reason))

    def at(self, interval: int) -> tuple[int, int]:
        """Return the members that fail at an interval, and one past the last interval with the same ones."""
        failed = 0
        for mask, _ in self._failed.at(interval):
            failed |= mask
        return failed, self._failed.until(interval)

    def drop_below(self, interval: int) -> None:
        self._failed.drop_below(interval)


class Frontiers:
    """Frontiers that late members have reported; other members do not report them."""

    def __init__(self) -> None:
        self._reported: dict[int, int] = {}

    def note(self, number: int, frontier: int) -> None:
        """Record that a member has sealed all intervals below `frontier`."""
        self._reported[number] = max(frontier, self._reported.get(number, frontier))

    def of(self, number: int) -> int | None:
        return self._reported.get(number)

    def beyond(self, mask: int, interval: int) -> bool:
        return any(mask >> number & 1 and frontier > interval for number, frontier in self._reported.items())


class Leader(Protocol):
    """Interface of the master to its interval closer."""

    def close_ready(self) -> None:
        """Call `Closer.advance`, because input has arrived for which an interval may wait."""
        ...

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        """Commit a ready record; the master calls `Closer.committed` when the register has closed it."""
        ...

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None:
        """Store the pages of the rows of a record before it is committed."""
        ...

    def shown(self) -> None: ...

    def advanced(self) -> None: ...

    def hasten(self, stop: int) -> None:
        """Order the trees not to wait for members below `stop`."""
        ...

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None: ...

    def request_of_sites(self, missing: int, due: float) -> float:
        """Request what sites hold of members that the first open interval lacks since `due`.

        Returns:
            When the sites should have answered; in the past if none is asked.
        """
        ...

    def evicted(self) -> None: ...

    @property
    def is_granted(self) -> bool:
        """Whether votes may close intervals, so that only complete ones may be decided here."""
        ...

    def end_grant(self) -> None:
        """End the grant, because an interval needs the master; then the master calls `Closer.advance`."""
        ...


NAMED = 3
"""Maximum number of missing agents in the text of a step; the record names all."""


def decided_as(record: ResultRecord) -> str:
    """Return the text of the step for a decision."""
    names = ", ".join(record.missing[:NAMED])
    more = f" and {len(record.missing) - NAMED} more" if len(record.missing) > NAMED else ""
    return f"{record.state} without {names}{more}" if names else record.state


About = tuple[int, int | None, State, int, int, tuple[int | None, int | None]]
"""Index of an interval, first interval of the run that it ends, state, revision, epoch, and window in
microseconds UTC."""


def make_record(
    manifest: Manifest,
    about: About,
    required: int,
    missing: int,
    names: list[str],
    fidelity: float,
    counts: tuple[int, ...],
    outside: int,
    revs: tuple[tuple[int, int], ...],
) -> ResultRecord:
    """Return the record of an interval.

    Args:
        manifest: the version.
        about: see `About`.
        required: bit set of the expected members.
        missing: bit set of the missing members.
        names: names of the missing members.
        fidelity: share of the usual records that is inside.
        counts: counts per bucket.
        outside: all roster numbers that are not inside, including agents that are not expected.
        revs: (number, revision) of the contributions inside whose revision is above 1.
    """
    index, since, state, rev, epoch, (start_us, end_us) = about
    expected, absent = required.bit_count(), missing.bit_count()
    used = state != "SKIPPED"  # a skipped interval has no rows
    return ResultRecord(
        job=manifest.qualified,
        index=index,
        start_us=start_us,
        end_us=end_us,
        state=state,
        rev=rev,
        completeness=(expected - absent) / expected if used else 0.0,
        fidelity=fidelity if used else 0.0,
        agents_in=expected - absent,
        agents_expected=expected,
        missing=names,
        version=manifest.version,
        epoch=epoch,
        counts=counts_dict(counts),
        absent=bitmap_of(outside),
        revs=revs,
        since=since,
    )
