"""Joins WITHIN a time at the root: keeps the records that later ones may be joined to.

The step only chooses records: those of the interval, and those of earlier ones that are near enough. The
relation joins them, and shows the pairs whose later record is of the interval (`relational`). The state needs
no sign of what was shown before: a pair is a row of the interval of its later record, and a left record
without a match is a row of the interval in which it has waited for the time of the join.

Invariants: behind an interval that ends at T, both sides keep the records later than T - w. For a left join
the right side keeps those later than T - 2 w: they decide whether a left record that still waits has a match.

Paper: Hwang et al., IV-E, Algorithm 2. Deviations: an interval is joined at its end, not record by record;
records at T - w are dropped, because only records within less than w match.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from elfmesh.cbt import finish_blocks
from elfmesh.cbt.rows import Rows, combine
from elfmesh.ql.engine.open_groups import (
    NEVER_US,
    ClosedPane,
    GroupStep,
    Ints,
    Open,
    Tables,
    together,
    with_lacking,
)
from elfmesh.ql.expressions.nodes import Ref
from elfmesh.ql.plan.relation import TIME, part_of, within_of
from elfmesh.ql.plan.statement import MAIN, WITHIN, Statement, part_table


def step(statement: Statement, open_: Open, pane: ClosedPane) -> GroupStep:
    """Return the records that the rows of an interval are made of, and those that later rows need.

    Raises DataError if more than OPEN_ROWS_MAX rows are kept. Cost: a copy of the rows of both.
    """
    join = within_of(statement.relation)
    assert join is not None
    width, is_left = join.within_us, join.kind == "left"
    reaches = {part_of(join.left): width}
    right = part_of(join.right)
    reaches[right] = max(reaches.get(right, 0), 2 * width if is_left else width)
    farthest = max(reaches.values())
    near = [each for each in open_.lacking if each[0] > pane.start_us - farthest]
    share = min(pane.completeness, *(each for _, each in near), 1.0)
    lacking = with_lacking(
        [each for each in near if each[0] > pane.end_us - farthest], pane.end_us, pane.completeness
    )
    kept, fresh = open_.tables(), pane.rows(WITHIN)
    joined, left, due_us = Tables(), Tables(), NEVER_US
    for part, reach in reaches.items():
        name = part_table(part, MAIN)
        blocks = [rows[name] for rows in (kept, fresh) if name in rows]
        if not blocks:
            continue
        rows = combine(blocks)
        times = _times(statement, part, rows)
        joined[name] = rows
        later = np.flatnonzero(times > pane.end_us - reach)
        if len(later):
            left[name] = rows.take(later)
        if is_left and part == part_of(join.left):
            waiting = times[times > pane.end_us - width]
            due_us = int(waiting.min()) + width if len(waiting) else NEVER_US
    opened = together([(1.0, left)], WITHIN, due_us=due_us)
    return GroupStep(finish_blocks(joined), share, replace(opened, lacking=lacking))


def _times(statement: Statement, part: int, rows: Rows) -> Ints:
    """Return int64 per row: the event time in microseconds."""
    column = dict(statement.parts[part].plan.outputs)[TIME]
    assert isinstance(column, Ref)
    times = rows.keys[rows.layout.keys.index(column.name)]
    return np.asarray(times.cast("int64").to_numpy(zero_copy_only=False), np.int64)
