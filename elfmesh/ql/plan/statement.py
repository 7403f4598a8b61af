"""Parsed ELF-QL statement: frozen data, no evaluation.

A `Statement` has everything that is needed before the first record; its `QueryPlan` is the half that `Query`
evaluates.

Paper: ELF 2.1 (a job is the pair of an agent's function over records and the reduction).
"""

from __future__ import annotations

import math
from typing import ClassVar

from msgspec import Struct

from elfmesh.ql.expressions.alert_clause import AlertClause
from elfmesh.ql.expressions.assumption import Assumption
from elfmesh.ql.expressions.nodes import Expr, FieldRef, SealClause
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.standby_budget import ALL_MEMBERS, StandbyBudget
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.delivery import TopicDelivery
from elfmesh.ql.plan.inline import InlineTable
from elfmesh.ql.plan.names import Bare
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.values.compared import PartlyCompared

DEADLINE_US_DEFAULT = 1_000_000
"""Time after an interval's end during which its result may wait for the slowest agent."""

LAG_US_DEFAULT = 1_000_000
"""Time span of the newest records of a member that its standby may lack."""

LOOKED_UP = "\0"
"""Prefix of the names of fields that come from a lookup table. Fields of logs do not begin with it."""

SESSION = "session"
"""Window whose bounds depend on the records of a group: it ends when none arrives for longer than the gap."""

FIRST_TIME, LAST_TIME = "a0", "a1"
"""Columns of the main table if groups span intervals: the times of the first and last record of a group."""

SEALED = "sealed"
"""Window whose groups end by punctuations: records that state that a producer has no more for a partition."""

ROWS = "rows"
"""Window of a number of records of each group."""

WITHIN = "within"
"""Consecutive windows whose rows may join records of earlier windows."""

ONE, ALL, NUMBER = "ONE", "ALL", "number"
"""Producers that have to seal a partition: any one, every member, or as many as the punctuation states."""

RECORDS_COUNT = "a2"
"""Column of the main table of a query with SEALED: the number of records of a group."""

SEALS = "seals"
"""PAO table of a query with SEALED: the producers that have sealed each partition."""

PRODUCER, SEALED_AT, SEALED_RECORDS, SEALED_PRODUCERS = "x", "t", "r", "n"
"""Columns of SEALS: its last key; the time of a punctuation; the numbers of records and producers in it."""

RESULT = "/"
"""Separator in the name of an input that is the results of a job: "namespace/name"."""

LATEST, SAME = "latest ", "same "
"""Prefixes of a job's name, by keyword in `BESIDE`, if each interval reads one result: the newest one at its
start, or the one of the interval with the same end."""
BESIDE = {"LATEST": LATEST, "SAME": SAME}

ACROSS, DOMAINS = "ACROSS", ("region", "rack")
"""The clause, and the labels that it takes."""
REPLICAS, REPLICAS_ACROSS = "REPLICAS", "REPLICAS ACROSS"
"""Options: number of peers that store a contribution, and the label in which they differ from its agent."""
COPIES, COST, KEEP = "PATHS TREES", "COST", "KEEP PARTIALS"
"""Options: trees of a group (the m of `PATHS n, m`), bound of the cost, and that partials are kept."""

MAIN = "main"
"""Name of the PAO table that every query has."""

COUNT_COLUMN = "n"
"""Column of a table of distinct values: the number of occurrences of each value."""


ONE_INTERVAL_US = 200 * 365 * 86_400_000_000
"""Interval of a job with UNTIL and without EVERY or a window: it contains all records of the job."""


class JobClause(Struct, frozen=True):
    """CREATE JOB and its options; times in microseconds.

    `early_us` is the period of EARLY rows; None: there are none. The job begins with the interval that
    contains the time `history_us` ago (None: as its streams are configured), and ends `until_us` from now; 0:
    with the records that exist now; None: never. If `dated`, both are times since 1970. `delivery` is that of
    a topic; None: a job. `standby_us` is the LAG of STANDBY; None: open windows have no standbys. `standbys`
    states which members have one, and `standby_across` the label in which a member and its standby differ.
    `replicas_across` is the label in which an agent and the peers with its copies differ; "": rack.
    `paths` is the number of sites, 0: the job has one tree for all members. `copies` is the number of trees
    of a group, and `cost` bounds the network cost, in units of that of one site; None: no bound. `across` is
    the label that forms groups of members; "": the outermost label that tells members apart.
    """

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
    early_us: int | None = None
    history_us: int | None = None
    until_us: int | None = None
    dated: bool = False
    delivery: TopicDelivery | None = None
    standby_us: int | None = None
    paths: int = 0
    across: str = ""
    copies: int = 1
    cost: float | None = None
    standbys: StandbyBudget = ALL_MEMBERS
    standby_across: str = "rack"
    alerts: tuple[AlertClause, ...] = ()
    replicas_across: str = ""

    @property
    def qualified(self) -> str:
        return f"{self.namespace}/{self.name}"


class WindowSpec(Struct, frozen=True):
    """Window over an event-time column, aligned to the epoch.

    `kind` is "tumble", "hop", SESSION, SEALED, ROWS or WITHIN. For a session window, agents use panes as wide
    as the gap; for SEALED and ROWS, as wide as EVERY. The root joins the panes. A window of ROWS has `rows`
    records and begins `step` records after the one before it. WITHIN joins records that are less than
    `within_us` apart.
    """

    kind: str
    column: str
    size_us: int
    slide_us: int
    rows: int = 0
    step: int = 0
    within_us: int = 0

    @property
    def pane_us(self) -> int:
        return math.gcd(self.size_us, self.slide_us)

    @property
    def spans_intervals(self) -> bool:
        """Return whether rows are made of records that may lie in several intervals."""
        return self.kind in (SESSION, SEALED, ROWS, WITHIN)

    def first_ending(self, at_us: int) -> int:
        """Return the first interval that ends at a time or later."""
        return -((self.size_us - at_us) // self.slide_us)

    @property
    def is_session(self) -> bool:
        """Return whether each group has its own windows; size and slide are then the gap."""
        return self.kind == SESSION


class TableSpec(Struct, frozen=True):
    """PAO table: its key columns, and its aggregates by output name as (kind, input columns or None).

    "main" has keys k0, k1, ...; the table of a distinct aggregate has the same keys, then x, x1, ...
    """

    name: str
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | tuple[str, ...] | None]]


class OrderItem(Struct, frozen=True):
    """ORDER BY item over the finalised columns."""

    expr: Expr
    descending: bool
    nulls_first: bool


class DistinctValues(Struct, frozen=True):
    """Table of the distinct values of each group, and the expressions that fill it.

    It has counts if `counted`.
    """

    name: str
    args: tuple[Expr, ...]
    where: Expr | None
    counted: bool = False


class Fold(Struct, frozen=True):
    """Fold over a table of distinct values; see `elfmesh.ql.engine.folds`."""

    name: str
    table: str
    how: str
    ranks: tuple[float, ...] = ()


class QueryPlan(Struct, frozen=True):
    """Evaluation of a query.

    Attributes:
        keys: expressions of the columns k0, k1, ... over the record.
        values: expressions of the columns v0, v1, ... over the record.
        folds: folds over distinct values, besides counts.
        outputs: (name, expression over k*, a*, d*, f* and the window) in output order.
        having: filter over the same columns.
        distinct: remove duplicate output rows.
        repeat: name of the hidden count by which output rows are repeated (plain projections), or "".
        one_row: a global aggregate that has a row even over no records: without a window, or one of several.
        aliases_as_keys: names in GROUP BY that were resolved to aliases; checked against a static schema.
        offset: number of rows to skip; `limit` includes them.
        seal: punctuations of SEALED; the first keys are those of the partitions.
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
    aliases_as_keys: tuple[FieldRef, ...]
    offset: int = 0
    seal: SealClause | None = None


class LookupJoin(Struct, frozen=True):
    """Lookup table that is joined to the records of a stream when they are read.

    Its columns are the fields `LOOKED_UP + alias.column`. `keys` has for each key an expression over the
    record and the column that must equal it. With `inner`, records without a match are dropped.
    """

    name: str
    alias: str
    columns: tuple[str, ...]
    keys: tuple[tuple[Expr, str], ...]
    inner: bool


class Statement(PartlyCompared, frozen=True):
    """Parsed statement.

    Attributes:
        text: the statement's own text, without the semicolon.
        labels: labels of the agents that take part.
        window: None if the query is one interval over all records.
        fields: dotted input paths that the query reads, sorted, including the window column.
        tables: PAO tables, "main" first.
        star: whether the columns of a `SELECT *` are still unknown; see `expand`.
        plan: for a relational statement, the plan of its first part.
        relation: what the root computes from the finished rows of `parts`; None: nothing.
        scalars: scalar subqueries, in the order of evaluation.
        lookups: lookup tables of a part, which are joined to its records first.
        functions: Python functions that the statement declares; a part has none.
        listed: the columns of `*`, by stream, while those of other streams are unknown; see `waiting`.
        declared: the columns that the streams' formats declare; see `declare`.
        bare: names that are resolved to fields of a stream and may be outer columns.
        assumes: what the job assumes of the records of its stream; each part has it too.
    """

    aside: ClassVar[frozenset[str]] = frozenset({"plan", "origin", "offset", "relation", "scalars"})
    text: str
    source: str
    job: JobClause | None
    stream: str
    labels: tuple[tuple[str, str], ...]
    window: WindowSpec | None
    fields: tuple[str, ...]
    tables: tuple[TableSpec, ...]
    star: bool
    plan: QueryPlan
    origin: SourceText
    offset: int = 0
    relation: Relation | None = None
    parts: tuple[Statement, ...] = ()
    scalars: tuple[tuple[str, Relation], ...] = ()
    lookups: tuple[LookupJoin, ...] = ()
    functions: tuple[PythonFunction, ...] = ()
    listed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    declared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bare: tuple[Bare, ...] = ()
    assumes: tuple[Assumption, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the results: the job's qualified name, or "run" for a plain query."""
        return self.job.qualified if self.job else "run"

    @property
    def columns(self) -> tuple[str, ...]:
        if self.relation is not None:
            return self.relation.columns
        return tuple(name for name, _ in self.plan.outputs)

    @property
    def over_records(self) -> tuple[Statement, ...]:
        """Return the queries over records of one stream: the parts, or the statement itself.

        There are none if no SELECT has a FROM.
        """
        return (self,) if self.relation is None and not self.parts else self.parts

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.stream for part in self.over_records))

    @property
    def latest(self) -> tuple[str, ...]:
        """Return the inputs that are one result of a job: "latest namespace/name", "same namespace/name"."""
        return tuple(name for name in self.streams if is_beside(name))

    @property
    def inputs(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """Return the streams that are read, each once, with the labels of the agents that take part."""
        return tuple(dict.fromkeys((part.stream, part.labels) for part in self.over_records))

    @property
    def spans_intervals(self) -> bool:
        """Return whether the rows of an interval may be made of records of earlier intervals."""
        return self.window is not None and self.window.spans_intervals

    @property
    def tables_read(self) -> tuple[str, ...]:
        """Return the lookup tables that agents need besides those in the text."""
        own = {each.name for each in self.job.tables} if self.job is not None else set()
        return tuple(dict.fromkeys(join.name for join in self.joined if join.name not in own))

    @property
    def joined(self) -> tuple[LookupJoin, ...]:
        return (*self.lookups, *(join for part in self.parts for join in part.lookups))

    def fields_of(self, stream: str) -> tuple[str, ...]:
        """Return the dotted paths to read from one stream's records."""
        if not self.parts:
            return self.fields
        return tuple(sorted({name for part in self.parts if part.stream == stream for name in part.fields}))

    def time_of(self, stream: str | None) -> str:
        for part in self.parts:
            if part.stream == stream and part.window is not None:
                return part.window.column
        assert self.window is not None, "without a window, rows have no event time"
        return self.window.column


def job_read(stream: str) -> str:
    """Return the job whose results are the input, "namespace/name"; "" for a stream of records."""
    return stream.removeprefix(LATEST).removeprefix(SAME) if RESULT in stream else ""


def is_beside(stream: str) -> bool:
    """Return whether an input is a single result of a job that is joined to an interval's records."""
    return stream.startswith((LATEST, SAME))


def part_table(part: int, name: str) -> str:
    return f"{name}@{part}"


def record_expressions(plan: QueryPlan) -> list[Expr]:
    """Return the expressions that are evaluated over single records."""
    exprs = [*plan.keys, *plan.values, *(arg for one in plan.distincts for arg in one.args)]
    exprs += () if plan.seal is None else plan.seal.values
    wheres = [plan.where, *(one.where for one in plan.distincts)]
    return exprs + [where for where in wheres if where is not None]
