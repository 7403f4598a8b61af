"""Columns that joins with USING or NATURAL have in common: one column in place of one of each side.

As in Spark, the value of a common column is that of the left side, for RIGHT JOIN that of the right side, and
for FULL JOIN the first of both that is not null. `*` returns the common columns first, then the others of the
left side, then those of the right side. Both sides remain readable by their qualified names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct, field

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.scope import Input

Named = tuple[str, Expr]
Placed = tuple[str, TextPosition]

UNLISTED = (
    "NATURAL JOIN needs the columns of both sides, and a stream has no schema",
    "Name the common columns: JOIN other USING (x).",
)
"""Message and hint for columns that are not known."""


class FieldResolver(Protocol):
    """Resolver of a qualified name: `NameScope`."""

    def field(self, parts: Sequence[str], quoted: bool, at: TextPosition) -> FieldRef: ...

    def error(self, message: str, at: TextPosition, hint: str) -> QueryError: ...


class CommonColumn(Struct, frozen=True):
    """Common column; `inputs` has the places of the inputs that it stands for.

    If `exact`, an input may have another column whose name differs in case only, because it is a stream.
    """

    name: str
    expr: Expr
    inputs: frozenset[int]
    exact: bool

    def answers_to(self, name: str) -> bool:
        return name == self.name or (not self.exact and name.lower() == self.name.lower())


class CommonColumns(Struct):
    """Common columns of the joins of one SELECT, by the place of each join's right input."""

    joins: dict[int, list[CommonColumn]] = field(default_factory=dict)

    def join(
        self, fields: FieldResolver, inputs: Sequence[Input], kind: str, names: Sequence[Placed]
    ) -> Expr | None:
        """Join the last input with those before it; return the condition, None without common columns.

        Raises:
            QueryError: a name is that of no column of a side, or of several.
        """
        at, found = len(inputs) - 1, list[CommonColumn]()
        condition: Expr | None = None
        for name, place in names:
            before = self.find(name, inputs[:-1])
            if before is None:
                before = self._of_one(fields, inputs[:-1], name, place)
            right = fields.field([inputs[at].name, name], True, place)
            equal = Call("=", (before.expr, right), at=place)
            condition = equal if condition is None else Call("and", (condition, equal), at=place)
            value: Expr = before.expr
            if kind == "right":
                value = right
            elif kind == "full":
                value = Call("coalesce", (before.expr, right), at=place)
            shown = before.name if kind != "right" else inputs[at].find(name) or name
            exact = before.exact or inputs[at].columns is None
            found.append(CommonColumn(shown, value, before.inputs | {at}, exact))
        self.joins[at] = found
        return condition

    def _of_one(
        self, fields: FieldResolver, inputs: Sequence[Input], name: str, place: TextPosition
    ) -> CommonColumn:
        shown = [(at, one) for at, one in enumerate(inputs) if not one.hidden]
        having = [each for each in shown if each[1].find(name) is not None]
        maybe = [*having, *(each for each in shown if each[1].columns is None and each[1].may_have(name))]
        maybe = maybe or shown
        if len(maybe) > 1:
            hint = "Write ON and qualify both sides: ON a.x = b.x."
            raise fields.error(f"{name} may be a column of several inputs", place, hint)
        ((at, one),) = maybe
        expr = fields.field([one.name, name], True, place)
        return CommonColumn(one.find(name) or name, expr, frozenset({at}), one.columns is None)

    def find(self, name: str, inputs: Sequence[Input]) -> CommonColumn | None:
        """Return the common column of a name; None: there is none, or another input may have the name too."""
        for at in reversed(self.joins):
            for each in self.joins[at]:
                if each.answers_to(name):
                    others = [one for at, one in enumerate(inputs) if at not in each.inputs]
                    alone = all(one.hidden or not one.may_have(name) for one in others)
                    return each if alone else None
        return None

    def columns(self, inputs: Sequence[Input], own: Sequence[Sequence[Named]]) -> list[Named]:
        """Return the columns of `*`; `own` has those of each input, without those of hidden ones."""
        found: list[Named] = []
        for at, (one, mine) in enumerate(zip(inputs, own, strict=True)):
            common = self.joins.get(at, [])
            names = {each.name.lower() for each in common}
            rest = [each for each in found if each[0].lower() not in names]
            rest += [each for each in mine if not one.hidden and each[0].lower() not in names]
            found = [*((each.name, each.expr) for each in common), *rest]
        return found

    def natural(
        self, inputs: Sequence[Input], place: TextPosition
    ) -> Iterator[tuple[str, TextPosition]] | None:
        """Return the names that the last input has in common with those before it; None: some are unknown."""
        listed = [one.listed if one.columns is None else one.columns for one in inputs]
        if any(columns is None for columns in listed):
            return None
        own = [[(name, FieldRef(name, True)) for name in columns or ()] for columns in listed]
        theirs = {name.lower() for name, _ in own[-1]}
        before = self.columns(inputs[:-1], own[:-1])
        return ((name, place) for name, _ in before if name.lower() in theirs)
