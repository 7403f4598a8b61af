"""What the records of jobs must be whose rows span intervals: SESSION, ROWS and WITHIN.

Owns a walk over the published records in order, in a few lines that share nothing with the product. Each kind
keeps all lines that it may need, by key, and computes the rows of an interval again from these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from elfmesh.control.jobs.records import FIRST, ResultRecord
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.judging.history import Incarnation
from tests.sim.swarm.judging.oracle import Truth, kept
from tests.sim.swarm.judging.outcome import Outcome, table
from tests.sim.swarm.scenario import RECOVERY
from tests.sim.swarm.workload import Written

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[object, ...]
Spanned = tuple[list[Row], float]
"""The rows of an interval, and the least completeness of the intervals that they may have records of."""


class Walk(ABC):
    """The state behind an interval.

    Args:
        job: the job.
    """

    columns: tuple[str, ...] = ("k", "window_start", "window_end", "n", "s")

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def read(self, start_us: int, end_us: int, share: float, lines: list[Written]) -> Spanned:
        """Take the lines of an interval."""

    @abstractmethod
    def skip(self, end_us: int) -> None:
        """Take an interval that is skipped."""

    @property
    def is_due(self) -> bool:
        """Whether the next interval has a record, with lines or without."""
        return False


@dataclass
class _Session:
    lines: list[Written]
    share: float

    @property
    def last_us(self) -> int:
        return max(line.ts_us for line in self.lines)


class Sessions(Walk):
    """Sessions end when their key has no line for longer than the gap."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._open: dict[str, _Session] = {}
        self._before = (0, 1.0)

    @property
    def is_due(self) -> bool:
        return bool(self._open)

    def read(self, start_us: int, end_us: int, share: float, lines: list[Written]) -> Spanned:
        gap_us, ended = self.job.slide_us, list[_Session]()
        fresh: dict[str, list[Written]] = {}
        for line in lines:
            fresh.setdefault(line.key, []).append(line)
        for key, session in [*self._open.items()]:
            if key in fresh and min(line.ts_us for line in fresh[key]) - session.last_us <= gap_us:
                session.lines += fresh.pop(key)
                session.share = min(session.share, share)
            else:
                ended.append(self._open.pop(key))
        began = min(share, self._before[1] if self._before[0] == start_us else 1.0)
        self._open |= {key: _Session(mine, began) for key, mine in fresh.items()}
        self._before = end_us, share
        rows = [_window(each.lines, gap_us) for each in ended]
        return rows, min((each.share for each in ended), default=1.0)

    def skip(self, end_us: int) -> None:
        self._before = end_us, 0.0
        for session in self._open.values():
            session.share = 0.0


class Counts(Walk):
    """Windows of so many lines of a key, in the order of their times, then of their numbers."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._lines: dict[str, list[Written]] = {}
        self._share = 1.0

    def read(self, start_us: int, end_us: int, share: float, lines: list[Written]) -> Spanned:
        self._share, rows = min(self._share, share), list[Row]()
        before = {key: len(mine) for key, mine in self._lines.items()}
        for line in sorted(lines, key=lambda each: (each.ts_us, each.id)):
            self._lines.setdefault(line.key, []).append(line)
        size, step = self.job.rows, self.job.step
        for key, mine in self._lines.items():
            for begin in range(0, len(mine) - size + 1, step):
                if begin + size > before.get(key, 0):
                    rows.append(_window(mine[begin : begin + size], 0))
        return rows, self._share

    def skip(self, end_us: int) -> None:
        self._lines.clear()
        self._share = 0.0


class Pairs(Walk):
    """Two lines of a key that are less than a time apart, in the interval of the later one."""

    columns = ("id", "other")

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._lines: list[Written] = []
        self._shares: list[tuple[int, float]] = []

    def read(self, start_us: int, end_us: int, share: float, lines: list[Written]) -> Spanned:
        width_us, rows = self.job.within_s * 1_000_000, list[Row]()
        for one in lines:
            for other in chain(self._lines, lines):
                near = one.key == other.key and abs(one.ts_us - other.ts_us) < width_us
                if near and (other.ts_us < start_us or one.id < other.id):
                    rows.append((min(one.id, other.id), max(one.id, other.id)))
        near_us = start_us - width_us
        least = min([share, *(each for at, each in self._shares if at > near_us)])
        self._lines = [line for line in chain(self._lines, lines) if line.ts_us > end_us - width_us]
        self._shares.append((end_us, share))
        return rows, least

    def skip(self, end_us: int) -> None:
        self._shares.append((end_us, 0.0))


WALKS: dict[str, type[Walk]] = {"SESSION": Sessions, "ROWS": Counts, "WITHIN": Pairs}


def _window(lines: list[Written], gap_us: int) -> Row:
    times = [line.ts_us for line in lines]
    return (lines[0].key, min(times), max(times) + gap_us, len(lines), sum(line.id for line in lines))


def _found(row: dict[str, Any], columns: tuple[str, ...]) -> Row:
    """Return the values of a row, with times in microseconds: their texts have no zeros at the end."""
    return tuple(_us(row[name]) if name.startswith("window_") else row[name] for name in columns)


def _us(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def i5_rows_that_span_intervals(out: Outcome) -> Iterator[str]:
    """A record has the sessions, windows and pairs that end in its interval, under each of the masters."""
    for key, published in out.final.items():
        truth = out.truths[key]
        if not truth.job.spans or out.history.tampered or out.scenario.has(RECOVERY) or key[0] in out.lost:
            continue
        yield from _walked(out, truth, key, [published[index] for index in sorted(published)])


def _walked(
    out: Outcome, truth: Truth, key: Incarnation, records: list[tuple[ResultRecord, bytes]]
) -> Iterator[str]:
    job, before = truth.by(records[0][0].version) if records else truth.job, FIRST
    walk = WALKS[job.spans](job)
    for record, rows in records:
        roster, where = out.roster(key, record), f"{key[0]} {record.index}"
        if roster is None or record.version != records[0][0].version:
            return  # another version may begin without what the one before has kept
        assert record.start_us is not None
        assert record.end_us is not None
        if walk.is_due and record.first > before + 1:
            yield f"{where}: something is open behind {before}, and there is no record"
            return
        before = record.index
        if record.state == "SKIPPED":
            walk.skip(record.end_us)
            continue
        share, revs = (len(roster) - len(record.missing)) / max(1, len(roster)), out.revs(key, record)
        lines = [
            line
            for name in sorted((set(roster) - set(record.missing)) & set(truth.hosts))
            for line in kept(job, truth.hosts[name].contributed(truth.job, record.index, revs.get(name, 1)))
        ]
        expected, least = walk.read(record.start_us, record.end_us, share, lines)
        found = sorted(_found(row, walk.columns) for row in table(rows))
        if found != sorted(expected):
            lost, alien = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
            yield f"{where}: lost {lost[:5]}, not expected {alien[:5]}"
            return
        if record.completeness != (completeness := min(share, least)):
            yield f"{where}: completeness {record.completeness}, expected {completeness}"
            return
