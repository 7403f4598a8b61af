"""The expressions of a query: small, frozen, comparable trees.

The parser's classes stop at `translate`. Two expressions are equal when they mean the same text; their place
(`at`) does not count. A literal carries its type in `kind`, because 1, 1.0 and TRUE are equal in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.text_source import NOWHERE, Place


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of all expressions."""

    at: Place = field(default=NOWHERE, compare=False, kw_only=True)

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        assert not children
        return self


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """A field of the input record by dotted path. `quoted` names are never aliases."""

    path: str
    quoted: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant; `kind` is "null", "bool", "bigint", "double" or "string"."""

    kind: str
    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        # By text: 0.0 and -0.0 are equal as numbers, and what is computed from them is not.
        return (
            isinstance(other, Literal)
            and self.kind == other.kind
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.value)))


@dataclass(frozen=True, slots=True)
class Duration(Expr):
    """INTERVAL of a fixed length, in microseconds."""

    us: int


@dataclass(frozen=True, slots=True)
class Star(Expr):
    """`*` as a select item or as the argument of count."""


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function or operator on operands; `option` holds what is not an expression (a cast's type, ...)."""

    name: str
    args: tuple[Expr, ...]
    option: str = ""

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, args=children)


@dataclass(frozen=True, slots=True)
class PythonCall(Call):
    """A call of a function that the statement brings along; evaluated over records, and nowhere else."""

    function: PythonFunction = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Aggregate(Expr):
    """An aggregate call, by a name of `aggregates`. `where` is its FILTER; `args` is empty for count(*)."""

    kind: str
    args: tuple[Expr, ...]
    distinct: bool = False
    where: Expr | None = None

    @property
    def children(self) -> tuple[Expr, ...]:
        return (*self.args, *([self.where] if self.where is not None else []))

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        count = len(self.args)
        where = children[count] if self.where is not None else None
        return replace(self, args=children[:count], where=where)


@dataclass(frozen=True, slots=True)
class WindowCall(Expr):
    """TUMBLE, HOP, SESSION or Spark's spelling of them: lengths in microseconds."""

    kind: str
    column: str
    size_us: int
    slide_us: int


@dataclass(frozen=True, slots=True)
class WindowBound(Expr):
    """The start or end of the interval that is being finalised; `side` is "start" or "end"."""

    side: str


@dataclass(frozen=True, slots=True)
class Scalar(Expr):
    """The one value of a query in brackets: the same for all rows of an interval."""

    name: str


@dataclass(frozen=True, slots=True)
class Frame:
    """Which rows around the current one an aggregate OVER rows sees.

    With `rows`, `first` and `last` count rows, else they are distances of the value of ORDER BY, of
    microseconds if `timed`. None is the bound of the partition; negative is before the current row.
    """

    rows: bool
    first: int | float | None
    last: int | float | None
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Over(Expr):
    """A function over the rows of an interval: `row_number() OVER (PARTITION BY a ORDER BY b DESC)`.

    `kind` is "aggregate" where `args` is one aggregate. `directions` says per item of `order` whether it
    descends and whether nulls come first. Without `frame`: up to the current row's equals with `order`, else
    the whole partition.
    """

    kind: str
    args: tuple[Expr, ...]
    partition: tuple[Expr, ...]
    order: tuple[Expr, ...]
    directions: tuple[tuple[bool, bool], ...]
    frame: Frame | None = None

    @property
    def children(self) -> tuple[Expr, ...]:
        return (*self.args, *self.partition, *self.order)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        first, second = len(self.args), len(self.args) + len(self.partition)
        return replace(self, args=children[:first], partition=children[first:second], order=children[second:])


@dataclass(frozen=True, slots=True)
class Ref(Expr):
    """A column of a finalised table: a key (k0), a state (a0), a distinct count (d0) or a fold (f0)."""

    name: str


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in expr.children:
        yield from walk(child)


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, from the top, every node for which `change` returns something; do not look below those."""
    changed = change(expr)
    if changed is not None:
        return changed
    if not expr.children:
        return expr
    return expr.with_children(tuple(rewrite(child, change) for child in expr.children))


def place_of(expr: Expr) -> Place:
    for node in walk(expr):
        if node.at != NOWHERE:
            return node.at
    return NOWHERE
