"""What a parsed ELF-QL statement is: frozen data, no evaluation.

A `Statement` says everything the rest of the house needs before data comes: the job clause, the stream and
the labels of the agents that take part, the window, the fields to read, and the shape of the PAO tables.
`Plan` is the private half that `Query` evaluates.

Paper: ELF 2.1 (a job is the pair of what each agent does to its records and what is reduced).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from elfmesh.control.ql.nodes import Expr, Field
from elfmesh.control.ql.text_source import SourceText

DEADLINE_US_DEFAULT = 1_000_000
"""How long after an interval's end its result may wait for the slowest agent."""

MAIN = "main"
"""The name of the PAO table every query has."""


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

    @property
    def qualified(self) -> str:
        """The job's full name, "namespace/name"."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Window:
    """A tumbling or hopping window over an event-time column, aligned to the epoch.

    Attributes:
        kind: "tumble" or "hop".
        column: dotted path of the event-time field.
        size_us: width; a multiple of nothing in particular.
        slide_us: distance of two starts; equals `size_us` for a tumbling window.
    """

    kind: str
    column: str
    size_us: int
    slide_us: int

    @property
    def pane_us(self) -> int:
        """Width of the panes windows are put together from."""
        return math.gcd(self.size_us, self.slide_us)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One PAO table: its key columns and aggregates, output name -> (kind, input column or None).

    "main" has keys k0, k1, ...; a table of a distinct aggregate has the same keys, then x, x1, ...
    """

    name: str
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One ORDER BY item over the finalised columns."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class DistinctCount:
    """count(DISTINCT ...): the table that holds the distinct values, and what feeds it."""

    name: str
    args: tuple[Expr, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is evaluated.

    Attributes:
        where: the record filter.
        keys: expressions of the columns k0, k1, ... over the record.
        values: expressions of the columns v0, v1, ... over the record.
        distincts: one per distinct aggregate.
        outputs: (name, expression over k*, a*, d* and the window) in output order.
        having: filter over the same.
        order: as written.
        limit: rows kept per interval, or None.
        distinct: equal output rows are one.
        repeat: name of the hidden count by which output rows are repeated (plain projections), or "".
        one_row: a global aggregate without window: it has one row even over nothing.
        aliases_as_keys: names in GROUP BY that were read as aliases; checked against a static schema.
    """

    where: Expr | None
    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]
    distincts: tuple[DistinctCount, ...]
    outputs: tuple[tuple[str, Expr], ...]
    having: Expr | None
    order: tuple[OrderItem, ...]
    limit: int | None
    distinct: bool
    repeat: str
    one_row: bool
    aliases_as_keys: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One parsed statement.

    Attributes:
        text: the statement's own text, without the separating semicolon.
        source: what it was read from.
        job: the job clause, None for a plain query.
        stream: FROM name.
        labels: of the agents that take part.
        window: None if the query is one interval over everything.
        fields: dotted input paths the query reads, sorted, the window column among them.
        tables: PAO tables, "main" first.
        star: True while a `SELECT *` waits for its columns: see `expand`.
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
