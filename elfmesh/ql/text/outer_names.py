"""Qualification of unqualified names in a subquery that refer to the outer query.

    SELECT ... FROM x WHERE (SELECT count(*) FROM y WHERE y1 = x1) = 1        y1 = x.x1

A name is a column of its own query if that query may have such a column. It is an outer column only if all
columns of its own query are known and none has this name. The columns of a query are its select list; those
of a stream are declared by its format. A stream without declared columns may have a column of any name.

This module changes the parse tree and resolves no other names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from sqlglot import exp

from elfmesh.ql.expressions.refusals import GENERATORS, MARK
from elfmesh.ql.expressions.text_source import NOWHERE
from elfmesh.ql.plan.scope import IMPLICIT, Input
from elfmesh.ql.text.paths import dotted_parts

Complain = Callable[..., Exception]
Declared = Mapping[str, tuple[str, ...]]
"""The columns that the formats of streams declare, by stream."""

UNNAMED = "#"
"""First character of the names of inputs without an alias. No name in a text begins with it."""

_WINDOW = {"window", "window_start", "window_end", "session_window"}


class OuterNames(Struct):
    """Qualifier of outer columns with the names of their inputs.

    Args:
        declared: the declared columns, by stream.
        error: makes the error at a node.
        unclear: receives the names in WHERE that may be outer columns.
    """

    declared: Declared
    error: Complain
    unclear: list[exp.Column] = field(default_factory=list)

    def qualify(self, tree: exp.Select, inputs: Sequence[Input], named: Mapping[str, Any]) -> None:
        """Qualify the outer columns in the subqueries of a SELECT, in place.

        Args:
            tree: the SELECT.
            inputs: the inputs of the SELECT.
            named: the queries of WITH in scope, as `Drafter.draft` takes them.

        Raises:
            QueryError: A name may be a column of several outer inputs.
        """
        for query in _queries(tree):
            if not isinstance(query.parent, exp.CTE) and not _is_input(query):
                self._inside(query, [inputs], named)

    def _inside(self, query: Any, around: Sequence[Sequence[Input]], named: Mapping[str, Any]) -> None:
        named = self._with(query, named)
        scopes = around
        if isinstance(query, exp.Select):
            own = list(self._inputs(query, named))
            scopes = [*around, own]
            if all(one.known is not None for one in own):
                for column in _own_columns(query):
                    self._outside(column, scopes)
            elif around:
                self.unclear += _unclear(query, own, around)
        for below in _queries(query):
            self._inside(below, around if _is_input(below) else scopes, named)

    def _outside(self, column: exp.Column, scopes: Sequence[Sequence[Input]]) -> None:
        parts = [part.name for part in column.parts]
        if len(parts) > 1 and any(one.answers_to(parts[0]) for scope in scopes for one in scope):
            return
        if any(_has(one, parts) for one in scopes[-1]):
            return
        for scope in reversed(scopes[:-1]):
            having = [one for one in scope if _has(one, parts)]
            maybe = having or [one for one in scope if one.known is None]
            if len(maybe) > 1:
                names = " or ".join(f"{one.name}.{'.'.join(parts)}" for one in maybe)
                raise self.error(
                    column, f"{'.'.join(parts)} may be a column of several inputs", f"Write {names}."
                )
            if maybe:
                self._written(column, maybe[0].name)
                return

    def _written(self, column: exp.Column, name: str) -> None:
        if name.startswith(UNNAMED):
            path = ".".join(part.name for part in column.parts)
            hint = f"Name the outer query: FROM (SELECT ...) AS x, and write x.{path}."
            raise self.error(column, f"{path} is a column of an outer query that has no name", hint)
        free = next((each for each in ("table", "db", "catalog") if column.args.get(each) is None), None)
        if free is not None:
            column.set(free, exp.to_identifier(name, quoted=True))

    # -- columns of inputs

    def _with(self, query: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
        given = query.args.get("with_") or query.args.get("with")
        found = dict(named)
        for cte in () if given is None else given.expressions:
            found[cte.alias.lower()] = (cte, dict(found))
        return found

    def _inputs(self, select: exp.Select, named: Mapping[str, Any]) -> Iterator[Input]:
        given = select.args.get("from_") or select.args.get("from")
        tables = [] if given is None else [given.this]
        tables += [join.this for join in select.args.get("joins") or ()]
        for table in (*tables, *(select.args.get("laterals") or ())):
            name = table.alias or (table.name if isinstance(table, exp.Table) else "")
            yield Input(name or UNNAMED, self._columns_of(table, named), NOWHERE)

    def _columns_of(self, table: Any, named: Mapping[str, Any]) -> tuple[str, ...] | None:
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return tuple(column.name for column in alias.columns)
        if isinstance(table, exp.Subquery | exp.CTE):
            return self._columns(table.this, named)
        if not isinstance(table, exp.Table) or table.db:
            return None
        found = named.get(table.name.lower())
        return self.declared.get(table.name) if found is None else self._columns_of_named(*found)

    def _columns_of_named(self, tree: Any, named: Mapping[str, Any]) -> tuple[str, ...] | None:
        return self._columns_of(tree, named) if isinstance(tree, exp.CTE) else self._columns(tree, named)

    def _columns(self, query: Any, named: Mapping[str, Any]) -> tuple[str, ...] | None:
        if isinstance(query, exp.Subquery):
            return self._columns_of(query, self._with(query, named))
        if isinstance(query, exp.SetOperation):
            return self._columns(query.this, self._with(query, named))
        if not isinstance(query, exp.Select):
            return None
        found: list[str] = []
        for item in query.expressions:
            names = self._names(item, query, named)
            if names is None:
                return None
            found += names
        return tuple(found)

    def _names(self, item: Any, query: exp.Select, named: Mapping[str, Any]) -> Sequence[str] | None:
        if isinstance(item, exp.Alias):
            return [item.alias]
        if isinstance(item, exp.Aliases):
            return [name.name for name in item.expressions]
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
            found: list[str] = []
            for one in self._inputs(query, self._with(query, named)):
                if qualifier in ("", one.name.lower()):
                    if one.columns is None:
                        return None
                    found += one.columns
            star = item if isinstance(item, exp.Star) else item.this
            dropped = {each.name.lower() for each in star.args.get("except_") or ()}
            return [name for name in found if name.lower() not in dropped]
        if isinstance(item, exp.Anonymous) and str(item.this).removeprefix(MARK) in GENERATORS:
            return None
        path = dotted_parts(item)
        return [""] if path is None else [path[0][-1]]


def _unclear(
    query: exp.Select, own: Sequence[Input], around: Sequence[Sequence[Input]]
) -> Iterator[exp.Column]:
    """Yield the unqualified names in WHERE of a query: `y1 = x1`, and `x1 = 5` alone."""
    where = query.args.get("where")
    inside = {id(each) for each in where.find_all(exp.Column)} if where is not None else set[int]()
    for column in _own_columns(query):
        bare = id(column) in inside and not _names_one(column, [*around, own])
        if bare and column.name.lower() not in IMPLICIT:
            yield column


def _names_one(column: exp.Column, around: Sequence[Sequence[Input]]) -> bool:
    parts = column.parts
    return len(parts) > 1 and any(one.answers_to(parts[0].name) for scope in around for one in scope)


def _has(one: Input, parts: Sequence[str]) -> bool:
    known = {name.lower() for name in one.known or ()}
    return parts[0].lower() in known or ".".join(parts).lower() in known


def _queries(tree: Any) -> Iterator[Any]:
    for node in list(tree.iter_expressions()):
        if isinstance(node, exp.Select | exp.SetOperation):
            yield node
        else:
            yield from _queries(node)


def _is_input(query: exp.Expr) -> bool:
    above = query.parent
    while isinstance(above, exp.Subquery):
        above = above.parent
    return isinstance(above, exp.From | exp.Join | exp.CTE | exp.SetOperation)


def _own_columns(query: exp.Select) -> Iterator[exp.Column]:
    aliases = {item.alias.lower() for item in query.expressions if isinstance(item, exp.Alias)}
    for column in list(query.find_all(exp.Column)):
        name = column.parts[0].name.lower()
        if isinstance(column.this, exp.Star) or name in aliases or name in _WINDOW:
            continue
        above = column.parent
        while above is not None and not isinstance(above, exp.Query | exp.Lambda):
            above = above.parent
        if isinstance(above, exp.Subquery):  # look through the parentheses
            above = above.this
        if above is query:
            yield column
