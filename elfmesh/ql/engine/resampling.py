"""RESAMPLE: a row for each grid point of the interval, with values of neighbours.

The grid is aligned to 1970. Each partition with a row gets one row for each grid point of the interval at
which it has none; rows that exist stay as they are. A neighbour is a row of the same partition whose value is
not null, at most MAX GAP away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from elfmesh.arrow_kernels import pc
from elfmesh.errors import QueryError
from elfmesh.ql.expressions.resampling import Fill, FillRule
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.plan.relation import Resampled
from elfmesh.ql.values.columns import float_values, from_numpy, int_values, null_mask
from elfmesh.ql.values.joining import row_codes, taken
from elfmesh.ql.values.types import DOUBLE, TIMESTAMP, VOID, type_name

GRID_MAX = 1_000_000
"""Maximum number of grid points of an interval."""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Constant = Callable[[FillRule, pa.DataType], pa.Scalar]
Refuse = Callable[[str, str], QueryError]


class _Line(Struct, frozen=True):
    """Rows and grid points of all partitions in order, and of each grid point whether a row is missing there.

    `rows` has the row of the table, -1 for a grid point.
    """

    codes: Ints
    times: Ints
    rows: Ints
    missing: Ints


def resampled(
    relation: Resampled,
    source: pa.Table,
    bounds: tuple[int, int] | None,
    check: Callable[[int], None],
    constant: Constant,
    refuse: Refuse,
) -> pa.Table:
    """Return the rows of a SELECT and those that its RESAMPLE adds.

    Args:
        relation: the clause, with the names of the source's columns.
        source: the rows, of which there may be none.
        bounds: start and end of the window in microseconds; None: the grid reaches from the first to the last
            row.
        check: raises if there would be too many rows.
        constant: converts the constant of a rule to the type of its column.
        refuse: makes the error of a message and a hint.

    Raises:
        QueryError: two rows at one time, a column of a wrong type, or a grid that is too fine.

    Cost: a sort of the rows and grid points.
    """
    clause = relation.clause
    columns = {name: read_column(source.column(name)) for name in source.column_names}
    for rule in clause.fills:
        _check(rule, columns[rule.column].type, refuse)
    at = columns[clause.column]
    if at.type not in (TIMESTAMP, VOID):
        raise refuse(
            f"{clause.column} of RESAMPLE is {type_name(at.type)}, not TIMESTAMP",
            f"Write date_bin(INTERVAL '10' SECOND, ts) AS {clause.column}.",
        )
    if not source.num_rows or at.type == VOID:
        return source
    times, known = int_values(at), ~null_mask(at)
    keys = [columns[name] for name in clause.partition]
    codes = row_codes(keys, [True] * len(keys), source.num_rows)
    begin, end = _range(relation, times[known], bounds, refuse)
    grid = np.arange(-(-begin // clause.every_us) * clause.every_us, end, clause.every_us, dtype=np.int64)
    parts, first = np.unique(codes, return_index=True)
    check(len(grid) * len(parts))
    line = _line(codes, times, np.flatnonzero(known), parts, grid)
    _refuse_twice(line, source, (*clause.partition, clause.column), refuse)
    owner = first[np.searchsorted(parts, line.codes[line.missing])]
    rules = {rule.column: rule for rule in clause.fills}
    added: dict[str, pa.Array] = {}
    for name, column in columns.items():
        if name == clause.column:
            added[name] = pa.array(line.times[line.missing]).view(TIMESTAMP)
        elif name in clause.partition:
            added[name] = column.take(pa.array(owner))
        else:
            added[name] = _filled(column, rules.get(name), line, clause.gap_us, constant)
    shown = np.flatnonzero((times >= begin) & known) if relation.shown_us else np.arange(source.num_rows)
    kept = {name: column.take(pa.array(shown)) for name, column in columns.items()}
    arrays = [pa.concat_arrays([kept[name], added[name]]) for name in source.column_names]
    return pa.Table.from_arrays(arrays, names=source.column_names)


def _check(rule: FillRule, kind: pa.DataType, refuse: Refuse) -> None:
    if rule.how in (Fill.LINEAR, Fill.LINEAR_OR_PREVIOUS) and kind not in (DOUBLE, VOID):
        raise refuse(
            f"{rule.how} is for DOUBLE, and {rule.column} is {type_name(kind)}",
            f"Write CAST({rule.column} AS DOUBLE), or FILL ({rule.column} PREVIOUS).",
        )


def _range(
    relation: Resampled, times: Ints, bounds: tuple[int, int] | None, refuse: Refuse
) -> tuple[int, int]:
    """Return the first and the last time, exclusive, of the grid."""
    every = relation.clause.every_us
    if bounds is None:
        begin, end = (int(times.min()), int(times.max()) + 1) if len(times) else (0, 0)
    else:
        begin, end = (bounds[1] - relation.shown_us if relation.shown_us else bounds[0]), bounds[1]
    points = (end - begin) // every
    if points > GRID_MAX:
        raise refuse(
            f"RESAMPLE makes {points} rows of each partition, and {GRID_MAX} are the most",
            "Make EVERY of RESAMPLE longer, or the interval shorter.",
        )
    return begin, end


def _line(codes: Ints, times: Ints, known: Ints, parts: Ints, grid: Ints) -> _Line:
    added = len(parts) * len(grid)
    all_codes = np.concatenate([codes[known], np.repeat(parts, len(grid))])
    all_times = np.concatenate([times[known], np.tile(grid, len(parts))])
    rows = np.concatenate([known, np.full(added, -1, np.int64)])
    order = np.lexsort((rows < 0, all_times, all_codes))  # a row stands before its grid point
    codes, times, rows = all_codes[order], all_times[order], rows[order]
    same = np.zeros(len(order), dtype=np.bool_)
    same[1:] = (codes[1:] == codes[:-1]) & (times[1:] == times[:-1]) & (rows[:-1] >= 0)
    return _Line(codes, times, rows, np.flatnonzero((rows < 0) & ~same))


def _refuse_twice(line: _Line, source: pa.Table, names: tuple[str, ...], refuse: Refuse) -> None:
    twice = (line.codes[1:] == line.codes[:-1]) & (line.times[1:] == line.times[:-1])
    twice &= (line.rows[1:] >= 0) & (line.rows[:-1] >= 0)
    found = np.flatnonzero(twice)
    if not len(found):
        return
    both = source.take(pa.array(np.sort(line.rows[found[0] : found[0] + 2]))).to_pylist()
    first, second = (", ".join(f"{name}={value}" for name, value in row.items()) for row in both)
    raise refuse(
        f"RESAMPLE finds two rows at one time: {first:.200}; and {second:.200}",
        f"Group by {', '.join(names)}, or name what tells them apart in PARTITION BY.",
    )


def _filled(
    column: pa.Array, rule: FillRule | None, line: _Line, gap_us: int, constant: Constant
) -> pa.Array:
    """Return the values of a column in the rows that are added."""
    count = len(line.missing)
    if rule is None or column.type == VOID:
        return pa.nulls(count, column.type)
    if rule.how == Fill.VALUE:
        value = constant(rule, column.type)
        return pa.nulls(count, column.type) if not value.is_valid else pa.repeat(value, count)
    valid = line.rows >= 0
    valid[valid] = ~null_mask(column)[line.rows[valid]]
    before = _near(line, _last(valid), gap_us)
    after = _near(line, len(valid) - 1 - _last(valid[::-1])[::-1], gap_us)
    previous = taken(column, np.where(before >= 0, line.rows[before], -1))
    if rule.how == Fill.PREVIOUS:
        return previous
    if rule.how == Fill.NEXT:
        return taken(column, np.where(after >= 0, line.rows[after], -1))
    between = _between(column, line, before, after)
    return pc.coalesce(between, previous) if rule.how == Fill.LINEAR_OR_PREVIOUS else between


def _last(valid: Mask) -> Ints:
    """Return for each place the last valid place up to it, -1 if there is none."""
    return np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))


def _near(line: _Line, place: Ints, gap_us: int) -> Ints:
    """Return the neighbours of the missing rows, -1 where they are too far or of another partition."""
    found = place[line.missing]
    inside = (found >= 0) & (found < len(line.rows))
    found = np.where(inside, found, 0)
    near = np.abs(line.times[found] - line.times[line.missing]) <= gap_us
    near &= line.codes[found] == line.codes[line.missing]
    return np.where(inside & near, found, -1)


def _between(column: pa.Array, line: _Line, before: Ints, after: Ints) -> pa.Array:
    values: Any = float_values(column)
    both = (before >= 0) & (after >= 0)
    low, high = np.where(both, before, 0), np.where(both, after, 0)
    start, end = values[np.where(both, line.rows[low], 0)], values[np.where(both, line.rows[high], 0)]
    span = np.where(both, line.times[high] - line.times[low], 1)
    share = (line.times[line.missing] - line.times[low]) / span
    with np.errstate(invalid="ignore", over="ignore"):
        made = start + (end - start) * share
    return from_numpy(made, ~both, DOUBLE)
