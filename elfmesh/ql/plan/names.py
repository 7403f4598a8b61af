"""Resolution of aliases against fields of the stream, in GROUP BY, HAVING, ORDER BY and WHERE.

JSON logs have no schema, so Spark's rule "a column if it exists, else the alias" cannot be applied. The rule
here gives the same result whenever it gives one: a name is a field if the query reads that field anywhere
else, and the alias otherwise. If the two could differ, QueryError is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from elfmesh.ql.expressions.nodes import Aggregate, Expr, FieldRef, Star, place_of, rewrite, walk
from elfmesh.ql.expressions.text_source import SourceText, TextPosition
from elfmesh.text import suggest


class SelectItem(Struct, frozen=True):
    """Select item: output name, expression, and whether the name was given with AS."""

    name: str
    expr: Expr
    aliased: bool


class Bare(Struct, frozen=True):
    """Unqualified name in a subquery that may be a field of its stream or an outer column.

    Attributes:
        stream: stream of the subquery.
        path: the name.
        at: its position.
        meant: the qualified names that it may refer to.
        unclear: whether it is in WHERE.
    """

    stream: str
    path: str
    at: TextPosition
    meant: tuple[str, ...]
    unclear: bool = False

    @property
    def remedy(self) -> str:
        return f"Write {' or '.join(self.meant)}."


class SelectNames:
    """Resolver of the aliases of one statement's select list."""

    def __init__(self, source: SourceText, items: Sequence[SelectItem], where: Expr | None) -> None:
        self._source = source
        self._aliases = {item.name.lower(): item for item in items if item.aliased}
        readers = [item.expr for item in items] + ([] if where is None else [where])
        self._read = {node.path for expr in readers for node in walk(expr) if isinstance(node, FieldRef)}

    def alias(self, expr: Expr) -> SelectItem | None:
        """Return the select item whose alias is this unquoted, undotted name, or None."""
        if not isinstance(expr, FieldRef) or expr.quoted:
            return None
        return self._aliases.get(expr.path.lower())

    def in_group_by(self, expr: Expr) -> Expr:
        item = self.alias(expr)
        if item is None or (isinstance(expr, FieldRef) and expr.path in self._read):
            return expr
        return item.expr

    def is_alias_key(self, expr: Expr) -> bool:
        """Return whether `in_group_by` resolves the name to an alias of another expression."""
        return self.in_group_by(expr) != expr

    def in_order_by(self, expr: Expr) -> Expr:
        """Replace aliases in an expression; names inside an aggregate are never aliases."""

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Aggregate):
                return node
            item = self.alias(node)
            return None if item is None else item.expr

        return rewrite(expr, change)

    def in_having(self, expr: Expr, keys: Collection[Expr]) -> Expr:
        """As `in_order_by`; refuses a name that is a grouping column and the alias of another expression.

        Raises:
            QueryError: The expression contains such a name.
        """

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Aggregate) or node in keys:
                item = self.alias(node)
                if item is not None and item.expr != node:
                    assert isinstance(node, FieldRef)
                    raise self._source.error(
                        f"{node.path} is both a grouping column and an alias",
                        place_of(node),
                        "Give the output another name: AS other_name.",
                    )
                return node
            item = self.alias(node)
            return None if item is None else item.expr

        return rewrite(expr, change)

    def refuse_aliases(self, expr: Expr, clause: str, own: SelectItem | None = None) -> None:
        """Check a clause in which aliases are not visible (WHERE, arguments of aggregates).

        Raises:
            QueryError: A name can only be an alias; read as a field it would be null without a message.
        """
        for node in walk(expr):
            item = self.alias(node)
            if item is None or item is own or not isinstance(node, FieldRef):
                continue
            if any(isinstance(below, FieldRef) and below.path == node.path for below in walk(item.expr)):
                continue
            raise self._source.error(
                f"{node.path} is an alias of this query; {clause} sees only the fields of the stream",
                place_of(node),
                f"Repeat the expression, or write `{node.path}` in backquotes for the field.",
            )


def dropped_by(star: Star, columns: Sequence[str], error: Callable[..., Exception]) -> set[int]:
    """Return the places of the columns that `* EXCEPT (...)` leaves out.

    Raises:
        QueryError: a name is that of no column or of several; or no column is left.
    """
    dropped = set[int]()
    for name in star.without:
        found = [at for at, column in enumerate(columns) if column == name]
        found = found or [at for at, column in enumerate(columns) if column.lower() == name.lower()]
        if len(found) != 1 or found[0] in dropped:
            hint = suggest(name, columns) or f"There are {', '.join(columns)}."
            what = "has no column" if not found else "has several columns" if len(found) > 1 else "twice has"
            raise error(f"EXCEPT names {name}, and `*` {what} of this name", star.at, hint)
        dropped.update(found)
    if columns and len(dropped) == len(columns):
        raise error("* EXCEPT leaves no column", star.at, "Leave one out of EXCEPT.")
    return dropped
