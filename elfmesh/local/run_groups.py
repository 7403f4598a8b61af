"""Converts intervals of `elf run` to results. If windows span intervals, these are the groups that end.

The step is that of a job's root on the same panes, so a run reports each group in the same interval as a
job. The end of the input ends all sessions and partitions, in the interval after the last one. It ends no
window of ROWS, because a window that is not full has no row. The left rows of WITHIN that wait for a match
are rows of the intervals in which they would be on agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from elfmesh.cbt import finish_blocks
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED, counts_dict, counts_list, with_broken, with_late
from elfmesh.ingest.worker.intervals import OpenInterval
from elfmesh.ql.engine import group_steps
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.engine.open_groups import NEVER_US, NONE, ClosedPane
from elfmesh.ql.plan.statement import SEALED, SESSION, WITHIN, Statement

ENDS_GROUPS = (SESSION, SEALED)
"""Kinds of windows whose open groups are rows when the input ends."""

MEMBERS = ("",)
"""The one producer of a run is the process that reads the logs."""


class ShownInterval(Struct, frozen=True):
    """An interval to finalise.

    Attributes:
        index: number of the interval.
        counts: records by bucket.
        tables: tables from which its rows are computed.
        completeness: the least completeness of the groups that end in it.
    """

    index: int
    counts: tuple[int, ...]
    tables: Mapping[str, Reduced]
    completeness: float = 1.0


def shown(statement: Statement, intervals: Iterable[OpenInterval]) -> Iterator[ShownInterval]:
    """Yield the intervals to finalise, in order. The last interval ends the input.

    Raises DataError if too many groups are open at a time.
    """
    # if no record has a usable time, the counts belong to no interval
    intervals = (interval for interval in intervals if interval.index > FIRST)
    if statement.spans_intervals:
        yield from _GroupRun(statement).all(intervals)
        return
    for interval in intervals:
        yield ShownInterval(interval.index, interval.counts, finish_blocks(interval.tables or {}))


class _GroupRun:
    """The steps of one run; `next` is the interval after the newest one."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._open, self.next = NONE, 0

    def all(self, intervals: Iterable[OpenInterval]) -> Iterator[ShownInterval]:
        for interval in intervals:
            while (due := self._due()) is not None and due < interval.index:
                yield self._step(OpenInterval(due, NOT_COUNTED, None))
            yield self._step(interval)
        window = self._statement.window
        if self._open.shares and window is not None and window.kind in ENDS_GROUPS:
            yield self._step(OpenInterval(self.next, NOT_COUNTED, None), is_last=True)
        while window is not None and window.kind == WITHIN and self._open.due_us < NEVER_US:
            due = self._due()
            if due is None:
                break
            yield self._step(OpenInterval(due, NOT_COUNTED, None))

    def _due(self) -> int | None:
        """Return the interval in which a group ends without a record."""
        window, open_ = self._statement.window, self._open
        assert window is not None
        if not open_.shares:
            return None
        return max(self.next, window.first_ending(open_.due_us))

    def _step(self, interval: OpenInterval, *, is_last: bool = False) -> ShownInterval:
        window, open_ = self._statement.window, self._open
        assert window is not None
        start_us = interval.index * window.slide_us
        bounds = (start_us, start_us + window.size_us)
        pane = ClosedPane(interval.tables or {}, 1.0, *bounds, MEMBERS, is_last)
        done = group_steps.step(self._statement, open_, pane)
        self._open, self.next = done.open, interval.index + 1
        counts = with_broken(with_late(counts_dict(interval.counts), done.late), done.broken)
        return ShownInterval(interval.index, counts_list(counts), done.ended, done.completeness)
