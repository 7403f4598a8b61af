"""Rewriting of IN (SELECT ...), EXISTS and correlated scalar subqueries as joins, on the parse tree.

    x IN (SELECT y FROM b WHERE b.k = a.k)      LEFT SEMI JOIN (SELECT y, b.k FROM b) ON x = y AND k = a.k
    x NOT IN (SELECT y FROM b)                  LEFT ANTI JOIN, and no row at all where b has a null y
    EXISTS (SELECT ... FROM b WHERE b.k = a.k)  LEFT SEMI JOIN (SELECT b.k FROM b) ON k = a.k
    (SELECT max(y) FROM b WHERE b.k = a.k)      LEFT JOIN (SELECT b.k, max(y) AS v FROM b GROUP BY b.k)

Conditions that refer to the outer query must be in WHERE; they move into ON. All others raise QueryError at
their position. A row of the outer query appears at most once in the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from sqlglot import exp

from elfmesh.ql.expressions.aggregate_nodes import aggregate_calls, is_aggregate, over_nothing
from elfmesh.ql.expressions.refusals import MARK
from elfmesh.ql.text.subqueries import (
    column_paths,
    columns_named,
    conjuncts,
    drop_what_keeps_a_row,
    has_aggregates,
    has_star,
    input_names,
    is_below,
    is_value,
    own_nodes,
    put_where,
    row_count,
    select_columns,
)

NESTED = "#s"
"""Prefix of the inputs that replace subqueries: #s0, #s1, ..."""

_PLAIN = {"expressions", "from_", "from", "where", "joins", "order", "distinct"}
Complain = Callable[..., Exception]
HINT = "Join with the query instead: LEFT JOIN (SELECT k, max(x) AS x ... GROUP BY k) t ON ..."


class Nested(Struct, frozen=True):
    """Subquery that is joined ("semi", "anti" or "left") on its columns `c0`, `c1`, ..."""

    name: str
    kind: str
    query: exp.Query
    on: exp.Expr


class Unnesting:
    """Remover of the subqueries of one SELECT, in place; `nested` has the subqueries to join."""

    def __init__(self, tree: exp.Select, error: Complain) -> None:
        self._error = error
        self._names = input_names(tree)
        self.nested: list[Nested] = []
        where = tree.args.get("where")
        if where is not None:
            kept = [self._condition(each) for each in conjuncts(where.this)]
            put_where(tree, [each for each in kept if each is not None])
        for node in [*own_nodes(tree, exp.In), *own_nodes(tree, exp.Exists)]:
            if isinstance(node, exp.Exists):
                self._alone(tree, node)
            elif node.args.get("query") is not None:
                raise error(
                    node, "IN (SELECT ...) must be a condition of WHERE, joined by AND",
                    "Write LEFT SEMI JOIN (SELECT ...) t ON a.x = t.x, or filter outside.",
                )  # fmt: skip
        for node in list(own_nodes(tree, exp.Subquery)):
            if is_value(node) and self._outside(node.this):
                self._value(tree, node)

    # -- conditions of WHERE

    def _condition(self, node: exp.Expr) -> exp.Expr | None:
        inner, kind = node, "semi"
        while isinstance(inner, exp.Paren | exp.Not):
            kind = {"semi": "anti", "anti": "semi"}[kind] if isinstance(inner, exp.Not) else kind
            inner = inner.this
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            return self._in(inner, kind)
        if isinstance(inner, exp.Exists) and self._outside(inner.this):
            drop_what_keeps_a_row(inner.this)
            self._join(inner.this, kind, [], inner)
            return None
        return node

    def _in(self, node: exp.In, kind: str) -> exp.Expr | None:
        query = node.args["query"].this
        left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        many = isinstance(query, exp.Query) and not has_star(query) and len(query.selects) != len(left)
        if not isinstance(query, exp.Select | exp.SetOperation) or many:
            raise self._error(
                node,
                f"IN needs a query with {len(left)} column{'s' * (len(left) > 1)}",
                "Select as many columns as there are before IN.",
            )
        if kind == "semi":
            self._join(query, kind, left, node)
            return None
        if len(left) > 1:
            hint = "Where none is null, write NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y = a.y)."
            raise self._error(node, "NOT IN with several columns is not supported", hint)
        if self._outside(query):
            self._join(query, kind, left, node, null_aware=True)
            return None
        value = exp.column("c0", table="#n", quoted=True)
        nulls = row_count(columns_named(query, 1), exp.Is(this=value, expression=exp.Null()))
        some = exp.Not(this=exp.Is(this=left[0].copy(), expression=exp.Null()))
        empty = exp.EQ(this=row_count(columns_named(query)), expression=exp.Literal.number(0))
        self._join(query, kind, left, node)
        none = exp.EQ(this=nulls, expression=exp.Literal.number(0))
        return exp.And(this=none, expression=exp.Paren(this=exp.Or(this=some, expression=empty)))

    def _join(
        self, query: Any, kind: str, left: list[exp.Expr], node: exp.Expr, *, null_aware: bool = False
    ) -> None:
        """Join a query so that its columns equal `left` and its conditions on the outer query hold."""
        name, given = f"{NESTED}{len(self.nested)}", [each.copy() for each in query.selects]
        conditions: list[exp.Expr] = []
        for at, each in enumerate(left):
            column = exp.column(f"c{at}", table=name, quoted=True)
            equal: exp.Expr = exp.In(this=each.copy(), expressions=[column])
            if null_aware:
                nulls = [exp.Is(this=one.copy(), expression=exp.Null()) for one in (each, column)]
                equal = exp.Paren(this=exp.or_(equal, *nulls, copy=False))
            conditions.append(equal)
        if not self._outside(query):
            named = columns_named(query, len(left))
            self.nested.append(Nested(name, kind, named, exp.and_(*conditions, copy=False)))
            return
        if left and has_star(query):
            hint = "Name the columns that stand before IN."
            raise self._error(node, "`*` in a correlated subquery of IN is not supported", hint)
        inner = self._plain(query, node)
        columns = given[: len(left)]
        conditions += [self._lifted(each, inner, name, columns) for each in self._move(inner, node)]
        select_columns(inner, columns or [exp.Literal.number(1)])
        self.nested.append(Nested(name, kind, inner, exp.and_(*conditions, copy=False)))

    def _alone(self, tree: exp.Select, node: exp.Exists) -> None:
        if self._outside(node.this):
            self._counted(tree, node)
            return
        query = node.this.copy()
        grouped = any(query.args.get(name) for name in ("group", "having", "distinct"))
        if isinstance(query, exp.Select) and not (grouped or has_aggregates(query)):
            query.set("expressions", [exp.Literal.number(1)])
        found = exp.GT(this=row_count(columns_named(query)), expression=exp.Literal.number(0))
        node.replace(exp.Paren(this=found))

    def _counted(self, tree: exp.Select, node: exp.Exists) -> None:
        """Write a correlated EXISTS that is no condition of WHERE as a number of rows that is not 0."""
        query = node.this.copy()
        plain = isinstance(query, exp.Select) and not any(
            given and name not in _PLAIN for name, given in query.args.items()
        )
        if not plain or has_aggregates(query) or not self._is_early(tree, node):
            raise self._error(
                node, "this correlated EXISTS must be a condition of WHERE, joined by AND",
                "Write LEFT SEMI JOIN (SELECT ...) t ON a.x = t.x, or filter outside.",
            )  # fmt: skip
        for name in ("order", "distinct"):
            query.set(name, None)
        query.set("expressions", [exp.Anonymous(this=f"{MARK}count", expressions=[exp.Star()])])
        zero = exp.Literal.number(0)
        found: exp.Expr = exp.Paren(this=exp.GT(this=exp.Subquery(this=query), expression=zero))
        if node in tree.expressions:
            found = exp.alias_(found, "exists", quoted=True)
        node.replace(found)

    # -- values

    def _value(self, tree: exp.Select, node: exp.Subquery) -> None:
        inner = self._plain(node.this, node, aggregated=True)
        (value,) = inner.selects if len(inner.selects) == 1 else (None,)
        if value is None:
            raise self._error(
                node,
                "a scalar subquery must have one column",
                "Select one column, or join with the query: LEFT JOIN (SELECT ...) t ON ...",
            )
        value = value.unalias()
        if not any(aggregate_calls(value)):
            raise self._error(node, "a correlated scalar subquery must select aggregates", HINT)
        if not self._is_early(tree, node):
            raise self._error(node, "a correlated scalar subquery cannot be used after GROUP BY", HINT)
        name = f"{NESTED}{len(self.nested)}"
        columns: list[exp.Expr] = []
        conditions: list[exp.Expr] = []
        for condition in self._move(inner, node):
            if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
                raise self._error(
                    condition, "this correlated subquery can be correlated only by equality", HINT
                )
            sides = (condition.this, condition.expression)
            mine = [not self._outside(side, input_names(inner)) for side in sides]
            if mine[0] == mine[1]:
                raise self._error(
                    condition, "this correlated subquery can be correlated only by equality", HINT
                )
            ours, theirs = sides if mine[0] else sides[::-1]
            column = exp.column(f"c{len(columns)}", table=name, quoted=True)
            conditions.append(type(condition)(this=theirs.copy(), expression=column))
            columns.append(ours.copy())
        inner.set("group", exp.Group(expressions=[exp.Literal.number(at + 1) for at in range(len(columns))]))
        found: exp.Expr = exp.Paren(this=value.copy())
        for call in list(aggregate_calls(found)):
            column = exp.column(f"c{len(columns)}", table=name, quoted=True)
            columns.append(call.copy())
            value_or_nothing = over_nothing(call, column)
            if value_or_nothing is None:
                raise self._error(call, "a sketch in a correlated subquery is not supported", HINT)
            call.replace(value_or_nothing)
        for left in found.find_all(exp.Column):
            if left.table != name:
                shown = left.sql(dialect="spark")
                raise self._error(left, f"{shown} must be in GROUP BY or in an aggregate", HINT)
        select_columns(inner, columns)
        self.nested.append(Nested(name, "left", inner, exp.and_(*conditions, copy=False)))
        if node.parent_select is tree and node in tree.expressions:
            found = exp.alias_(found, "scalarsubquery", quoted=True)
        node.replace(found)

    def _is_early(self, tree: exp.Select, node: exp.Expr) -> bool:
        if any(is_below(node, join) for join in tree.args.get("joins") or ()):
            return False
        where, above = tree.args.get("where"), node.parent
        while above is not None and above is not tree:
            if above is where or (isinstance(above, exp.Anonymous) and is_aggregate(above.name)):
                return True
            above = above.parent
        return not (tree.args.get("group") or tree.args.get("having"))

    # -- references to the outer query

    def _outside(self, query: Any, inside: set[str] | None = None) -> list[exp.Column]:
        own = input_names(query) if inside is None else inside
        found = []
        for column in query.find_all(exp.Column):
            first = column.parts[0].name.lower()
            if len(column.parts) > 1 and first in self._names and first not in own:
                around = column.parent_select
                if inside is not None or around is query or first not in input_names(around):
                    found.append(column)
        return found

    def _plain(self, query: Any, node: exp.Expr, *, aggregated: bool = False) -> exp.Select:
        if not isinstance(query, exp.Select):
            raise self._error(node, "a correlated subquery must be a single SELECT", HINT)
        for name, given in query.args.items():
            if given and name not in _PLAIN:
                word = {"group": "GROUP BY", "with_": "WITH"}.get(name, name.upper())
                raise self._error(node, f"{word} in a correlated subquery is not supported", HINT)
        inner = query.copy()
        inner.set("order", None)
        inner.set("distinct", None)
        if not aggregated and has_aggregates(inner):
            raise self._error(node, "an aggregate in a correlated subquery must be a scalar", HINT)
        return inner

    def _move(self, inner: exp.Select, node: exp.Expr) -> list[exp.Expr]:
        """Remove the conditions that refer to the outer query from WHERE."""
        where = inner.args.get("where")
        conditions = [] if where is None else conjuncts(where.this)
        moved = [each for each in conditions if self._outside(each, input_names(inner))]
        put_where(inner, [each for each in conditions if each not in moved])
        left = self._outside(inner)
        deep = [each for each in moved if each.find(exp.Query) is not None]
        if left or deep:
            message = "an outer column can be used only in WHERE, in conditions joined by AND"
            raise self._error((left or deep)[0], message, HINT)
        if not moved:
            raise self._error(node, "no condition uses the outer column", HINT)
        return moved

    def _lifted(self, condition: exp.Expr, inner: exp.Select, name: str, columns: list[exp.Expr]) -> exp.Expr:
        outside = {id(each) for each in self._outside(condition, input_names(inner))}
        for path in list(column_paths(condition)):
            if any(id(each) in outside for each in path.find_all(exp.Column)):
                continue
            if path not in columns:
                columns.append(path.copy())
            column = exp.column(f"c{columns.index(path)}", table=name, quoted=True)
            if path is condition:
                return column
            path.replace(column)
        return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition
