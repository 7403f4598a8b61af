"""Converts intervals of `elf run` to results. For session windows, these are the sessions that end.

The step is that of a job's root on the same panes, so a run reports each session in the same interval as a
job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from elfmesh.cbt import finish_blocks
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED
from elfmesh.ingest.worker.intervals import OpenInterval
from elfmesh.ql.engine import sessions
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.plan.statement import Statement

Shown = tuple[int, tuple[int, ...], Mapping[str, Reduced]]
"""Index of an interval, its counts, and the tables from which its rows are computed."""


def shown(statement: Statement, intervals: Iterable[OpenInterval]) -> Iterator[Shown]:
    """Yield the intervals to finalise, in order. The last interval ends the input.

    Raises DataError if too many sessions are open at a time.
    """
    # if no record has a usable time, the counts belong to no interval
    intervals = (interval for interval in intervals if interval.index > FIRST)
    if not statement.has_sessions:
        for interval in intervals:
            yield interval.index, interval.counts, finish_blocks(interval.tables or {})
        return
    open_, index = sessions.NONE, 0
    for interval in intervals:
        if interval.index != index and not open_.is_empty:
            yield index, NOT_COUNTED, sessions.step(statement, open_, {}).ended
            open_ = sessions.NONE
        done = sessions.step(statement, open_, interval.tables or {})
        yield interval.index, interval.counts, done.ended
        open_, index = done.open, interval.index + 1
    if not open_.is_empty:
        yield index, NOT_COUNTED, sessions.step(statement, open_, {}).ended
