"""Converts intervals of `elf run` to results. If windows span intervals, these are the groups that end.

The step is that of a job's root on the same panes, so a run reports each group in the same interval as a
job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from elfmesh.cbt import finish_blocks
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED
from elfmesh.ingest.worker.intervals import OpenInterval
from elfmesh.ql.engine import group_steps
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.engine.open_groups import NONE, ClosedPane
from elfmesh.ql.plan.statement import Statement

Shown = tuple[int, tuple[int, ...], Mapping[str, Reduced]]
"""Index of an interval, its counts, and the tables from which its rows are computed."""


def shown(statement: Statement, intervals: Iterable[OpenInterval]) -> Iterator[Shown]:
    """Yield the intervals to finalise, in order. The last interval ends the input.

    Raises DataError if too many groups are open at a time.
    """
    # if no record has a usable time, the counts belong to no interval
    intervals = (interval for interval in intervals if interval.index > FIRST)
    if not statement.spans_intervals:
        for interval in intervals:
            yield interval.index, interval.counts, finish_blocks(interval.tables or {})
        return
    open_, index = NONE, 0
    for interval in intervals:
        if interval.index != index and not open_.is_empty:
            yield index, NOT_COUNTED, group_steps.step(statement, open_, ClosedPane()).ended
            open_ = NONE
        done = group_steps.step(statement, open_, ClosedPane(interval.tables or {}))
        yield interval.index, interval.counts, done.ended
        open_, index = done.open, interval.index + 1
    if not open_.is_empty:
        yield index, NOT_COUNTED, group_steps.step(statement, open_, ClosedPane()).ended
