"""IN (SELECT ...), EXISTS and values that depend on the row around them: as joins, on the parser's tree.

    x IN (SELECT y FROM b WHERE b.k = a.k)      LEFT SEMI JOIN (SELECT y, b.k FROM b) ON x = y AND k = a.k
    x NOT IN (SELECT y FROM b)                  LEFT ANTI JOIN, and no row at all where b has a null y
    EXISTS (SELECT ... FROM b WHERE b.k = a.k)  LEFT SEMI JOIN (SELECT b.k FROM b) ON k = a.k
    (SELECT max(y) FROM b WHERE b.k = a.k)      LEFT JOIN (SELECT b.k, max(y) AS v FROM b GROUP BY b.k)

Conditions that refer to the query around must stand in WHERE and move into ON; all else is refused at its
place. A row of the query around comes out at most once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.aggregate_nodes import aggregate_calls, is_aggregate, over_nothing
from elfmesh.ql.expressions.refusals import MARK
from elfmesh.ql.text.draft_names import IN_QUERY
from elfmesh.ql.text.paths import dotted_parts

NESTED = "#s"
"""The inputs that queries in brackets become are called #s0, #s1, ..."""

_PLAIN = {"expressions", "from_", "from", "where", "joins", "order", "distinct"}
Complain = Callable[..., Exception]
HINT = "Join with the query instead: LEFT JOIN (SELECT k, max(x) AS x ... GROUP BY k) t ON ..."


@dataclass(frozen=True, slots=True)
class Nested:
    """A query in brackets that is joined ("semi", "anti" or "left") on columns `c0`, `c1`, ... of it."""

    name: str
    kind: str
    query: exp.Query
    on: exp.Expr


class Unnesting:
    """Takes the queries in brackets out of one SELECT, in place; `nested` is what is to be joined."""

    def __init__(self, tree: exp.Select, error: Complain) -> None:
        self._error = error
        self._names = _names(tree)
        self.nested: list[Nested] = []
        where = tree.args.get("where")
        if where is not None:
            kept = [self._condition(each) for each in _conjuncts(where.this)]
            _put_where(tree, [each for each in kept if each is not None])
        for node in [*_own(tree, exp.In), *_own(tree, exp.Exists)]:
            if isinstance(node, exp.Exists):
                self._alone(node)
            elif node.args.get("query") is not None:
                raise error(
                    node, "IN (SELECT ...) must be a condition of WHERE, joined by AND",
                    "Write LEFT SEMI JOIN (SELECT ...) t ON a.x = t.x, or filter outside.",
                )  # fmt: skip
        for node in list(_own(tree, exp.Subquery)):
            if _is_value(node) and self._outside(node.this):
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
            _drop_what_keeps_a_row(inner.this)
            self._join(inner.this, kind, [], inner)
            return None
        return node

    def _in(self, node: exp.In, kind: str) -> exp.Expr | None:
        query = node.args["query"].this
        left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        many = isinstance(query, exp.Query) and not _has_star(query) and len(query.selects) != len(left)
        if not isinstance(query, exp.Select | exp.Union) or many:
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
        nulls = _count(_columns_named(query, 1), exp.Is(this=value, expression=exp.Null()))
        some = exp.Not(this=exp.Is(this=left[0].copy(), expression=exp.Null()))
        empty = exp.EQ(this=_count(_columns_named(query)), expression=exp.Literal.number(0))
        self._join(query, kind, left, node)
        none = exp.EQ(this=nulls, expression=exp.Literal.number(0))
        return exp.And(this=none, expression=exp.Paren(this=exp.Or(this=some, expression=empty)))

    def _join(
        self, query: Any, kind: str, left: list[exp.Expr], node: exp.Expr, *, null_aware: bool = False
    ) -> None:
        """Join a query so that its columns equal `left`, and what refers to the query around is true."""
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
            named = _columns_named(query, len(left))
            self.nested.append(Nested(name, kind, named, exp.and_(*conditions, copy=False)))
            return
        if left and _has_star(query):
            hint = "Name the columns that stand before IN."
            raise self._error(node, "`*` in a correlated subquery of IN is not supported", hint)
        inner = self._plain(query, node)
        columns = given[: len(left)]
        conditions += [self._lifted(each, inner, name, columns) for each in self._move(inner, node)]
        _select(inner, columns or [exp.Literal.number(1)])
        self.nested.append(Nested(name, kind, inner, exp.and_(*conditions, copy=False)))

    def _alone(self, node: exp.Exists) -> None:
        if self._outside(node.this):
            raise self._error(
                node, "a correlated EXISTS must be a condition of WHERE, joined by AND",
                "Write LEFT SEMI JOIN (SELECT ...) t ON a.x = t.x, or filter outside.",
            )  # fmt: skip
        query = node.this.copy()
        grouped = any(query.args.get(name) for name in ("group", "having", "distinct"))
        if isinstance(query, exp.Select) and not (grouped or _aggregates(query)):
            query.set("expressions", [exp.Literal.number(1)])
        found = exp.GT(this=_count(_columns_named(query)), expression=exp.Literal.number(0))
        node.replace(exp.Paren(this=found))

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
                    condition, "a correlated scalar subquery can be correlated only by equality", HINT
                )
            sides = (condition.this, condition.expression)
            mine = [not self._outside(side, _names(inner)) for side in sides]
            if mine[0] == mine[1]:
                raise self._error(
                    condition, "a correlated scalar subquery can be correlated only by equality", HINT
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
        _select(inner, columns)
        self.nested.append(Nested(name, "left", inner, exp.and_(*conditions, copy=False)))
        if node.parent_select is tree and node in tree.expressions:
            found = exp.alias_(found, "scalarsubquery", quoted=True)
        node.replace(found)

    def _is_early(self, tree: exp.Select, node: exp.Subquery) -> bool:
        if any(_is_below(node, join) for join in tree.args.get("joins") or ()):
            return False
        where, above = tree.args.get("where"), node.parent
        while above is not None and above is not tree:
            if above is where or (isinstance(above, exp.Anonymous) and is_aggregate(above.name)):
                return True
            above = above.parent
        return not (tree.args.get("group") or tree.args.get("having"))

    # -- what refers to the query around

    def _outside(self, query: Any, inside: set[str] | None = None) -> list[exp.Column]:
        own = _names(query) if inside is None else inside
        found = []
        for column in query.find_all(exp.Column):
            first = column.parts[0].name.lower()
            if len(column.parts) > 1 and first in self._names and first not in own:
                around = column.parent_select
                if inside is not None or around is query or first not in _names(around):
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
        if not aggregated and _aggregates(inner):
            raise self._error(node, "an aggregate in a correlated subquery must be a scalar", HINT)
        return inner

    def _move(self, inner: exp.Select, node: exp.Expr) -> list[exp.Expr]:
        """Take the conditions that refer outside out of WHERE."""
        where = inner.args.get("where")
        conditions = [] if where is None else _conjuncts(where.this)
        moved = [each for each in conditions if self._outside(each, _names(inner))]
        _put_where(inner, [each for each in conditions if each not in moved])
        left = self._outside(inner)
        deep = [each for each in moved if each.find(exp.Query) is not None]
        if left or deep:
            message = "an outer column can be used only in WHERE, in conditions joined by AND"
            raise self._error((left or deep)[0], message, HINT)
        if not moved:
            raise self._error(node, "no condition uses the outer column", HINT)
        return moved

    def _lifted(self, condition: exp.Expr, inner: exp.Select, name: str, columns: list[exp.Expr]) -> exp.Expr:
        outside = {id(each) for each in self._outside(condition, _names(inner))}
        for path in list(_paths(condition)):
            if any(id(each) in outside for each in path.find_all(exp.Column)):
                continue
            if path not in columns:
                columns.append(path.copy())
            column = exp.column(f"c{columns.index(path)}", table=name, quoted=True)
            if path is condition:
                return column
            path.replace(column)
        return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition


def _names(tree: Any) -> set[str]:
    if not isinstance(tree, exp.Select):
        return set()
    given = tree.args.get("from_") or tree.args.get("from")
    tables = ([] if given is None else [given.this]) + [join.this for join in tree.args.get("joins") or ()]
    names = {name for table in tables for name in (table.alias, not table.alias and table.name) if name}
    return {str(name).lower() for name in names}


def _conjuncts(node: Any) -> list[Any]:
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    if isinstance(node, exp.Paren) and not isinstance(node.this, exp.Or):
        return _conjuncts(node.this)
    return [node]


def _put_where(tree: exp.Select, conditions: list[Any]) -> None:
    tree.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)


def _own(tree: exp.Select, kind: type[Any]) -> Iterator[Any]:
    for node in list(tree.find_all(kind)):
        around = node.parent
        while around is not None and not isinstance(around, exp.Query):
            around = around.parent
        if around is tree:
            yield node


def _is_value(node: exp.Subquery) -> bool:
    return not isinstance(node.parent, exp.From | exp.Join | exp.In | exp.Exists)


def _is_below(node: exp.Expr, around: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not around:
        above = above.parent
    return above is around


def _aggregates(query: exp.Select) -> bool:
    calls = (call.name for each in query.selects for call in each.find_all(exp.Anonymous))
    return any(is_aggregate(name) for name in calls)


def _paths(node: exp.Expr) -> Iterator[exp.Expr]:
    if dotted_parts(node) is not None:
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from _paths(child)


def _drop_what_keeps_a_row(query: Any) -> None:
    """LIMIT 1 and more, and GROUP BY columns, leave a row exactly where there is one."""
    limit, group = query.args.get("limit"), query.args.get("group")
    number = None if limit is None else limit.args.get("expression")
    if isinstance(number, exp.Literal) and number.is_int and int(number.this) > 0:
        query.set("limit", None)
    given = {} if group is None else {name: value for name, value in group.args.items() if value}
    plain = [*given] == ["expressions"] and all(isinstance(each, exp.Column) for each in group.expressions)
    if plain and not query.args.get("having"):
        query.set("group", None)
        query.set("expressions", [exp.Literal.number(1)])


def _select(query: exp.Select, columns: list[exp.Expr]) -> None:
    """Let a query select these, called c0, c1, ..."""
    named = [  # alias_ would name a query in brackets as an input
        exp.Alias(this=each.unalias(), alias=exp.to_identifier(f"c{at}", quoted=True))
        for at, each in enumerate(columns)
    ]
    query.set("expressions", named)


def _has_star(query: exp.Query) -> bool:
    return any(each.is_star for each in query.selects)


def _columns_named(query: Any, width: int | None = None) -> Any:
    """A copy of a query with columns called c0, c1, ...; `*` is kept unless `width` says how many."""
    named = query.copy()
    if _has_star(query):
        if width is None:
            return named
        names = [exp.to_identifier(f"c{at}", quoted=True) for at in range(width)]
        places = [each.meta["start"] for one in query.selects for each in one.walk() if "start" in each.meta]
        names[0].meta.update({"start": places[0]} if places else {})
        alias = exp.TableAlias(this=exp.to_identifier(IN_QUERY, quoted=True), columns=names)
        columns = [exp.column(each.copy()) for each in names]
        return exp.Select(expressions=columns, from_=exp.From(this=exp.Subquery(this=named, alias=alias)))
    select = named
    while isinstance(select, exp.Union):
        select = select.this
    if isinstance(select, exp.Select):
        _select(select, [each.copy() for each in select.selects])
    return named


def _count(query: Any, where: exp.Expr | None = None) -> exp.Expr:
    """How many rows a query has, as a value; 0 where an interval has nothing."""
    table = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("#n", quoted=True)))
    counted = exp.Select(
        expressions=[exp.Anonymous(this=f"{MARK}count", expressions=[exp.Star()])],
        from_=exp.From(this=table), where=None if where is None else exp.Where(this=where),
    )  # fmt: skip
    value = exp.Subquery(this=counted)
    return exp.Anonymous(this=f"{MARK}coalesce", expressions=[value, exp.Literal.number(0)])
