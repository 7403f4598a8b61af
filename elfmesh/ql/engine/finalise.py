"""Last step of an interval: from reduced tables to the rows of the result.

The rows have a total order: ORDER BY first, then every output column ascending with nulls first. Equal
content therefore gives equal tables, and LIMIT keeps the same rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from elfmesh.arrow_kernels import integers, pc, taken
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.base import Values
from elfmesh.cbt.sort_bytes import sortable
from elfmesh.ql.engine.folds import folded, joined_keys
from elfmesh.ql.expressions.nodes import Expr, Ref, WindowBound, walk
from elfmesh.ql.expressions.operand import Env, Operand
from elfmesh.ql.expressions.operators import condition_operand
from elfmesh.ql.functions.compiler import Compiler, read_column, window_column
from elfmesh.ql.plan.reduction import distinct_columns
from elfmesh.ql.plan.statement import MAIN, OrderItem, Statement
from elfmesh.ql.values.columns import as_array, bool_values, float_values, int_values, null_mask
from elfmesh.ql.values.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    VOID,
    has_map,
    is_decimal,
    type_name,
)

Ints = npt.NDArray[np.int64]
SCHEMAS_MAX = 16
"""Maximum number of cached compilations. A sum that is a decimal in some intervals needs a second one."""

_SELECTED = frozenset({pa.int8(), BIGINT, DOUBLE, STRING, TIMESTAMP, DATE})
"""Types by which rows can be selected without sorting all of them; pyarrow crashes on string views there."""

Scalars: TypeAlias = Mapping[str, pa.Scalar]
NO_SCALARS: Scalars = {}

DISTINCT_ROWS = "\0rows"
"""Column of a distinct table that was counted in advance: the number of values of each key."""


class Finished(Struct, frozen=True):
    """Rows that passed HAVING, not ordered yet.

    Attributes:
        repeat: number of occurrences of each row, for a plain projection; else None.
        kinds: types of the reduced columns. Rows with different types are not combined.
        places: rows of the main table that passed HAVING; None: all of them, or it is unknown.
    """

    outputs: Mapping[str, pa.Array]
    order: Sequence[pa.Array]
    repeat: Ints | None
    kinds: tuple[pa.DataType, ...]
    places: Ints | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.outputs.values())))

    def take(self, places: Ints) -> Finished:
        taken = pa.array(places)
        return Finished(
            {name: array.take(taken) for name, array in self.outputs.items()},
            [array.take(taken) for array in self.order],
            None if self.repeat is None else self.repeat[places],
            self.kinds,
        )


class _Compiled(Struct, frozen=True):
    """Operands of a plan for certain types of the reduced columns.

    An operand is None for a column that is shown unchanged.
    """

    outputs: tuple[Operand | None, ...]
    order: tuple[Operand | None, ...]
    having: Operand | None


class Finaliser:
    """Last step of one statement. It compiles the outputs once for each combination of column types."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        plan = statement.plan
        shown = [expr for _, expr in plan.outputs]
        ordered = [item.expr for item in plan.order]
        self._shown, self._ordered = shown, ordered
        wanted = [*shown, *ordered, *([] if plan.having is None else [plan.having])]
        self._bounded = any(isinstance(node, WindowBound) for expr in wanted for node in walk(expr))
        self._ties = _ties_needed(statement.tables[0].keys, ordered, shown)
        aggregates = statement.tables[0].aggregates
        self._sums = [name for name, (kind, _) in aggregates.items() if kind == "sum"]
        self._sums += [fold.name for fold in plan.folds if fold.how == "sum"]
        self._compiled: OrderedDict[tuple[pa.DataType, ...], _Compiled] = OrderedDict()

    def finalise(
        self, tables: Mapping[str, pa.Table], window: tuple[int, int] | None, scalars: Scalars = NO_SCALARS
    ) -> pa.Table:
        return self.result(self.finished(tables, window, scalars))

    def finished(
        self, tables: Mapping[str, pa.Table], window: tuple[int, int] | None, scalars: Scalars = NO_SCALARS
    ) -> Finished:
        plan = self.statement.plan
        reduced, rows = _reduced_columns(self.statement, tables)
        # A sum beyond 64 bits stays exact if it is shown unchanged; in expressions it is a double.
        columns = {name: read_column(array) for name, array in reduced.items()}
        for name in self._sums:
            columns[name] = _computable(columns[name])
        columns.update((name, as_array(value, rows)) for name, value in scalars.items())
        compiled = self._compile(columns)
        if window is not None and self._bounded:
            for side, bound in zip(("start", "end"), window, strict=True):
                columns[window_column(side)] = pa.repeat(pa.scalar(bound, BIGINT), rows).view(TIMESTAMP)
        env = Env(columns, rows)

        def evaluate(expr: Expr, operand: Operand | None) -> pa.Array:
            if operand is None:
                assert isinstance(expr, Ref)
                return reduced[expr.name]
            return operand.array(env)

        outputs = zip(plan.outputs, compiled.outputs, strict=True)
        passed = Finished(
            {name: evaluate(expr, operand) for (name, expr), operand in outputs},
            [evaluate(*each) for each in zip(self._ordered, compiled.order, strict=True)],
            int_values(columns[plan.repeat]) if plan.repeat else None,
            tuple(array.type for array in reduced.values()),
        )
        if compiled.having is None:
            return passed
        places = np.flatnonzero(bool_values(compiled.having.array(env)))
        return replace(passed.take(places), places=places)

    def best_rows(self, rows: Finished) -> Ints:
        """Return the indices of the result's rows, in order.

        A plain projection has each once, before it is repeated.
        """
        plan = self.statement.plan
        outputs = list(rows.outputs.values())
        order = list(zip(rows.order, plan.order, strict=True))
        if plan.distinct:
            ranked = _first_of_equal(sorted_rows(order, outputs, rows.rows), outputs)
            return ranked if plan.limit is None else ranked[: plan.limit]
        return sorted_rows(order, outputs[: self._ties], rows.rows, plan.limit)

    def result(self, rows: Finished) -> pa.Table:
        limit = self.statement.plan.limit
        ranked = self.best_rows(rows)
        if rows.repeat is not None:
            ranked = _repeated(ranked, rows.repeat, limit)
        if limit is not None:
            ranked = ranked[:limit]
        places = integers(ranked[self.statement.plan.offset :])
        outputs = rows.outputs
        return pa.Table.from_arrays(taken(outputs.values(), places), names=list(outputs))

    def _compile(self, columns: Mapping[str, pa.Array]) -> _Compiled:
        types = tuple(array.type for array in columns.values())
        known = self._compiled.get(types)
        if known is None:
            named = {name: array.type for name, array in columns.items()}
            known = self._compiled[types] = self._build(Compiler(named, self.statement.origin))
            if len(self._compiled) > SCHEMAS_MAX:
                self._compiled.popitem(last=False)
        return known

    def _build(self, compiler: Compiler) -> _Compiled:
        def operands(exprs: Sequence[Expr]) -> tuple[Operand | None, ...]:
            return tuple(None if isinstance(expr, Ref) else compiler.compile(expr) for expr in exprs)

        for expr in self._ordered:
            refuse_map(compiler, expr, "ORDER BY")
        for expr in self._shown if self.statement.plan.distinct else ():
            refuse_map(compiler, expr, "DISTINCT")
        having = self.statement.plan.having
        return _Compiled(
            operands(self._shown),
            operands(self._ordered),
            None if having is None else condition_operand(compiler, having, compiler.compile(having)),
        )


def refuse_map(compiler: Compiler, expr: Expr, clause: str) -> None:
    """Raise QueryError if the values of an expression are or contain maps, which have no order."""
    if has_map(kind := compiler.compile(expr).type):
        hint = "Use its entries, map_entries(m), or one of its values, m['key']."
        raise compiler.error(expr, f"{clause} does not work on {type_name(kind)}", hint)


def _computable(array: pa.Array) -> pa.Array:
    """Convert a sum of integers beyond 64 bits to a double for expressions.

    Sums of decimals are unchanged.
    """
    return pc.cast(array, DOUBLE) if is_decimal(array.type) and not array.type.scale else array


def _ties_needed(keys: Sequence[str], ordered: Sequence[Expr], shown: Sequence[Expr]) -> int:
    """Return how many outputs are needed to order the rows.

    Rows that differ in their keys are never equal.
    """
    missing = set(keys) - {expr.name for expr in ordered if isinstance(expr, Ref)}
    for count, expr in enumerate(shown):
        if not missing:
            return count
        if isinstance(expr, Ref):
            missing.discard(expr.name)
    return len(shown)


def _reduced_columns(statement: Statement, tables: Mapping[str, pa.Table]) -> tuple[dict[str, pa.Array], int]:
    """Return k*, a* and d* as aligned arrays of ELF-QL types, or of decimals for sums beyond 64 bits."""
    plan, main = statement.plan, tables.get(MAIN)
    spec = statement.tables[0]
    rows = 0 if main is None else main.num_rows
    if rows == 0 and plan.one_row:
        columns = {name: _of_nothing(kind) for name, (kind, _) in spec.aggregates.items()}
        columns |= {one.name: pa.array([0], BIGINT) for one in plan.distincts}
        return columns | {fold.name: pa.nulls(1) for fold in plan.folds}, 1
    columns = {}
    for name in (*spec.keys, *spec.aggregates):
        counts = spec.aggregates.get(name, ("", None))[0] == "count"
        empty = pa.nulls(0, BIGINT if counts else VOID)
        sums = spec.aggregates.get(name, ("", None))[0] == "sum"
        columns[name] = empty if main is None else (_sum if sums else read_column)(main.column(name))
    for one in plan.distincts:
        table = tables.get(one.name)
        columns[one.name] = _distinct_counts(columns, spec.keys, rows, table, len(one.args))
    for fold in plan.folds:
        values = folded(fold, columns, spec.keys, rows, tables.get(fold.table))
        columns[fold.name] = _sum(values) if fold.how == "sum" else values
    return columns, rows


def _of_nothing(kind: str) -> pa.Array:
    """Return the value of an aggregate over no records: 0, null, an empty list or an empty sketch."""
    law = LAWS[kind]
    nothing: tuple[Values, ...] = (None, pa.nulls(0), (pa.nulls(0), pa.nulls(0)))
    values = None if kind == "count" else nothing[law.inputs]
    found = law.finish(law.lift(values, np.zeros(0, np.int64), 1), 1)
    return pa.nulls(1) if found.null_count else found


def _sum(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a finished sum. A sum that was widened to a decimal becomes a bigint again if all values fit."""
    if not pa.types.is_decimal(column.type) or column.type.scale:
        return read_column(column)
    try:
        return as_array(pc.cast(column, BIGINT), len(column))
    except pa.ArrowInvalid:
        return as_array(column, len(column))


def _distinct_counts(
    main: Mapping[str, pa.Array], keys: tuple[str, ...], rows: int, table: pa.Table | None, width: int
) -> pa.Array:
    """Return for each row of the main table its number of rows in a distinct table, or its count there."""
    if table is None or table.num_rows == 0:
        return pa.array(np.zeros(rows, dtype=np.int64))
    given = table.column(DISTINCT_ROWS).to_numpy() if DISTINCT_ROWS in table.column_names else None
    assert given is not None or set(table.column_names) >= {*keys, *distinct_columns(width)}
    if not keys:
        total = table.num_rows if given is None else int(given.sum())
        return pa.array(np.full(rows, total, dtype=np.int64))
    row = np.concatenate([np.arange(rows), np.full(table.num_rows, -1)])
    each = np.ones(table.num_rows, dtype=np.int64) if given is None else given
    counted = np.concatenate([np.zeros(rows, dtype=np.int64), each])
    joined = joined_keys(main, keys, table)
    groups = pa.table({**joined, "row": row, "counted": counted}).group_by(list(keys), use_threads=False)
    sums = groups.aggregate([("row", "max"), ("counted", "sum")])
    counts = np.zeros(rows, dtype=np.int64)
    position = sums.column("row_max").to_numpy()
    inside = position >= 0
    counts[position[inside]] = sums.column("counted_sum").to_numpy()[inside]
    return pa.array(counts)


# -- order


def sorted_rows(
    order: Sequence[tuple[pa.Array, OrderItem]],
    ties: Sequence[pa.Array],
    rows: int,
    limit: int | None = None,
) -> Ints:
    """Return row numbers in result order: by `order`, then by `ties` ascending with nulls first.

    Strings compare by their bytes; NaN is greater than every number, as in Spark. With a limit, only the
    first `limit` rows are returned. Rows that are equal in all columns have no defined order.
    """
    keys: list[tuple[pa.Array, str]] = []
    if rows >= 2:
        for array, item in order:
            keys += _sort_keys(array, item.descending, item.nulls_first)
        for array in ties:
            keys += _sort_keys(array, False, True)
    if not keys:
        return np.arange(rows if limit is None else min(rows, limit), dtype=np.int64)
    names = [f"s{at}" for at in range(len(keys))]
    batch = pa.RecordBatch.from_arrays([array for array, _ in keys], names=names)
    directions = list(zip(names, (direction for _, direction in keys), strict=True))
    if limit is not None and 0 < limit < rows and all(array.type in _SELECTED for array, _ in keys):
        places = pc.select_k_unstable(batch, limit, sort_keys=directions)
    else:
        places = pc.sort_indices(batch, sort_keys=directions)
    return np.asarray(places.to_numpy(), dtype=np.int64)[:limit]


def _sort_keys(array: pa.Array, descending: bool, nulls_first: bool) -> list[tuple[pa.Array, str]]:
    direction = "descending" if descending else "ascending"
    if array.type == VOID:
        return []
    array = sortable(array)
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
    if not columns or len(ranked) == 0:
        return ranked[:1]
    plain = map(sortable, columns)
    table = pa.table({f"c{at}": array.take(pa.array(ranked)) for at, array in enumerate(plain)})
    names = table.column_names
    numbered = table.append_column("row", pa.array(np.arange(len(ranked))))
    firsts = numbered.group_by(names, use_threads=False).aggregate([("row", "min")]).column("row_min")
    return np.asarray(ranked[np.sort(firsts.to_numpy())])


def _repeated(ranked: Ints, counts: Ints, limit: int | None) -> Ints:
    counts = counts[ranked]
    if limit is not None and len(ranked):
        needed = int(np.searchsorted(np.cumsum(counts), limit)) + 1
        ranked, counts = ranked[:needed], np.minimum(counts[:needed], limit)
    return np.repeat(ranked, counts)
