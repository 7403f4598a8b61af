"""What a parsed ELF-QL statement is: frozen data, no evaluation.

A `Statement` says everything that is needed before data comes; `Plan` is the half that `Query` evaluates.

Paper: ELF 2.1 (a job is the pair of what each agent does to its records and what is reduced).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from elfmesh.ql.expressions.nodes import Expr, Field
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.inline import InlineTable
from elfmesh.ql.plan.names import Bare
from elfmesh.ql.plan.relation_base import Relation

DEADLINE_US_DEFAULT = 1_000_000
"""How long after an interval's end its result may wait for the slowest agent."""

LOOKED_UP = "\0"
"""Before the names of fields that come from a lookup table: no log has such fields."""

SESSION = "session"
"""The kind of window that a group's own records make: it ends when there are none for a while."""

SESSION_FIRST, SESSION_LAST = "a0", "a1"
"""Of the main table of a query with such windows: the times of a fragment's first and last record."""

RESULT = "/"
"""In the name of an input that is the results of a job: "namespace/name"."""

LATEST, SAME = "latest ", "same "
"""Before the name of a job of which an interval sees one result: the newest that was there when it began, or
that of the interval which ends when it ends."""

BESIDE = {"LATEST": LATEST, "SAME": SAME}
"""The words of the text for them."""

MAIN = "main"
"""The name of the PAO table every query has."""

COUNT_COLUMN = "n"
"""Of a table of distinct values: how often each came."""


@dataclass(frozen=True, slots=True)
class JobClause:
    """CREATE JOB and its options; times in microseconds."""

    namespace: str
    name: str
    every_us: int | None = None
    lateness_us: int = 0
    deadline_us: int = DEADLINE_US_DEFAULT
    on_straggler: str = "correct"
    partitions: int = 1
    horizon_us: int | None = None
    replicas: int = 0
    partials: bool = False
    tables: tuple[InlineTable, ...] = ()

    @property
    def qualified(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Window:
    """A window over an event-time column, aligned to the epoch; `kind` is "tumble", "hop" or SESSION.

    Agents see only the panes of a session window, which are as wide as the gap; the root joins neighbouring
    panes.
    """

    kind: str
    column: str
    size_us: int
    slide_us: int

    @property
    def pane_us(self) -> int:
        return math.gcd(self.size_us, self.slide_us)

    @property
    def is_session(self) -> bool:
        """Whether each group has its own windows; then size and slide are the gap."""
        return self.kind == SESSION


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One PAO table: its key columns and aggregates, output name -> (kind, input columns or None).

    "main" has keys k0, k1, ...; a table of a distinct aggregate has the same keys, then x, x1, ...
    """

    name: str
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | tuple[str, ...] | None]]


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One ORDER BY item over the finalised columns."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """A table of the distinct values of each group, and what feeds it; `counted`: with their counts."""

    name: str
    args: tuple[Expr, ...]
    where: Expr | None
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """What is made of the values of a table of distinct ones; see `elfmesh.ql.engine.folds`."""

    name: str
    table: str
    how: str
    ranks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is evaluated.

    Attributes:
        keys: expressions of the columns k0, k1, ... over the record.
        values: expressions of the columns v0, v1, ... over the record.
        folds: what is made of distinct values, besides counts.
        outputs: (name, expression over k*, a*, d*, f* and the window) in output order.
        having: filter over the same.
        distinct: equal output rows are one.
        repeat: name of the hidden count by which output rows are repeated (plain projections), or "".
        one_row: a global aggregate that has one row even over nothing: without window, or beside others.
        aliases_as_keys: names in GROUP BY that were read as aliases; checked against a static schema.
        offset: rows left out at the beginning; `limit` counts them too.
    """

    where: Expr | None
    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]
    distincts: tuple[DistinctValues, ...]
    folds: tuple[Fold, ...]
    outputs: tuple[tuple[str, Expr], ...]
    having: Expr | None
    order: tuple[OrderItem, ...]
    limit: int | None
    distinct: bool
    repeat: str
    one_row: bool
    aliases_as_keys: tuple[Field, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LookupJoin:
    """A table from a file, joined to the records of a stream where they are read.

    Its columns are the fields `LOOKED_UP + alias.column`. `keys`: per key an expression over the record, and
    the column that equals it. With `inner` records without a partner are dropped.
    """

    name: str
    alias: str
    columns: tuple[str, ...]
    keys: tuple[tuple[Expr, str], ...]
    inner: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One parsed statement.

    Attributes:
        text: the statement's own text, without the separating semicolon.
        labels: of the agents that take part.
        window: None if the query is one interval over everything.
        fields: dotted input paths the query reads, sorted, the window column among them.
        tables: PAO tables, "main" first.
        star: True while a `SELECT *` waits for its columns: see `expand`.
        plan: of a relational statement that of its first part.
        relation: what is done at the root with the finished rows of `parts`; None: nothing more.
        scalars: queries in brackets of which one value is needed, in the order in which they are computed.
        lookups: of a part, the tables that are joined to its records before anything else.
        functions: Python functions that it declares; of a part none.
        listed: the columns that `*` means, by stream, while others are waited for: see `waiting`.
        declared: the columns of streams whose formats say them: see `declare`.
        bare: names that are taken for fields of a stream and may be those of a row outside.
    """

    text: str
    source: str
    job: JobClause | None
    stream: str
    labels: tuple[tuple[str, str], ...]
    window: Window | None
    fields: tuple[str, ...]
    tables: tuple[TableSpec, ...]
    star: bool
    plan: Plan = field(repr=False, compare=False)
    origin: SourceText = field(repr=False, compare=False)
    offset: int = field(default=0, repr=False, compare=False)
    relation: Relation | None = field(default=None, repr=False, compare=False)
    parts: tuple[Statement, ...] = field(default=(), repr=False)
    scalars: tuple[tuple[str, Relation], ...] = field(default=(), repr=False, compare=False)
    lookups: tuple[LookupJoin, ...] = ()
    functions: tuple[PythonFunction, ...] = ()
    listed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    declared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bare: tuple[Bare, ...] = ()

    @property
    def name(self) -> str:
        """What its results are of: the job's qualified name, "run" of a plain query."""
        return self.job.qualified if self.job else "run"

    @property
    def columns(self) -> tuple[str, ...]:
        if self.relation is not None:
            return self.relation.columns
        return tuple(name for name, _ in self.plan.outputs)

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.stream for part in self.parts)) or (self.stream,)

    @property
    def latest(self) -> tuple[str, ...]:
        """The inputs among `streams` that are one result of a job: "latest namespace/name", "same ..."."""
        return tuple(name for name in self.streams if is_beside(name))

    @property
    def inputs(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """What is read: streams, with the labels of the agents that take part; each once."""
        own = ((self.stream, self.labels),)
        return tuple(dict.fromkeys((part.stream, part.labels) for part in self.parts)) or own

    @property
    def has_sessions(self) -> bool:
        """Whether an interval's rows are the sessions that ended, which may have begun in earlier ones."""
        return self.window is not None and self.window.is_session

    @property
    def tables_read(self) -> tuple[str, ...]:
        """The lookup tables that agents need beside those that the text carries along."""
        own = {each.name for each in self.job.tables} if self.job is not None else set()
        return tuple(dict.fromkeys(join.name for join in self.joined if join.name not in own))

    @property
    def joined(self) -> tuple[LookupJoin, ...]:
        return (*self.lookups, *(join for part in self.parts for join in part.lookups))

    def fields_of(self, stream: str) -> tuple[str, ...]:
        """Dotted paths to read of one stream's records."""
        if not self.parts:
            return self.fields
        return tuple(sorted({name for part in self.parts if part.stream == stream for name in part.fields}))

    def time_of(self, stream: str | None) -> str:
        for part in self.parts:
            if part.stream == stream and part.window is not None:
                return part.window.column
        assert self.window is not None, "without a window nothing is dated"
        return self.window.column


def job_read(stream: str) -> str:
    """The job whose results an input is, "namespace/name"; "" for a stream of records."""
    return stream.removeprefix(LATEST).removeprefix(SAME) if RESULT in stream else ""


def is_beside(stream: str) -> bool:
    """Whether an input is the one result of a job that stands beside an interval's records."""
    return stream.startswith((LATEST, SAME))


def part_table(part: int, name: str) -> str:
    return f"{name}@{part}"
