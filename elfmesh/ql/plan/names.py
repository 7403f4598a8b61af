"""Which names mean what: aliases against the stream's own fields, in GROUP BY, HAVING, ORDER BY and WHERE.

JSON logs have no schema, so Spark's rule "a column if there is one, else the alias" cannot be asked of
the data. The rule here gives the same answer whenever it gives one: a name is the stream's field if the
query reads that field anywhere else; otherwise it is the alias; and where the two would differ, the query
is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from elfmesh.ql.expressions.nodes import Aggregate, Expr, Field, place_of, rewrite, walk
from elfmesh.ql.expressions.text_source import Place, SourceText


@dataclass(frozen=True, slots=True)
class Item:
    """One select item: its output name, its expression, and whether the name was given with AS."""

    name: str
    expr: Expr
    aliased: bool


@dataclass(frozen=True, slots=True)
class Bare:
    """A name without its input in a query in brackets: only records say whether it is one of their fields.

    Attributes:
        stream: of the query in brackets.
        path: the name.
        at: where it stands.
        meant: what it may mean, written with its input.
        unclear: it stands in WHERE.
    """

    stream: str
    path: str
    at: Place
    meant: tuple[str, ...]
    unclear: bool = False

    @property
    def remedy(self) -> str:
        return f"Write {' or '.join(self.meant)}."


class Names:
    """Resolves the names of one statement's select list."""

    def __init__(self, source: SourceText, items: Sequence[Item], where: Expr | None) -> None:
        self._source = source
        self._aliases = {item.name.lower(): item for item in items if item.aliased}
        readers = [item.expr for item in items] + ([] if where is None else [where])
        self._read = {node.path for expr in readers for node in walk(expr) if isinstance(node, Field)}

    def alias(self, expr: Expr) -> Item | None:
        """The select item whose alias an unquoted, undotted name is, or None."""
        if not isinstance(expr, Field) or expr.quoted:
            return None
        return self._aliases.get(expr.path.lower())

    def in_group_by(self, expr: Expr) -> Expr:
        item = self.alias(expr)
        if item is None or (isinstance(expr, Field) and expr.path in self._read):
            return expr
        return item.expr

    def is_alias_key(self, expr: Expr) -> bool:
        """Whether `in_group_by` reads the name as an alias of something else."""
        return self.in_group_by(expr) != expr

    def in_order_by(self, expr: Expr) -> Expr:
        """The expression with aliases replaced; what stands inside an aggregate is never an alias."""

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Aggregate):
                return node
            item = self.alias(node)
            return None if item is None else item.expr

        return rewrite(expr, change)

    def in_having(self, expr: Expr, keys: Collection[Expr]) -> Expr:
        """As `in_order_by`; a name that is a grouping column and the alias of something else is refused.

        Raises:
            QueryError: such a name.
        """

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Aggregate) or node in keys:
                item = self.alias(node)
                if item is not None and item.expr != node:
                    assert isinstance(node, Field)
                    raise self._source.error(
                        f"{node.path} is both a grouping column and an alias",
                        place_of(node),
                        "Give the output another name: AS other_name.",
                    )
                return node
            item = self.alias(node)
            return None if item is None else item.expr

        return rewrite(expr, change)

    def refuse_aliases(self, expr: Expr, clause: str, own: Item | None = None) -> None:
        """Refuse a name that can only be an alias where aliases are not seen (WHERE, aggregate arguments).

        Raises:
            QueryError: such a name: as a field it would be null without a word.
        """
        for node in walk(expr):
            item = self.alias(node)
            if item is None or item is own or not isinstance(node, Field):
                continue
            if any(isinstance(below, Field) and below.path == node.path for below in walk(item.expr)):
                continue
            raise self._source.error(
                f"{node.path} is an alias of this query; {clause} sees only the fields of the stream",
                place_of(node),
                f"Repeat the expression, or write `{node.path}` in backquotes for the field.",
            )
