"""Column names in an alias: WITH t(a, b) AS (...), and FROM (...) AS t(a, b).

The query under such an alias is wrapped in a SELECT that names each column. This changes the parse tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from elfmesh.ql.plan.draft_types import Draft

Complain = Callable[..., Exception]

_INNER = "#r"
"""Alias of the wrapped query. No name in a text can equal it."""

IN_QUERY = "#q"
"""Alias of the query in IN (SELECT * ...), whose columns are named here."""


def renamed(tree: Any, alias: Any, draft: Draft, error: Complain) -> Any:
    """Wrap a query so that it has its alias's column names.

    Returns the query itself if the alias names no columns.
    """
    given = alias.args.get("columns") if alias is not None else None
    if not given:
        return tree
    called = alias.name
    if "*" in draft.columns:
        hint = "Name the fields after SELECT."
        what = "the columns of `*` are not known"
        if called != IN_QUERY:
            what = f"the columns of {called} cannot be renamed because those of `*` are not known"
        raise error(given[0], what, hint)
    if len(given) != len(draft.columns) and called == IN_QUERY:
        message = f"this query has {len(draft.columns)} columns, but {len(given)} are before IN"
        raise error(given[0], message, "Name as many columns after SELECT.")
    if len(given) != len(draft.columns):
        message = f"{called} has {len(draft.columns)} columns, and {len(given)} names"
        raise error(given[0], message, "Give each column a name.")
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    names = [name.name for name in given]
    if len({name.lower() for name in names}) < len(names):
        raise error(given[0], f"{called} has two columns of one name", "Give each column its own name.")
    items = [
        exp.alias_(exp.column(column, table=_INNER, quoted=True), name, quoted=True)
        for column, name in zip(draft.columns, names, strict=True)
    ]
    return exp.Select(
        expressions=items, from_=exp.From(this=exp.Subquery(this=inner, alias=exp.to_identifier(_INNER)))
    )


def no_order(alias: Any, name: str, error: Complain) -> Exception:
    """Return the error for FROM stream AS t(a, b), because the fields of a stream have no order."""
    message = f"the columns of {name} have no order, so a list cannot rename them"
    hint = f"Write FROM (SELECT x AS a, y AS b FROM {name}) AS {alias.name}."
    return error(alias.args["columns"][0], message, hint)


def reads_itself(item: exp.Alias) -> bool:
    name = item.alias.lower()
    return any(each.name.lower() == name and not each.table for each in item.find_all(exp.Column))


def name_at(table: Any) -> int:
    """Return the offset of the first word of a name after JOIN; -1 for a subquery."""
    name = table.args.get("db") or table.this if isinstance(table, exp.Table) else None
    return -1 if name is None else (name._meta or {}).get("start", -1)
