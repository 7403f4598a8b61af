"""Expressions of a query: small, frozen, comparable trees.

No class of sqlglot is used after `translate`. Two expressions are equal if they have the same meaning; their
position (`at`) is not compared. A literal has its type in `kind`, because 1, 1.0 and TRUE are equal in
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.values.compared import PartlyCompared


class Expr(PartlyCompared, frozen=True, kw_only=True):
    """Base of all expressions."""

    aside: ClassVar[frozenset[str]] = frozenset({"at"})
    at: TextPosition = NOWHERE

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        assert not children
        return self


class FieldRef(Expr, frozen=True):
    """Field of the input record, by its dotted path. A `quoted` name is never an alias."""

    aside: ClassVar[frozenset[str]] = frozenset({"at", "quoted"})
    path: str
    quoted: bool = False


class Literal(Expr, frozen=True):
    """A constant; `kind` is "null", "bool", "bigint", "double" or "string"."""

    kind: str
    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        # Compare the text: 0.0 and -0.0 are equal as numbers, but results computed from them differ.
        return (
            isinstance(other, Literal)
            and self.kind == other.kind
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.value)))


class Duration(Expr, frozen=True):
    """INTERVAL of a fixed length, in microseconds."""

    us: int


class Star(Expr, frozen=True):
    """`*` as a select item or as the argument of count; `without` has the names of EXCEPT."""

    without: tuple[str, ...] = ()


class Call(Expr, frozen=True):
    """Call of a function or operator; `option` is not an expression, for example the type of a cast."""

    name: str
    args: tuple[Expr, ...]
    option: str = ""

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, args=children)


class PythonCall(Call, frozen=True, kw_only=True):
    """Call of a function that the statement declares; it is evaluated only over records."""

    function: PythonFunction


class Parameter(Expr, frozen=True):
    """Parameter of a lambda function, in its body; names are in lower case."""

    name: str


class Lambda(Expr, frozen=True):
    """Lambda function `(x, i) -> body`, an argument of a call. An inner parameter hides an outer one."""

    parameters: tuple[str, ...]
    body: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, body=children[0])


class Aggregate(Expr, frozen=True):
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


class SealClause(Struct, frozen=True):
    """Arguments of SEALED; all expressions are values of single records.

    Attributes:
        keys: a partition is one value of these.
        when: condition of the records that are punctuations.
        how: ONE, ALL or NUMBER: which producers have to seal a partition.
        producers: for NUMBER, how many, a value of the punctuation.
        by: the producer of a punctuation; None: the member that reads it.
        records: how many records the producer has written for the partition, or None.
        after_us: a partition ends unsealed when it has had no record for this long.
    """

    keys: tuple[Expr, ...]
    when: Expr
    how: str
    producers: Expr | None
    by: Expr | None
    records: Expr | None
    after_us: int

    @property
    def values(self) -> tuple[Expr, ...]:
        """Return the expressions over a punctuation, besides its keys."""
        return tuple(each for each in (self.when, self.producers, self.by, self.records) if each is not None)

    def changed(self, change: Callable[[Expr], Expr]) -> SealClause:
        return replace(
            self,
            keys=tuple(change(key) for key in self.keys),
            when=change(self.when),
            producers=None if self.producers is None else change(self.producers),
            by=None if self.by is None else change(self.by),
            records=None if self.records is None else change(self.records),
        )


class WindowCall(Expr, frozen=True):
    """Call of TUMBLE, HOP, SESSION, SEALED, ROWS or Spark's spelling of them; lengths in microseconds.

    SEALED and ROWS have the length of EVERY, which is 0 here. ROWS has `rows` records and moves by `step`.
    """

    kind: str
    column: str
    size_us: int
    slide_us: int
    seal: SealClause | None = None
    rows: int = 0
    step: int = 0


class WindowBound(Expr, frozen=True):
    """Start or end of the interval; `side` is "start" or "end"."""

    side: str


class Scalar(Expr, frozen=True):
    """Value of a scalar subquery: the same for all rows of an interval."""

    name: str


class Frame(Struct, frozen=True):
    """Frame of an aggregate OVER rows.

    With `rows`, `first` and `last` are numbers of rows; otherwise they are distances in the value of ORDER
    BY, in microseconds if `timed`. None is the bound of the partition; a negative number is before the
    current row.
    """

    rows: bool
    first: int | float | None
    last: int | float | None
    timed: bool = False


class Over(Expr, frozen=True):
    """Function over the rows of an interval: `row_number() OVER (PARTITION BY a ORDER BY b DESC)`.

    `kind` is "aggregate" if `args` is one aggregate. `directions` has for each item of `order` whether it is
    descending and whether nulls come first. Without `frame`, the frame ends at the current row's peers if
    there is an `order`, and is the whole partition otherwise.
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


class Ref(Expr, frozen=True):
    """Column of a finalised table: a key (k0), a state (a0), a distinct count (d0) or a fold (f0)."""

    name: str


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all expressions in it, parents first. Cost: linear, also for a long chain."""
    left = [expr]
    while left:
        yield (node := left.pop())
        left.extend(reversed(node.children))


def free_parameters(expr: Expr) -> frozenset[str]:
    """Return the parameters of lambda functions around the expression that it uses."""
    if isinstance(expr, Parameter):
        return frozenset({expr.name})
    found = frozenset[str]().union(*map(free_parameters, expr.children))
    return found.difference(expr.parameters) if isinstance(expr, Lambda) else found


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, from the top, every node for which `change` returns a node.

    Replaced nodes are not searched.
    """
    changed = change(expr)
    if changed is not None:
        return changed
    if not expr.children:
        return expr
    return expr.with_children(tuple(rewrite(child, change) for child in expr.children))


def place_of(expr: Expr) -> TextPosition:
    for node in walk(expr):
        if node.at != NOWHERE:
            return node.at
    return NOWHERE
