"""Evaluating a statement: records in, rows for the PAO tables out; reduced tables in, result rows out.

A `Query` owns nothing but compiled expressions. It reads no log, keeps no state between batches and knows
no clock, so that one Query may serve every agent's worker, the master and `elf run` alike, and gives each
of them the same rows.

Paper: ELF 2.1 (the function an agent applies to each batch, and the one the root applies at the end).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.control.ql.analysis import distinct_columns, record_expressions
from elfmesh.control.ql.columns import as_array, bool_values, int_values, null_mask
from elfmesh.control.ql.compiler import Compiler, read_column
from elfmesh.control.ql.finalise import finalise
from elfmesh.control.ql.nodes import Expr, Field, place_of, walk
from elfmesh.control.ql.operand import Env, Operand
from elfmesh.control.ql.operators import condition_operand
from elfmesh.control.ql.statement import MAIN, DistinctCount, Statement
from elfmesh.control.ql.times import to_timestamp_us
from elfmesh.text import suggest

Ints = npt.NDArray[np.int64]
SCHEMAS_MAX = 64
"""Compiled schemas kept: JSON logs change theirs as optional fields come and go."""

IMPLICIT_COLUMNS = ("_raw", "_source", "_host")
"""Every format has these."""

_WINDOW_TIME = "\0time"
"""Name of the converted event time in an Env: no field can be called so."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one batch contributes.

    Attributes:
        pane: pane index of each surviving row, aligned with the "main" table; None without a window.
        tables: per PAO table its rows: keys k0.. (x.. after them in a distinct table) and values v0...
        panes: pane index of each row of each table ("main" included); empty without a window.
        passed: surviving rows.
        filtered: pane index of each row that WHERE dropped; zeros without a window.
        undated: rows without a usable event time; they are nowhere else.
    """

    pane: Ints | None
    tables: dict[str, pa.RecordBatch]
    panes: dict[str, Ints]
    passed: int
    filtered: Ints
    undated: int


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The operands of a plan for one input schema."""

    where: Operand | None
    keys: tuple[Operand, ...]
    values: tuple[Operand, ...]
    distincts: tuple[tuple[DistinctCount, tuple[Operand, ...], Operand | None], ...]


@dataclass(slots=True)
class Query:
    """Evaluates one statement.

    Args:
        statement: parsed, and without an open `*` (see `elfmesh.control.ql.expand`).

    Raises:
        QueryError: the statement still has a `*`.
    """

    statement: Statement
    _compiled: OrderedDict[tuple[pa.DataType | None, ...], _Compiled] = field(
        default_factory=OrderedDict, repr=False
    )

    def __post_init__(self) -> None:
        if self.statement.star:
            raise self.statement.origin.error(
                "SELECT * needs the columns of the log",
                self.statement.offset,
                "Name the fields after SELECT.",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Output names in order."""
        return tuple(name for name, _ in self.statement.plan.outputs)

    def check_schema(self, schema: pa.Schema) -> None:
        """Check the names of a query against a format whose columns are known.

        Raises:
            QueryError: an unknown column, or an alias in GROUP BY that hides a column.
        """
        known = [*schema.names, *IMPLICIT_COLUMNS]
        origin, plan = self.statement.origin, self.statement.plan
        for expr in record_expressions(plan):
            for node in walk(expr):
                if isinstance(node, Field) and not _has_column(node.path, known):
                    hint = suggest(node.path, known) or f"There are {', '.join(schema.names)}."
                    raise origin.error(f"{self.statement.stream} has no column {node.path}", node.at, hint)
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

    def prepare(self, batch: pa.RecordBatch) -> Prepared:
        """Filter a batch and compute its keys and values.

        Args:
            batch: `statement.fields` as flat columns named by dotted path; an absent column is all null.

        Raises:
            QueryError: the types of the columns make an expression impossible (as Spark's analysis would).
        """
        columns = {name: read_column(batch.column(name)) for name in self._present(batch.schema)}
        rows = batch.num_rows
        compiled = self._compile(columns)
        window, pane, undated = self.statement.window, None, 0
        if window is not None:
            stamp = to_timestamp_us(columns.get(window.column, pa.nulls(rows)))
            missing = null_mask(stamp)
            pane = int_values(stamp) // window.pane_us
            undated = int(missing.sum())
            if undated:
                dated = pa.array(~missing)
                columns = {name: array.filter(dated) for name, array in columns.items()}
                pane, rows = pane[~missing], rows - undated
        filtered: Ints = np.empty(0, dtype=np.int64)
        if compiled.where is not None:
            keep = bool_values(compiled.where.array(Env(columns, rows)))
            filtered = np.zeros(rows - int(keep.sum()), dtype=np.int64) if pane is None else pane[~keep]
            if len(filtered):
                mask = pa.array(keep)
                columns = {name: array.filter(mask) for name, array in columns.items()}
                pane, rows = None if pane is None else pane[keep], rows - len(filtered)
        tables, panes = self._tables(compiled, Env(columns, rows), pane)
        return Prepared(pane, tables, panes, rows, filtered, undated)

    def finalise(self, tables: Mapping[str, pa.Table], window: tuple[int, int] | None) -> pa.Table:
        """The result rows of one interval.

        Args:
            tables: per PAO table the reduced rows: key columns and finished aggregate columns.
            window: start and end in microseconds since the epoch; None without a window.

        Returns:
            The output columns, ordered by ORDER BY and then by all columns ascending, nulls first: the same
            table for the same content, whatever the order of the rows that came in.
        """
        return finalise(self.statement, tables, window)

    # -- compiling

    def _present(self, schema: pa.Schema) -> list[str]:
        names = set(schema.names)
        return [name for name in self.statement.fields if name in names]

    def _compile(self, columns: Mapping[str, pa.Array]) -> _Compiled:
        fields = self.statement.fields
        schema = tuple(columns[name].type if name in columns else None for name in fields)
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

        return _Compiled(
            condition(plan.where),
            tuple(compiler.compile(expr) for expr in plan.keys),
            tuple(compiler.compile(expr) for expr in plan.values),
            tuple(
                (one, tuple(compiler.compile(arg) for arg in one.args), condition(one.where))
                for one in plan.distincts
            ),
        )

    # -- evaluating

    def _tables(
        self, compiled: _Compiled, env: Env, pane: Ints | None
    ) -> tuple[dict[str, pa.RecordBatch], dict[str, Ints]]:
        keys = {f"k{at}": key.array(env) for at, key in enumerate(compiled.keys)}
        values = {f"v{at}": value.array(env) for at, value in enumerate(compiled.values)}
        tables = {MAIN: _batch({**keys, **values}, env.rows)}
        panes = {} if pane is None else {MAIN: pane}
        for one, args, where in compiled.distincts:
            arrays = [arg.array(env) for arg in args]
            keep = np.ones(env.rows, dtype=np.bool_) if where is None else bool_values(where.array(env))
            for array in arrays:
                keep &= ~null_mask(array)
            columns = {**keys, **dict(zip(distinct_columns(len(arrays)), arrays, strict=True))}
            mask = pa.array(keep)
            count = int(keep.sum())
            tables[one.name] = _batch({name: array.filter(mask) for name, array in columns.items()}, count)
            if pane is not None:
                panes[one.name] = pane[keep]
        return tables, panes


def _has_column(path: str, known: list[str]) -> bool:
    return path in known or path.partition(".")[0] in known


def _batch(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """A record batch; one without columns still knows how many rows it has."""
    if columns:
        arrays = [as_array(array, rows) for array in columns.values()]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, type=pa.struct([])))
