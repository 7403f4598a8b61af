"""Session windows at the root: continues open sessions with the records of one interval, and ends others.

A session ends when its group has no record for longer than the gap. Panes are as wide as the gap, so the
records of a group in one pane form one *fragment*, reduced in the tree like any group. The root adds the
panes in order. A fragment continues the open session if it begins at most one gap after its last record
(Spark's comparison). An open session that is not continued has ended and is a row of the interval.

Invariant: a session that begins in a pane may have begun in the pane before, if that one lacks records, and
not earlier. So it has at most the completeness of both.

Paper: Akidau et al. 2015, 2.2 (sessions).
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from elfmesh.cbt import finish_blocks
from elfmesh.cbt.rows import Rows
from elfmesh.ql.engine.open_groups import (
    NEVER_US,
    ClosedPane,
    GroupStep,
    Ints,
    Open,
    Tables,
    chosen,
    integers,
    merged,
    owners,
    together,
    with_lacking,
)
from elfmesh.ql.plan.statement import FIRST_TIME, LAST_TIME, MAIN, SESSION, Statement


def step(statement: Statement, open_: Open, pane: ClosedPane) -> GroupStep:
    """Add the content of one pane to the sessions that are open after all earlier intervals.

    Raises DataError if more than OPEN_ROWS_MAX rows are open. Cost: a copy of both sides' rows and a hash
    aggregation of keys.
    """
    assert statement.window is not None
    fresh, completeness = pane.rows(SESSION), pane.completeness
    keys, gap = statement.tables[0].keys, statement.window.size_us
    ended: list[tuple[float, Tables]] = []
    shares: list[tuple[float, Tables]] = []
    continued = np.zeros(fresh[MAIN].count if MAIN in fresh else 0, np.bool_)
    for share, tables in open_.shares.items():
        at = _continued_by(keys, tables[MAIN], fresh.get(MAIN), gap)
        ended.append((share, chosen(keys, tables, at < 0)))
        going_on, going_places = chosen(keys, tables, at >= 0), at[at >= 0]
        if len(going_places):
            mine = np.zeros(len(continued), np.bool_)
            mine[going_places] = True
            continued |= mine
            shares.append((min(share, completeness), merged([going_on, chosen(keys, fresh, mine)])))
    if not continued.all():
        began = min(completeness, _completeness_before(open_, pane))
        shares.append((began, chosen(keys, fresh, ~continued)))
    shown = [(share, tables) for share, tables in ended if tables]
    left = together(shares, SESSION)
    return GroupStep(
        finish_blocks(merged([tables for _, tables in shown])),
        min((share for share, _ in shown), default=1.0),
        replace(
            left,
            due_us=left.due_us if left.shares else NEVER_US,
            lacking=with_lacking((), pane.end_us, completeness),
        ),
    )


def _completeness_before(open_: Open, pane: ClosedPane) -> float:
    """Return the completeness of the pane before: a session may have a missing record there."""
    return min((share for end_us, share in open_.lacking if end_us == pane.start_us), default=1.0)


def _continued_by(keys: tuple[str, ...], sessions: Rows, fragments: Rows | None, gap: int) -> Ints:
    """Return int64 per open session: the fragment that continues it, or -1."""
    if fragments is None:
        return np.full(sessions.count, -1, np.int64)
    at = owners(keys, fragments, sessions)
    begins, last = integers(fragments, FIRST_TIME), integers(sessions, LAST_TIME)
    return np.where((at >= 0) & (begins[at] - last <= gap), at, -1)
