"""Evaluation of one part: from records to rows for the PAO tables, and from reduced tables to finished rows.

A part is a statement over one stream; `whole` combines the parts of a statement. A `PartQuery` holds only
compiled expressions, so workers, masters and `elf run` may share one, and each gets the same rows.

Paper: ELF 2.1 (the function that an agent applies to each batch, and the final one at the root).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from elfmesh.cbt.columns import nested_type
from elfmesh.cbt.nested import nested_keys
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows
from elfmesh.ql.engine.finalise import NO_SCALARS, Finaliser, Scalars
from elfmesh.ql.engine.finalise_parts import Reduced, finalise_parts
from elfmesh.ql.engine.lookup import LookupSource, look_up
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Literal, Scalar, SealClause, place_of, walk
from elfmesh.ql.expressions.operand import Env, ExprKey, Operand
from elfmesh.ql.expressions.operators import condition_operand
from elfmesh.ql.functions.compiler import Compiler
from elfmesh.ql.plan.impossible import comparisons, explained, is_impossible, remedy
from elfmesh.ql.plan.reduction import distinct_columns, holds_nested, laws_of_values
from elfmesh.ql.plan.statement import (
    LOOKED_UP,
    MAIN,
    PRODUCER,
    SEALED_AT,
    SEALED_PRODUCERS,
    SEALED_RECORDS,
    SEALS,
    DistinctValues,
    Statement,
    record_expressions,
)
from elfmesh.ql.values.columns import bool_values, null_mask, selected
from elfmesh.ql.values.types import has_map, is_nested, type_name
from elfmesh.text import suggest

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SCHEMAS_MAX = 64
"""Maximum number of cached compilations, because the schema of JSON logs changes with optional fields."""

IMPLICIT_COLUMNS = ("_raw", "_source", "_host")
"""Columns that every format has."""


class Prepared(Struct, frozen=True):
    """Contribution of some records.

    Attributes:
        tables: per PAO table its rows: keys k0.. (x.. after them in a distinct table) and values v0...
        panes: pane index of each row of each table ("main" included); empty without a window.
        places: per table the index of each of its rows in the "main" table; None: the same rows.
        kept: records per pane that WHERE kept; pane 0 without a window.
        filtered: records per pane that WHERE dropped.
        undated: records without a usable event time; no other count includes them.
        dated: all records with an event time, before WHERE.
        failed: records for which a Python function gave no value; no other count includes them.
        carried: with `PartQuery.carries`, the key columns whose values are row numbers.
        runs: rows per pane, ascending, for tables whose rows are in the order of their panes.
        kept_by_input: for a text with several inputs, `kept` of each that reads these records.
    """

    tables: dict[str, pa.RecordBatch]
    panes: dict[str, Ints]
    places: dict[str, Ints | None]
    records: BlockRows
    kept: Mapping[int, int]
    filtered: Mapping[int, int]
    undated: int
    dated: BlockRows
    failed: int = 0
    carried: Mapping[str, pa.Array] = field(default_factory=dict)
    runs: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    kept_by_input: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    @property
    def passed(self) -> int:
        return self.records.rows


class _Compiled(Struct, frozen=True):
    """Operands of a plan for one input schema."""

    where: tuple[ExprKey, Operand] | None
    keys: tuple[Operand, ...]
    values: tuple[Operand, ...]
    distincts: tuple[tuple[DistinctValues, tuple[Operand, ...], Operand | None], ...]
    seal: _CompiledSeal | None = None


class _CompiledSeal(Struct, frozen=True):
    """Operands of SEALED: the condition of punctuations, and the columns of their table by name."""

    when: Operand
    keys: int
    columns: Mapping[str, Operand]


class PartQuery:
    """Evaluator of one part without an open `*` (see `elfmesh.ql.expand`).

    `lookup` returns the tables that are joined to the records. With `carries`, each list, struct and
    map is distinct. This mode is for rows that are not grouped and are all prepared at once.
    `member` is the producer of punctuations that do not name one.
    """

    __slots__ = ("_compiled", "_fields", "carries", "finaliser", "lookup", "member", "statement")

    def __init__(
        self,
        statement: Statement,
        lookup: LookupSource | None = None,
        carries: bool = False,
        member: str = "",
    ) -> None:
        if statement.star:
            raise statement.origin.error(
                "SELECT * needs the columns of the log", statement.offset, "Name the fields after SELECT."
            )
        self.statement, self.lookup, self.carries, self.member = statement, lookup, carries, member
        self._compiled: OrderedDict[tuple[pa.DataType | None, ...], _Compiled] = OrderedDict()
        used = {
            node.path
            for expr in record_expressions(statement.plan)
            for node in walk(expr)
            if isinstance(node, FieldRef)
        }
        scalars = {
            node.name
            for expr in record_expressions(statement.plan)
            for node in walk(expr)
            if isinstance(node, Scalar)
        }
        self._fields = tuple(sorted(used | scalars))
        self.finaliser = Finaliser(statement)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.statement.plan.outputs)

    def check_schema(self, schema: pa.Schema) -> None:
        """Check the names of a query against a format whose columns are known. Raises QueryError."""
        known = [*schema.names, *IMPLICIT_COLUMNS]
        origin, plan = self.statement.origin, self.statement.plan
        for expr in record_expressions(plan):
            for node in walk(expr):
                if (
                    isinstance(node, FieldRef)
                    and not node.path.startswith(LOOKED_UP)
                    and not _has_column(node.path, known)
                ):
                    hint = suggest(node.path, known) or f"There are {', '.join(schema.names)}."
                    raise origin.error(f"{self.statement.stream} has no column {node.path}", node.at, hint)
        for assumption in self.statement.assumes:
            for path in assumption.columns:
                if not _has_column(path, known):
                    hint = suggest(path, known) or f"There are {', '.join(schema.names)}."
                    raise origin.error(f"{self.statement.stream} has no column {path}", assumption.at, hint)
        window = self.statement.window
        if window is not None and not _has_column(window.column, known):
            raise origin.error(
                f"{self.statement.stream} has no column {window.column} for the window",
                origin.place(self.statement.offset),
                suggest(window.column, known) or "Name the column of the event time in TUMBLE or HOP.",
            )
        for alias in plan.aliases_as_keys:
            if alias.path in known:
                raise origin.error(
                    f"{alias.path} in GROUP BY is both a column of {self.statement.stream} and an alias",
                    place_of(alias),
                    "Give the output another name: AS other_name.",
                )

    def check_constants(self, schema: pa.Schema) -> None:
        """Check the constants in comparisons against a format whose types are known. Raises QueryError."""
        for each in comparisons(record_expressions(self.statement.plan)):
            path = each.column.path
            if path not in schema.names or not is_impossible(each, kind := schema.field(path).type):
                continue
            raise self.statement.origin.error(explained(each, kind), place_of(each.text), remedy(each, kind))

    def prepare(self, records: pa.RecordBatch | BlockRows) -> Prepared:
        """Filter records and compute their keys and values.

        The records have `statement.fields` as flat columns named by dotted path; a missing column is null.
        Queries that receive the same `BlockRows` share computed values.
        """
        given = BlockRows.of(records) if isinstance(records, pa.RecordBatch) else records
        window = self.statement.window
        dated = given if window is None else given.within(window.column, INT64_MIN, INT64_MAX)
        if self.statement.lookups:
            compiled, passed, rows = self._looked_up(dated)
        else:
            env = dated.env(self._fields)
            compiled = self._compile(env)
            passed = dated
            if compiled.where is not None:
                key, condition = compiled.where
                passed = dated.where(key, lambda: condition.array(env))
            rows = passed
        tables, places, carried = self._tables(compiled, rows)
        panes: dict[str, Ints] = {}
        runs: dict[str, Mapping[int, int]] = {}
        kept, before = {0: passed.rows} if passed.rows else {}, {0: dated.rows}
        if window is not None:
            of_rows = passed.panes(window.column, window.pane_us)
            kept, before = dict(of_rows.counts), dict(dated.panes(window.column, window.pane_us).counts)
            for name, where in places.items():
                panes[name] = of_rows.indices if where is None else of_rows.indices[where]
                if where is None and of_rows.in_order:
                    runs[name] = of_rows.counts
        filtered = {pane: rest for pane, rows in before.items() if (rest := rows - kept.get(pane, 0))}
        undated = given.rows - dated.rows
        return Prepared(
            tables, panes, places, passed, kept, filtered, undated, dated, carried=carried, runs=runs
        )

    def finalise(
        self, tables: Mapping[str, pa.Table], window: tuple[int, int] | None, scalars: Scalars = NO_SCALARS
    ) -> pa.Table:
        """Return the result rows of one interval, by ORDER BY, then by all columns ascending, nulls first.

        `tables` holds the reduced rows per PAO table; `window` is start and end in microseconds since the
        epoch. Equal content gives equal tables, whatever the order of the rows was.
        """
        return self.finaliser.finalise(tables, window, scalars)

    def finalise_parts(
        self,
        tables: Mapping[str, Reduced],
        window: tuple[int, int] | None,
        scalars: Scalars = NO_SCALARS,
        bytes_max: int | None = None,
    ) -> pa.Table:
        """As `finalise`, for tables that do not fit into memory. Raises DataError above `bytes_max`.

        Cost: memory for the result (or for LIMIT rows) and one block, except for joined counts of distinct
        values.
        """
        return finalise_parts(self.finaliser, tables, window, scalars=scalars, bytes_max=bytes_max)

    def _looked_up(self, dated: BlockRows) -> tuple[_Compiled, BlockRows, BlockRows]:
        assert self.lookup is not None, "the caller that evaluates lookups has their tables"
        matched, columns = look_up(self.statement, self.lookup, dated)
        wider = dated.beside(columns, self.statement.fields)
        env = wider.env(self._fields)
        compiled = self._compile(env)
        if compiled.where is not None:
            matched &= bool_values(compiled.where[1].array(env))
        if matched.all():
            return compiled, dated, wider
        return compiled, dated.selected(matched), wider.selected(matched)

    # -- compiling

    def _compile(self, env: Env) -> _Compiled:
        columns = env.columns
        schema = tuple(columns[name].type if name in columns else None for name in self._fields)
        known = self._compiled.get(schema)
        if known is None:
            compiler = Compiler({name: array.type for name, array in columns.items()}, self.statement.origin)
            known = self._compiled[schema] = self._build(compiler)
            if len(self._compiled) > SCHEMAS_MAX:
                self._compiled.popitem(last=False)
        return known

    def _build(self, compiler: Compiler) -> _Compiled:
        plan = self.statement.plan

        def condition(expr: Expr | None) -> Operand | None:
            return None if expr is None else condition_operand(compiler, expr, compiler.compile(expr))

        def value(expr: Expr, laws: Collection[str] = ()) -> Operand:
            operand = compiler.compile(expr)
            if is_nested(operand.type) and not holds_nested(laws, maps=has_map(operand.type)):
                raise compiler.error(
                    expr,
                    f"a value of type {type_name(operand.type)} cannot be aggregated",
                    "Name a part of it, x[0], x['key'] or x.name, or write array_join(x, ',').",
                )
            return storable(expr, operand)

        def storable(expr: Expr, operand: Operand) -> Operand:
            try:
                if is_nested(operand.type):
                    nested_type(operand.type)
            except ValueError as error:
                raise compiler.error(
                    expr, f"this value cannot be a column: {error}", "Name a part of it."
                ) from None
            return operand

        def key(expr: Expr) -> Operand:
            operand = compiler.compile(expr)
            if self.carries or not is_nested(operand.type):
                return operand
            if has_map(operand.type) and not plan.repeat:
                raise compiler.error(
                    expr,
                    f"a value of type {type_name(operand.type)} cannot be grouped",
                    "Group by its entries, map_entries(m), or by one of its values, m['key'].",
                )
            return storable(expr, operand)

        where = condition(plan.where)
        laws = laws_of_values(self.statement.tables[0])
        folded = {one.table for one in plan.folds if one.how != "mode"}
        modes = {one.table for one in plan.folds} - folded
        counted = {one.name for one in plan.distincts if not one.counted or one.name in modes} - folded
        return _Compiled(
            None if plan.where is None or where is None else (ExprKey(plan.where), where),
            tuple(key(expr) for expr in plan.keys),
            tuple(value(expr, laws[f"v{at}"]) for at, expr in enumerate(plan.values)),
            tuple(
                (one, tuple(map(key if one.name in counted else value, one.args)), condition(one.where))
                for one in plan.distincts
            ),
            None if plan.seal is None else self._seal(plan.seal, condition, value),
        )

    def _seal(
        self, seal: SealClause, condition: Callable[[Expr], Operand | None], plain: Callable[[Expr], Operand]
    ) -> _CompiledSeal:
        when, window = condition(seal.when), self.statement.window
        assert when is not None
        assert window is not None
        time = Call("event time", (FieldRef(window.column, True),))
        values = {PRODUCER: seal.by or Literal("string", self.member), SEALED_AT: time}
        values |= {} if seal.records is None else {SEALED_RECORDS: seal.records}
        values |= {} if seal.producers is None else {SEALED_PRODUCERS: seal.producers}
        return _CompiledSeal(when, len(seal.keys), {name: plain(expr) for name, expr in values.items()})

    # -- evaluating

    def _tables(
        self, compiled: _Compiled, records: BlockRows
    ) -> tuple[dict[str, pa.RecordBatch], dict[str, Ints | None], dict[str, pa.Array]]:
        env = records.env(self._fields)
        keys = {f"k{at}": key.array(env) for at, key in enumerate(compiled.keys)}
        carried = {name: array for name, array in keys.items() if self.carries and is_nested(array.type)}
        if carried:
            keys |= dict.fromkeys(carried, pa.array(np.arange(env.rows)))
        keys = {name: _key(array) for name, array in keys.items()}
        values = {f"v{at}": _key(value.array(env)) for at, value in enumerate(compiled.values)}
        tables, places = {}, {}
        counted: Bools | None = None  # the records that are no punctuations
        if (seal := compiled.seal) is not None:
            ends = bool_values(seal.when.array(env))
            counted = None if not ends.any() else ~ends
            own = {f"k{at}": keys[f"k{at}"] for at in range(seal.keys)}
            own |= {name: operand.array(env) for name, operand in seal.columns.items()}
            tables[SEALS], places[SEALS] = selected(own, env.rows, ends)
        tables[MAIN], places[MAIN] = selected({**keys, **values}, env.rows, counted)
        for one, args, where in compiled.distincts:
            arrays = [_key(arg.array(env)) for arg in args]
            columns = {**keys, **dict(zip(distinct_columns(len(arrays)), arrays, strict=True))}
            keep = counted if where is None else bool_values(where.array(env))
            if where is not None and keep is not None and counted is not None:
                keep = keep & counted
            for array in arrays:
                if array.null_count:
                    keep = ~null_mask(array) if keep is None else keep & ~null_mask(array)
            tables[one.name], places[one.name] = selected(columns, env.rows, keep)
        return tables, places, carried


def _key(array: pa.Array) -> pa.Array:
    return nested_keys(array, nested_type(array.type)) if is_nested(array.type) else array


def _has_column(path: str, known: list[str]) -> bool:
    return path in known or path.partition(".")[0] in known
