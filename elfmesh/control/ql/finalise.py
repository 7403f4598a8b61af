"""The last step of an interval: from reduced tables to the rows a user sees.

Works on finished aggregate columns; knows no PAOs and no trees. The order of the rows is total: ORDER BY
first, then every output column ascending with nulls first, so that equal content always gives equal
tables and LIMIT always keeps the same rows (interface: "ties are broken by the remaining columns").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.control.ql.analysis import distinct_columns
from elfmesh.control.ql.columns import as_array, bool_values, float_values, int_values, null_mask
from elfmesh.control.ql.compiler import Compiler, read_column, window_column
from elfmesh.control.ql.nodes import Expr, Ref
from elfmesh.control.ql.operand import Env
from elfmesh.control.ql.operators import condition_operand
from elfmesh.control.ql.statement import MAIN, OrderItem, Plan, Statement
from elfmesh.control.ql.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, VOID

Ints = npt.NDArray[np.int64]
DISTINCT_ROWS = "\0rows"
"""The column of a distinct table that was counted before: how many values each key has."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Rows that passed HAVING, before they are put in order.

    Attributes:
        outputs: the output columns by name, aligned.
        order: the values of the ORDER BY items, aligned with them.
        repeat: how often each row came, of a plain projection; else None.
        kinds: types of the reduced columns they were computed from; rows of other types do not mix with them.
    """

    outputs: Mapping[str, pa.Array]
    order: Sequence[pa.Array]
    repeat: Ints | None
    kinds: tuple[pa.DataType, ...]

    @property
    def rows(self) -> int:
        """How many."""
        return len(next(iter(self.outputs.values())))

    def take(self, places: Ints) -> Finished:
        """Some of the rows."""
        taken = pa.array(places)
        return Finished(
            {name: array.take(taken) for name, array in self.outputs.items()},
            [array.take(taken) for array in self.order],
            None if self.repeat is None else self.repeat[places],
            self.kinds,
        )


def finalise(
    statement: Statement, tables: Mapping[str, pa.Table], window: tuple[int, int] | None
) -> pa.Table:
    """The result rows of one interval; see `Query.finalise`."""
    return result(statement.plan, finished(statement, tables, window))


def finished(
    statement: Statement, tables: Mapping[str, pa.Table], window: tuple[int, int] | None
) -> Finished:
    """The outputs of all reduced rows that pass HAVING."""
    plan = statement.plan
    reduced, rows = _reduced_columns(statement, tables)
    # A sum beyond 64 bits stays exact where it is shown as it is; in expressions it is a double.
    columns = {name: read_column(array) for name, array in reduced.items()}
    compiler = Compiler({name: array.type for name, array in columns.items()}, statement.origin)
    if window is not None:
        for side, bound in zip(("start", "end"), window, strict=True):
            columns[window_column(side)] = pa.repeat(pa.scalar(bound, BIGINT), rows).view(TIMESTAMP)
    env = Env(columns, rows)

    def evaluate(expr: Expr) -> pa.Array:
        return reduced[expr.name] if isinstance(expr, Ref) else compiler.compile(expr).array(env)

    passed = Finished(
        {name: evaluate(expr) for name, expr in plan.outputs},
        [evaluate(item.expr) for item in plan.order],
        int_values(columns[plan.repeat]) if plan.repeat else None,
        tuple(array.type for array in reduced.values()),
    )
    if plan.having is None:
        return passed
    having = condition_operand(compiler, plan.having, compiler.compile(plan.having))
    return passed.take(np.flatnonzero(bool_values(having.array(env))))


def best_rows(plan: Plan, rows: Finished) -> Ints:
    """Which rows the result has, in its order; of a plain projection each once, before they are repeated."""
    outputs = list(rows.outputs.values())
    ranked = sorted_rows(list(zip(rows.order, plan.order, strict=True)), outputs)
    if plan.distinct:
        ranked = _first_of_equal(ranked, outputs)
    return ranked if plan.limit is None else ranked[: plan.limit]


def result(plan: Plan, rows: Finished) -> pa.Table:
    """The rows in order, repeated and limited as the query says."""
    ranked = best_rows(plan, rows)
    if rows.repeat is not None:
        ranked = _repeated(ranked, rows.repeat, plan.limit)
    if plan.limit is not None:
        ranked = ranked[: plan.limit]
    places = pa.array(ranked)
    outputs = rows.outputs
    return pa.Table.from_arrays([array.take(places) for array in outputs.values()], names=list(outputs))


def _reduced_columns(statement: Statement, tables: Mapping[str, pa.Table]) -> tuple[dict[str, pa.Array], int]:
    """k*, a* and d* as aligned arrays: of ELF-QL types, or decimal for a sum that needs more than 64 bits."""
    plan, main = statement.plan, tables.get(MAIN)
    spec = statement.tables[0]
    rows = 0 if main is None else main.num_rows
    if rows == 0 and plan.one_row:
        columns = {
            name: pa.array([0 if kind == "count" else None], type=BIGINT if kind == "count" else VOID)
            for name, (kind, _) in spec.aggregates.items()
        }
        return {**columns, **{one.name: pa.array([0], BIGINT) for one in plan.distincts}}, 1
    columns = {}
    for name in (*spec.keys, *spec.aggregates):
        counts = spec.aggregates.get(name, ("", None))[0] == "count"
        empty = pa.nulls(0, BIGINT if counts else VOID)
        columns[name] = empty if main is None else _column(main.column(name))
    for one in plan.distincts:
        table = tables.get(one.name)
        columns[one.name] = _distinct_counts(columns, spec.keys, rows, table, len(one.args))
    return columns, rows


def _column(column: pa.ChunkedArray) -> pa.Array:
    """A finished column; a sum that was widened to a decimal comes back to 64 bits if all of it fits."""
    if not pa.types.is_decimal(column.type):
        return read_column(column)
    try:
        return as_array(pc.cast(column, BIGINT), len(column))
    except pa.ArrowInvalid:
        return as_array(column, len(column))


def _distinct_counts(
    main: Mapping[str, pa.Array], keys: tuple[str, ...], rows: int, table: pa.Table | None, width: int
) -> pa.Array:
    """How many rows of a distinct table, or of its counts per key, each row of the main table has.

    Cost: one hash aggregation over both tables' keys.
    """
    if table is None or table.num_rows == 0:
        return pa.array(np.zeros(rows, dtype=np.int64))
    given = table.column(DISTINCT_ROWS).to_numpy() if DISTINCT_ROWS in table.column_names else None
    assert given is not None or set(table.column_names) >= {*keys, *distinct_columns(width)}
    if not keys:
        total = table.num_rows if given is None else int(given.sum())
        return pa.array(np.full(rows, total, dtype=np.int64))
    joined: dict[str, pa.ChunkedArray | pa.Array] = {}
    for key in keys:
        ours, theirs = main[key], read_column(table.column(key))
        if ours.type != theirs.type:  # rows without a value to count may have narrowed the type
            theirs = pc.cast(theirs, ours.type)
        joined[key] = pa.concat_arrays([ours, theirs])
    row = np.concatenate([np.arange(rows), np.full(table.num_rows, -1)])
    each = np.ones(table.num_rows, dtype=np.int64) if given is None else given
    counted = np.concatenate([np.zeros(rows, dtype=np.int64), each])
    groups = pa.table({**joined, "row": row, "counted": counted}).group_by(list(keys), use_threads=False)
    sums = groups.aggregate([("row", "max"), ("counted", "sum")])
    counts = np.zeros(rows, dtype=np.int64)
    position = sums.column("row_max").to_numpy()
    inside = position >= 0
    counts[position[inside]] = sums.column("counted_sum").to_numpy()[inside]
    return pa.array(counts)


# -- order


def sorted_rows(order: Sequence[tuple[pa.Array, OrderItem]], ties: Sequence[pa.Array]) -> Ints:
    """Row numbers in result order: by `order`, then by `ties` ascending with nulls first.

    Strings compare by their bytes; NaN is greater than every number, as in Spark.
    """
    rows = len(order[0][0]) if order else (len(ties[0]) if ties else 0)
    keys: list[tuple[pa.Array, str]] = []
    for array, item in order:
        keys += _sort_keys(array, item.descending, item.nulls_first)
    for array in ties:
        keys += _sort_keys(array, False, True)
    if not keys or rows < 2:
        return np.arange(rows, dtype=np.int64)
    table = pa.table({f"s{at}": array for at, (array, _) in enumerate(keys)})
    directions = [(f"s{at}", direction) for at, (_, direction) in enumerate(keys)]
    return np.asarray(pc.sort_indices(table, sort_keys=directions).to_numpy(), dtype=np.int64)


def _sort_keys(array: pa.Array, descending: bool, nulls_first: bool) -> list[tuple[pa.Array, str]]:
    """A column as one or more sort keys without nulls and NaN, whose place would not be Spark's."""
    direction = "descending" if descending else "ascending"
    if array.type == VOID:
        return []
    keys: list[tuple[pa.Array, str]] = []
    null = null_mask(array)
    if null.any():
        keys.append((pa.array(null.astype(np.int8)), "descending" if nulls_first else "ascending"))
    if array.type == DOUBLE:
        values = float_values(array)
        nan = np.isnan(values)
        if nan.any():
            keys.append((pa.array(nan.astype(np.int8)), direction))
        return [*keys, (pa.array(np.where(nan, 0.0, values) + 0.0), direction)]
    if array.type == BOOLEAN:
        return [*keys, (pa.array(bool_values(array).astype(np.int8)), direction)]
    filled = array
    if null.any():
        first = next(value for value in array if value.is_valid) if not null.all() else None
        filled = pa.nulls(len(array), array.type) if first is None else pc.fill_null(array, first)
    return [*keys, (filled, direction)]


def _first_of_equal(ranked: Ints, columns: Sequence[pa.Array]) -> Ints:
    """The first of each run of equal rows, in result order."""
    if not columns or len(ranked) == 0:
        return ranked[:1]
    table = pa.table({f"c{at}": array.take(pa.array(ranked)) for at, array in enumerate(columns)})
    names = table.column_names
    numbered = table.append_column("row", pa.array(np.arange(len(ranked))))
    firsts = numbered.group_by(names, use_threads=False).aggregate([("row", "min")]).column("row_min")
    return np.asarray(ranked[np.sort(firsts.to_numpy())])


def _repeated(ranked: Ints, counts: Ints, limit: int | None) -> Ints:
    """Rows of a plain projection, each as often as it came; no more are unfolded than LIMIT keeps."""
    counts = counts[ranked]
    if limit is not None and len(ranked):
        needed = int(np.searchsorted(np.cumsum(counts), limit)) + 1
        ranked, counts = ranked[:needed], np.minimum(counts[:needed], limit)
    return np.repeat(ranked, counts)
