"""Evaluation of a whole statement: the entry for workers and masters.

A statement over one stream has one part. The tables of all parts of a relational statement are named
`table@part`, so the tree reduces them like any others; the root finishes each part and evaluates the
relation. A record is contributed once if any part of its stream keeps it, and filtered if none does (D-1).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.cbt import Panes, finish_blocks
from elfmesh.errors import QueryError
from elfmesh.ql.engine.assumed import AssumptionChecker
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.engine.computed import FunctionCalls
from elfmesh.ql.engine.exploding import untaken
from elfmesh.ql.engine.finalise import Finaliser
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.engine.lookup import LookupSource, with_tables
from elfmesh.ql.engine.query import PartQuery, Prepared
from elfmesh.ql.engine.relational import Relational
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.impossible import Doubts
from elfmesh.ql.plan.statement import Statement, part_table, record_expressions
from elfmesh.ql.values.intervals import intervals_as_text

T = TypeVar("T")
Bounds = tuple[int, int] | None


class Query:
    """Evaluator of one statement without an open `*` (see `elfmesh.ql.expand`).

    `labels` are those of the agent: it computes only the parts that select them. None computes all parts.
    `member` names the agent as a producer of punctuations. `carries`: see `PartQuery`; without a relation.
    """

    __slots__ = (
        *("_calls", "_parts", "_relational", "assumptions"),
        *("functions", "labels", "lookup", "member", "statement"),
    )

    def __init__(
        self,
        statement: Statement,
        labels: Mapping[str, str] | None = None,
        lookup: LookupSource | None = None,
        functions: FunctionSource | None = None,
        member: str = "",
        *,
        carries: bool = False,
    ) -> None:
        if statement.star:
            raise statement.origin.error(
                "SELECT * needs the columns of the log", statement.offset, "Name the fields after SELECT."
            )
        self.statement, self.labels, self.lookup = statement, labels, lookup
        self.functions, self.member = functions, member
        self.assumptions = AssumptionChecker(statement)
        self._calls: FunctionCalls | None = None
        parts = statement.over_records
        if statement.functions:
            self._calls = FunctionCalls(parts, functions)
            parts = self._calls.parts
        if statement.job is not None and statement.job.tables:
            lookup = with_tables(statement.job.tables, lookup)
        self._parts = tuple(PartQuery(part, lookup, carries, member) for part in parts)
        self._relational = None if statement.relation is None else Relational(statement)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.statement.columns

    @property
    def finaliser(self) -> Finaliser:
        assert self._relational is None
        return self._parts[0].finaliser

    def check_schema(self, schema: pa.Schema, stream: str | None = None) -> None:
        """Check the names of a query against a format whose columns are known. Raises QueryError."""
        for part in self._parts if self._calls is None else map(PartQuery, self.statement.over_records):
            if stream is None or part.statement.stream == stream:
                with self._names_outside():
                    part.check_schema(schema)

    @contextlib.contextmanager
    def _names_outside(self) -> Iterator[None]:
        try:
            yield
        except QueryError as error:
            place = TextPosition(error.line, error.column)
            error.hint = next((each.remedy for each in self.statement.bare if each.at == place), error.hint)
            raise

    def check_constants(self, schema: pa.Schema, stream: str | None = None) -> None:
        """Check the constants in comparisons against a format whose types are known. Raises QueryError."""
        for part in map(PartQuery, self.statement.over_records):
            if stream is None or part.statement.stream == stream:
                part.check_constants(schema)

    def doubts(self, stream: str | None = None) -> Doubts:
        """Return the comparisons whose columns' types only the data shows."""
        parts = [part for part in self.statement.over_records if stream is None or part.stream == stream]
        return Doubts(expr for part in parts for expr in record_expressions(part.plan))

    @property
    def untaken(self) -> list[str]:
        """Return warnings about expanded strings of which none contained a list or map."""
        unlisted = {} if self._relational is None else self._relational.unlisted
        return [untaken(call, text) for call, text in unlisted.items() if text is not None]

    def streams_of(self, carried: Collection[str]) -> tuple[str, ...]:
        wanted = {part.stream for part in self.statement.over_records if self._is_here(part)}
        return tuple(name for name in self.statement.streams if name in wanted and name in carried)

    def prepare(self, records: pa.RecordBatch | BlockRows, stream: str | None = None) -> Prepared:
        """Filter records and compute their keys and values, for every part that reads their stream.

        See `PartQuery.prepare`; without `stream`, all parts read the records.
        """
        given = BlockRows.of(records) if isinstance(records, pa.RecordBatch) else records
        active, failed = self._active(stream), 0
        if self._calls is not None:
            given, failed = self._calls.evaluate(given, active)
        if self._relational is None:
            prepared = self._parts[0].prepare(given)
        else:
            each = {index: self._parts[index].prepare(given) for index in active}
            by_input = {index: part.kept for index, part in each.items()}
            prepared = replace(_together(given, each, self.statement), kept_by_input=by_input)
        return replace(prepared, failed=failed) if failed else prepared

    def _active(self, stream: str | None) -> list[int]:
        if self._relational is None:
            return [0]
        return [
            index
            for index, part in enumerate(self._parts)
            if (stream is None or part.statement.stream == stream) and self._is_here(part.statement)
        ]

    def reduced(self, stream: str, rows: BlockRows) -> dict[str, Reduced]:
        """Return the reduced tables of all parts of one input, for rows that are of one interval already."""
        prepared = self.prepare(rows, stream)
        panes = Panes([spec for spec in self.statement.tables if spec.name in prepared.tables], None)
        panes.insert_all(
            {name: (np.zeros(batch.num_rows, np.int64), batch) for name, batch in prepared.tables.items()}
        )
        found = panes.window(0)
        return {} if found is None else dict(finish_blocks(found))

    def _is_here(self, part: Statement) -> bool:
        return self.labels is None or all(self.labels.get(name) == value for name, value in part.labels)

    def finalise(self, tables: Mapping[str, pa.Table], window: Bounds) -> pa.Table:
        """Return the result rows of one interval; see `PartQuery.finalise`."""
        if self._relational is None:
            return intervals_as_text(self._parts[0].finalise(tables, window))
        parts = self._parts
        rows = self._relational.table(
            lambda index, scalars: parts[index].finalise(
                _of_part(index, parts[index], tables), window, scalars
            ),
            window,
        )
        return _if_any(rows, tables, window)

    def finalise_parts(
        self, tables: Mapping[str, Reduced], window: Bounds, *, bytes_max: int | None = None
    ) -> pa.Table:
        """As `finalise`, for tables that do not fit into memory. Raises DataError above `bytes_max`.

        Cost: see `PartQuery.finalise_parts`; a relational statement also needs memory for each part's
        finished rows.
        """
        if self._relational is None:
            return intervals_as_text(self._parts[0].finalise_parts(tables, window, bytes_max=bytes_max))
        parts = self._parts
        rows = self._relational.table(
            lambda index, scalars: parts[index].finalise_parts(
                _of_part(index, parts[index], tables), window, scalars
            ),
            window,
        )
        return _if_any(rows, tables, window)


def _if_any(rows: pa.Table, tables: Mapping[str, T], window: Bounds) -> pa.Table:
    return intervals_as_text(rows if tables or window is None else rows.slice(0, 0))


def _of_part(index: int, part: PartQuery, tables: Mapping[str, T]) -> dict[str, T]:
    named = {spec.name: part_table(index, spec.name) for spec in part.statement.tables}
    return {own: tables[name] for own, name in named.items() if name in tables}


def _together(given: BlockRows, prepared: Mapping[int, Prepared], statement: Statement) -> Prepared:
    """Combine the parts of a stream, which share one time column; a record is kept if any part keeps it."""
    one = next(iter(prepared.values()))
    if len(prepared) == 1:
        (index,) = prepared
        tables = {part_table(index, name): table for name, table in one.tables.items()}
        panes = {part_table(index, name): panes for name, panes in one.panes.items()}
        places = {part_table(index, name): places for name, places in one.places.items()}
        return Prepared(tables, panes, places, one.records, one.kept, one.filtered, one.undated, one.dated)
    dated = one.dated
    masks = {index: each.records.among(each.dated) for index, each in prepared.items()}
    anywhere = np.logical_or.reduce(list(masks.values()))
    rows = dated if anywhere.all() else dated.selected(anywhere)
    rank = np.cumsum(anywhere) - 1
    tables, panes, places = {}, {}, {}
    for index, each in prepared.items():
        mine = rank[masks[index]]
        for name, table in each.tables.items():
            whole = part_table(index, name)
            tables[whole] = table
            own = each.places[name]
            places[whole] = mine if own is None else mine[own]
            if name in each.panes:
                panes[whole] = each.panes[name]
    window = statement.window
    kept, before = {0: rows.rows} if rows.rows else {}, {0: dated.rows}
    if window is not None:
        column = statement.parts[next(iter(prepared))].window
        assert column is not None
        kept = dict(rows.panes(column.column, window.pane_us).counts)
        before = dict(dated.panes(column.column, window.pane_us).counts)
    filtered = {pane: rest for pane, number in before.items() if (rest := number - kept.get(pane, 0))}
    return Prepared(tables, panes, places, rows, kept, filtered, one.undated, dated)
