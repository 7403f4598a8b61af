"""What stands between a decided interval and its publication, and what closing asks of the master.

Owns the shapes, and what the record of an interval says; `Closer` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from msgspec.structs import replace

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST, ResultRecord, State, counts_dict
from elfmesh.interval_map import IntervalMap
from elfmesh.srt.coverage import bitmap_of


class Phase(StrEnum):
    """Where an interval is on its way; `interval_closer` has the table of the steps between."""

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
        rows: of the record, None while they are being made.
        handed: whether the register is being asked to close it.
    """

    record: ResultRecord
    rows: bytes | None
    handed: bool = False

    @property
    def phase(self) -> Phase:
        if self.rows is None:
            return Phase.MAKING
        return Phase.HANDED if self.handed else Phase.READY


class Failed:
    """Contributions that cannot be merged with the others: their members are missing."""

    def __init__(self) -> None:
        self._failed: IntervalMap[tuple[tuple[int, str], ...]] = IntervalMap(FIRST, ())

    def add(self, start: int, stop: int, mask: int, why: str) -> None:
        """Those of the members in `mask` for [start, stop)."""
        self._failed.change(start, stop, lambda before: (*before, (mask, why)))

    def named(self, record: ResultRecord, missing: int) -> ResultRecord:
        reasons = (why for mask, why in self._failed.at(record.index) if mask & missing)
        return replace(record, reason=next(reasons, record.reason))

    def at(self, interval: int) -> tuple[int, int]:
        """The members that fail at an interval, and one past the last one that is alike."""
        failed = 0
        for mask, _ in self._failed.at(interval):
            failed |= mask
        return failed, self._failed.until(interval)

    def drop_below(self, interval: int) -> None:
        self._failed.drop_below(interval)


class Frontiers:
    """How far members say that they have sealed; who is in time never has to say so."""

    def __init__(self) -> None:
        self._reported: dict[int, int] = {}

    def note(self, number: int, frontier: int) -> None:
        """A member has sealed everything below `frontier`."""
        self._reported[number] = max(frontier, self._reported.get(number, frontier))

    def of(self, number: int) -> int | None:
        return self._reported.get(number)

    def beyond(self, mask: int, interval: int) -> bool:
        return any(mask >> number & 1 and frontier > interval for number, frontier in self._reported.items())


class Leader(Protocol):
    """What closing needs of the master around it."""

    def close_ready(self) -> None:
        """Something has arrived that an interval may have waited for: `Closer.advance`."""
        ...

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        """A record is ready to become final; `Closer.committed` says when it is."""
        ...

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None:
        """Keep the pages of the rows of a record that is committed next."""
        ...

    def shown(self) -> None: ...

    def advanced(self) -> None: ...

    def hasten(self, stop: int) -> None:
        """Ask the trees not to wait below `stop`."""
        ...

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None: ...

    def evicted(self) -> None: ...


NAMED = 3
"""Missing agents that a step names; the record names all."""


def decided_as(record: ResultRecord) -> str:
    """How an interval was decided, for people."""
    names = ", ".join(record.missing[:NAMED])
    more = f" and {len(record.missing) - NAMED} more" if len(record.missing) > NAMED else ""
    return f"{record.state} without {names}{more}" if names else record.state


About = tuple[int, int | None, State, int, int, tuple[int | None, int | None]]
"""Of one interval: its index, the first of the run that it ends, how it ends, the revision, the epoch, its
window in microseconds UTC."""


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
    """The record of an interval that needs the members `required` and lacks `missing`, called `names`.

    `outside` are all numbers that are not inside, also of agents that are not expected; `revs` are the
    revisions that are.
    """
    index, since, state, rev, epoch, (start_us, end_us) = about
    expected, absent = required.bit_count(), missing.bit_count()
    used = state != "SKIPPED"  # none of what has arrived is in a result
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
