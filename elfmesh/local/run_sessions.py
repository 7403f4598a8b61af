"""Intervals of `elf run` as its results show them: of a query with session windows, the sessions that end.

The step is that of a job's root, on the same panes, so a run gives each session in the interval in which a
job would.
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
"""An interval's index, its counts, and the tables that its rows are made of."""


def shown(statement: Statement, intervals: Iterable[OpenInterval]) -> Iterator[Shown]:
    """What there is to finalise, in order; the last of the ascending intervals ends the input.

    DataError: too many sessions are open at a time.
    """
    # Where no record at all has a usable time, what was counted is in no interval.
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
