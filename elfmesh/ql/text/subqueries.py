"""Subqueries on the parser's tree: what a SELECT contains, and the SELECTs that unnesting makes of it.

Decides nothing about what may depend on the row around: `unnesting` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.aggregate_nodes import is_aggregate
from elfmesh.ql.expressions.refusals import MARK
from elfmesh.ql.text.draft_names import IN_QUERY
from elfmesh.ql.text.paths import dotted_parts


def input_names(tree: Any) -> set[str]:
    """The names of the inputs behind FROM and JOIN, in small letters."""
    if not isinstance(tree, exp.Select):
        return set()
    given = tree.args.get("from_") or tree.args.get("from")
    tables = ([] if given is None else [given.this]) + [join.this for join in tree.args.get("joins") or ()]
    names = {name for table in tables for name in (table.alias, not table.alias and table.name) if name}
    return {str(name).lower() for name in names}


def conjuncts(node: Any) -> list[Any]:
    """The conditions that AND joins, also in brackets."""
    if isinstance(node, exp.And):
        return [*conjuncts(node.this), *conjuncts(node.expression)]
    if isinstance(node, exp.Paren) and not isinstance(node.this, exp.Or):
        return conjuncts(node.this)
    return [node]


def put_where(tree: exp.Select, conditions: list[Any]) -> None:
    tree.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)


def own_nodes(tree: exp.Select, kind: type[Any]) -> Iterator[Any]:
    """The nodes of a class that stand in this SELECT, and in no query inside it."""
    for node in list(tree.find_all(kind)):
        around = node.parent
        while around is not None and not isinstance(around, exp.Query):
            around = around.parent
        if around is tree:
            yield node


def is_value(node: exp.Subquery) -> bool:
    return not isinstance(node.parent, exp.From | exp.Join | exp.In | exp.Exists)


def is_below(node: exp.Expr, around: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not around:
        above = above.parent
    return above is around


def has_aggregates(query: exp.Select) -> bool:
    calls = (call.name for each in query.selects for call in each.find_all(exp.Anonymous))
    return any(is_aggregate(name) for name in calls)


def column_paths(node: exp.Expr) -> Iterator[exp.Expr]:
    """The columns of an expression, each with its whole dotted path."""
    if dotted_parts(node) is not None:
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from column_paths(child)


def drop_what_keeps_a_row(query: Any) -> None:
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


def select_columns(query: exp.Select, columns: list[exp.Expr]) -> None:
    """Let a query select these, called c0, c1, ..."""
    named = [  # alias_ would name a query in brackets as an input
        exp.Alias(this=each.unalias(), alias=exp.to_identifier(f"c{at}", quoted=True))
        for at, each in enumerate(columns)
    ]
    query.set("expressions", named)


def has_star(query: exp.Query) -> bool:
    return any(each.is_star for each in query.selects)


def columns_named(query: Any, width: int | None = None) -> Any:
    """A copy of a query with columns called c0, c1, ...; `*` is kept unless `width` says how many."""
    named = query.copy()
    if has_star(query):
        if width is None:
            return named
        names = [exp.to_identifier(f"c{at}", quoted=True) for at in range(width)]
        places = [each.meta["start"] for one in query.selects for each in one.walk() if "start" in each.meta]
        names[0].meta.update({"start": places[0]} if places else {})
        alias = exp.TableAlias(this=exp.to_identifier(IN_QUERY, quoted=True), columns=names)
        columns = [exp.column(each.copy()) for each in names]
        return exp.Select(expressions=columns, from_=exp.From(this=exp.Subquery(this=named, alias=alias)))
    select = named
    while isinstance(select, exp.SetOperation):
        select = select.this
    if isinstance(select, exp.Select):
        select_columns(select, [each.copy() for each in select.selects])
    return named


def row_count(query: Any, where: exp.Expr | None = None) -> exp.Expr:
    """How many rows a query has, as a value; 0 where an interval has nothing."""
    table = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("#n", quoted=True)))
    counted = exp.Select(
        expressions=[exp.Anonymous(this=f"{MARK}count", expressions=[exp.Star()])],
        from_=exp.From(this=table), where=None if where is None else exp.Where(this=where),
    )  # fmt: skip
    value = exp.Subquery(this=counted)
    return exp.Anonymous(this=f"{MARK}coalesce", expressions=[value, exp.Literal.number(0)])
