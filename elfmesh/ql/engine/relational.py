"""Evaluation of relations: the second stage of a statement, at the root, over finished rows.

A SELECT is evaluated like a part; this module adds joins, UNION and window functions. The rows do not depend
on how the agents split the records. A table above the limits fails the interval with a reason, before its
memory is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from elfmesh.arrow_kernels import pc
from elfmesh.cbt import Panes, finish
from elfmesh.errors import QueryError
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.engine.exploding import Notify, exploded
from elfmesh.ql.engine.finalise import refuse_map
from elfmesh.ql.engine.framing import PAIRS_MAX, Frames
from elfmesh.ql.engine.query import PartQuery
from elfmesh.ql.engine.ranking import over_rows
from elfmesh.ql.engine.resampling import resampled
from elfmesh.ql.expressions.nodes import Expr, Over
from elfmesh.ql.expressions.operand import Env, Operand, convert
from elfmesh.ql.expressions.operators import condition_operand
from elfmesh.ql.expressions.registry import implicitly
from elfmesh.ql.expressions.resampling import FillRule
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.functions.compiler import Compiler, read_column
from elfmesh.ql.plan.elements import Elements
from elfmesh.ql.plan.relation import (
    Counted,
    Derived,
    Exploded,
    Framed,
    JoinRelation,
    Nearest,
    OneRow,
    Prefixed,
    Ranked,
    Resampled,
    StatementPart,
    Union,
)
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.statement import MAIN, Statement
from elfmesh.ql.values.columns import as_array, bool_values
from elfmesh.ql.values.joining import (
    Ints,
    canonical_order,
    completed,
    near_codes,
    nearest,
    of_interval,
    pair_count,
    pairs,
    row_codes,
    taken,
    value_ranks,
)
from elfmesh.ql.values.types import BIGINT, compared_type, has_map, is_nested, type_name, wider_type

ROWS_MAX = 1 << 20
"""Maximum number of rows of an intermediate table. A query that needs more should reduce on the agents."""

BYTES_MAX = 128 << 20
"""Maximum number of bytes of an intermediate table."""

Bounds = tuple[int, int] | None
PartTable = Callable[[int, Mapping[str, pa.Scalar]], pa.Table]


class Relational:
    """Evaluator of the relation of one statement. Between intervals it keeps only compiled queries."""

    def __init__(self, statement: Statement, *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX) -> None:
        assert statement.relation is not None
        self._statement = statement
        self._relation = statement.relation
        self._limits = rows_max, bytes_max
        self._queries: dict[int, PartQuery] = {}
        self.unlisted: dict[Elements, str | None] = {}
        """For each expansion of strings: one of the strings while none contained a list or map, then None."""

    def table(self, part: PartTable, bounds: Bounds) -> pa.Table:
        """Return the rows of one interval; `part` returns a part's finished rows for the scalars so far."""
        run = _Run(self._statement, self._queries, self._limits, part, bounds, self._notified)
        for name, relation in self._statement.scalars:
            run.scalars[name] = run.scalar(relation)
        return run.rows(self._relation)

    def _notified(self, call: Elements, text: str | None) -> None:
        if text is None or call not in self.unlisted:
            self.unlisted[call] = text


class _Run(Struct):
    """Evaluation of one interval."""

    statement: Statement
    queries: dict[int, PartQuery]
    limits: tuple[int, int]
    part: PartTable
    bounds: Bounds
    notified: Notify
    scalars: dict[str, pa.Scalar] = field(default_factory=dict)
    known: dict[int, pa.Table] = field(default_factory=dict)

    def rows(self, relation: Relation) -> pa.Table:
        found = self.known.get(id(relation))
        if found is None:
            found = self.known[id(relation)] = self._evaluate(relation)
            rows_max, bytes_max = self.limits
            if found.num_rows > rows_max or found.nbytes > bytes_max:
                raise self._too_large(relation.at, found.num_rows, found.nbytes)
        return found

    def scalar(self, relation: Relation) -> pa.Scalar:
        found = self.rows(relation)
        if found.num_rows > 1:
            raise self.statement.origin.error(
                f"a scalar subquery must return one row, but it returned {found.num_rows}", relation.at,
                "Aggregate, or add LIMIT 1 with ORDER BY.",
            )  # fmt: skip
        column = read_column(found.column(0))
        return column[0] if found.num_rows else pa.scalar(None, column.type)

    def _evaluate(self, relation: Relation) -> pa.Table:
        match relation:
            case StatementPart():
                return self.part(relation.index, self.scalars)
            case OneRow():
                return pa.table({name: [1] for name in relation.columns})
            case Prefixed():
                source = self.rows(relation.source)
                return source.rename_columns(list(relation.columns))
            case Counted():
                source = self.rows(relation.source)
                return source.select(list(relation.chosen)).rename_columns(list(relation.columns))
            case Derived():
                return self._derived(relation)
            case Union():
                return self._union(relation)
            case JoinRelation():
                return self._joined(relation)
            case Ranked():
                return self._ranked(relation)
            case Framed():
                return self._framed(relation)
            case Exploded():
                return self._exploded(relation)
            case Resampled():
                return self._resampled(relation)
        raise AssertionError(relation)

    def _derived(self, relation: Derived) -> pa.Table:
        return self._reduced(relation, self.rows(relation.source))

    def _reduced(self, relation: Derived | Framed, source: pa.Table) -> pa.Table:
        query = self.queries.get(id(relation))
        if query is None:
            statement = relation.statement
            query = self.queries[id(relation)] = PartQuery(statement, carries=bool(statement.plan.repeat))
        columns = {name: read_column(source.column(name)) for name in source.column_names}
        rows = source.num_rows
        columns.update((name, as_array(value, rows)) for name, value in self.scalars.items())
        prepared = query.prepare(BlockRows(columns, rows, bounded=False))
        panes = Panes(relation.statement.tables, None)
        panes.insert_all(
            {name: (np.zeros(batch.num_rows, np.int64), batch) for name, batch in prepared.tables.items()}
        )
        reduced = panes.window(0)
        tables = {} if reduced is None else dict(finish(reduced))
        for name, values in prepared.carried.items() if tables else ():
            at = tables[MAIN].column_names.index(name)
            held = values.take(as_array(tables[MAIN].column(at), tables[MAIN].num_rows))
            tables[MAIN] = tables[MAIN].set_column(at, name, held)
        return query.finalise(tables, self.bounds, self.scalars)

    def _union(self, relation: Union) -> pa.Table:
        tables = [self.rows(source) for source in relation.sources]
        arrays = []
        for at, name in enumerate(relation.columns):
            columns = [table.column(at) for table in tables]
            arrays.append(self._stacked(columns, name, relation.at))
        return pa.Table.from_arrays(arrays, names=list(relation.columns))

    def _stacked(self, columns: Sequence[pa.ChunkedArray], name: str, at: TextPosition) -> pa.Array:
        decimals = [column.type for column in columns if pa.types.is_decimal(column.type)]
        if (
            decimals
            and not any(kind.scale for kind in decimals)
            and all(column.type in (*decimals, BIGINT, pa.null()) for column in columns)
        ):
            wide = pa.decimal128(38, 0)  # sums beyond 64 bits stay exact
            return pa.concat_arrays([as_array(pc.cast(column, wide), len(column)) for column in columns])
        arrays = [read_column(column) for column in columns]
        kind = arrays[0].type
        for array in arrays[1:]:
            both = wider_type(kind, array.type)
            if both is None:
                names = f"{type_name(kind)} and {type_name(array.type)}"
                raise self.statement.origin.error(
                    f"column {name} has the types {names} in the queries that are combined",
                    at,
                    "Convert one of them: CAST(x AS STRING).",
                )
            kind = both
        return pa.concat_arrays([_converted(array, kind) for array in arrays])

    def _evaluated(self, relation: Relation) -> tuple[pa.Table, Compiler, Env]:
        source = self.rows(relation)
        columns = {name: read_column(source.column(name)) for name in source.column_names}
        compiler = Compiler({name: array.type for name, array in columns.items()}, self.statement.origin)
        return source, compiler, Env(columns, source.num_rows)

    def _ranked(self, relation: Ranked) -> pa.Table:
        source, compiler, env = self._evaluated(relation.source)

        def evaluate(expr: Expr, of: Over | None = None) -> pa.Array:
            operand = compiler.compile(expr)
            if of is not None:
                kind = compiler.compile(of.args[0]).type
                operand = implicitly(compiler, of, operand, kind, f"the default of {of.kind}")
            return operand.array(env)

        given = list(env.columns.values())
        for name, over in relation.functions:
            _refuse_maps(over, compiler)
            source = source.append_column(name, over_rows(over, given, source.num_rows, evaluate))
        return source

    def _exploded(self, relation: Exploded) -> pa.Table:
        def check(rows: int) -> None:
            if rows > self.limits[0]:
                raise self._too_large(relation.at, rows, 0)

        source = self.rows(relation.source)
        return exploded(relation, source, self.scalars, self.statement.origin, check, self.notified)

    def _resampled(self, relation: Resampled) -> pa.Table:
        def check(rows: int) -> None:
            if rows > self.limits[0]:
                raise self._too_large(relation.at, rows, 0)

        def constant(rule: FillRule, kind: pa.DataType) -> pa.Scalar:
            operand = compiler.compile(rule.value)
            value = implicitly(compiler, rule.value, operand, kind, f"FILL of {rule.column}")
            return value.run(Env({}, 0))

        def refuse(message: str, hint: str) -> QueryError:
            return self.statement.origin.error(message, relation.at, hint)

        compiler = Compiler({}, self.statement.origin)
        bounds = self.bounds if relation.bounded else None
        return resampled(relation, self.rows(relation.source), bounds, check, constant, refuse)

    def _framed(self, relation: Framed) -> pa.Table:
        source, compiler, env = self._evaluated(relation.source)
        _refuse_maps(relation.over, compiler)
        try:
            cut = Frames(relation.over, env.columns, env, compiler)
        except TypeError as error:
            raise self.statement.origin.error(str(error), relation.over.at, "Write ROWS BETWEEN.") from None
        if cut.pairs > PAIRS_MAX:
            raise self._too_large(relation.at, cut.pairs, 0)
        found = [self._reduced(relation, each) for each in cut.tables(source, self.limits[0])]
        for at, name in enumerate(relation.columns[len(source.column_names) :]):
            column = self._stacked([table.column(at + 1) for table in found], name, relation.at)
            column = taken(column, cut.places([table.column(0) for table in found]))
            if relation.zero[at]:
                column = pc.fill_null(column, 0)
            source = source.append_column(name, column)
        return source

    def _joined(self, relation: JoinRelation) -> pa.Table:
        left, right = self.rows(relation.left), self.rows(relation.right)
        found = self._pairs(relation, left, right)
        if relation.residual is not None:
            together = _side_by_side(left, right, found)
            columns = {name: read_column(together.column(name)) for name in together.column_names}
            columns.update((name, as_array(value, len(found[0]))) for name, value in self.scalars.items())
            compiler = Compiler({name: array.type for name, array in columns.items()}, self.statement.origin)
            condition = condition_operand(compiler, relation.residual, compiler.compile(relation.residual))
            keep = bool_values(condition.array(Env(columns, len(found[0]))))
            found = found[0][keep], found[1][keep]
        places = completed(relation.kind, found, (left.num_rows, right.num_rows))
        if relation.within_us and self.bounds is not None:
            places = of_interval(places, _times(relation, left, right), relation.within_us, self.bounds)
        if relation.kind in ("semi", "anti"):
            return left.take(pa.array(places[0]))
        return _side_by_side(left, right, places)

    def _pairs(self, relation: JoinRelation, left: pa.Table, right: pa.Table) -> tuple[Ints, Ints]:
        origin, rows = self.statement.origin, (left.num_rows, right.num_rows)
        sides = []
        for table in (left, right):
            columns = {name: read_column(table.column(name)) for name in table.column_names}
            compiler = Compiler({name: array.type for name, array in columns.items()}, origin)
            sides.append((compiler, Env(columns, table.num_rows)))
        stacked: list[pa.Array] = []
        for key in relation.keys:
            operands = [
                compiler.compile(expr)
                for (compiler, _), expr in zip(sides, (key.left, key.right), strict=True)
            ]
            kinds = operands[0].type, operands[1].type
            listed = key.listed or any(map(is_nested, kinds))
            kind = wider_type(*kinds) if listed else compared_type(*kinds, equality=True)
            if kind is None or has_map(kind):
                names = " and ".join(type_name(operand.type) for operand in operands)
                raise origin.error(
                    f"{names} cannot be compared", key.left.at, "Convert one of them with CAST."
                )
            arrays = [
                convert(operand, kind).array(env) for operand, (_, env) in zip(operands, sides, strict=True)
            ]
            stacked.append(pa.concat_arrays(arrays))
        codes = row_codes(stacked, [key.null_safe for key in relation.keys], sum(rows))
        ours, theirs = codes[: rows[0]], codes[rows[0] :]
        if relation.nearest is not None:
            ranks = value_ranks(self._compared(relation.nearest, sides))
            order = canonical_order([*sides[1][1].columns.values()], rows[1])
            return nearest(
                (ours, theirs), (ranks[: rows[0]], ranks[rows[0] :]), order, relation.nearest.compare
            )
        band = relation.within_us
        times = _times(relation, left, right) if band else None
        if times is not None:
            ours, theirs = near_codes(ours, theirs, times, band)
        number = pair_count(ours, theirs)
        width = sum(table.nbytes // max(1, table.num_rows) for table in (left, right))
        rows_max, bytes_max = self.limits
        if number > rows_max or number * width > bytes_max:
            raise self._too_large(relation.at, number, number * width)
        found = pairs(ours, theirs)
        if times is None:
            return found
        found = found[0], found[1] // 3
        near = np.abs(times[0][found[0]] - times[1][found[1]]) < band
        return found[0][near], found[1][near]

    def _compared(self, compared: Nearest, sides: list[tuple[Compiler, Env]]) -> pa.Array:
        """Return the values that an ASOF JOIN compares, those of the left side first."""
        operands = [
            compiler.compile(expr)
            for (compiler, _), expr in zip(sides, (compared.left, compared.right), strict=True)
        ]
        kind = compared_type(operands[0].type, operands[1].type, equality=False)
        if kind is None or is_nested(kind):
            names = " and ".join(type_name(operand.type) for operand in operands)
            hint = "Convert one of them with CAST."
            raise self.statement.origin.error(f"{names} cannot be compared", compared.left.at, hint)
        arrays = [convert(each, kind).array(env) for each, (_, env) in zip(operands, sides, strict=True)]
        return pa.concat_arrays(arrays)

    def _too_large(self, at: TextPosition, rows: int, nbytes: int) -> QueryError:
        rows_max, bytes_max = self.limits
        return self.statement.origin.error(
            f"{rows} rows ({nbytes >> 20} MB) in one interval are more than the {rows_max} rows"
            f" ({bytes_max >> 20} MB) that one agent may join or query again", at,
            "Filter or aggregate before it, or make the window shorter.",
        )  # fmt: skip


def _refuse_maps(over: Over, compiler: Compiler) -> None:
    for clause, exprs in (("ORDER BY", over.order), ("PARTITION BY", over.partition)):
        for expr in exprs:
            refuse_map(compiler, expr, clause)


def _times(relation: JoinRelation, left: pa.Table, right: pa.Table) -> tuple[Ints, Ints]:
    """Return the event times of both sides in microseconds."""
    columns = (side.column(name) for side, name in zip((left, right), relation.times, strict=True))
    ours, theirs = (np.asarray(column.cast("int64").to_numpy(), np.int64) for column in columns)
    return ours, theirs


def _side_by_side(left: pa.Table, right: pa.Table, places: tuple[Ints, Ints]) -> pa.Table:
    """Return the rows of both sides at these positions; null where a position is -1."""
    arrays = [taken(as_array(column, len(column)), places[0]) for column in left.columns]
    arrays += [taken(as_array(column, len(column)), places[1]) for column in right.columns]
    return pa.Table.from_arrays(arrays, names=[*left.column_names, *right.column_names])


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return convert(Operand(array.type, lambda _env: array), kind).array(Env({}, len(array)))
