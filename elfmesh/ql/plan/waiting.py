"""Statements that cannot be planned until the columns of streams are known: `*` beside other inputs.

Only the SELECT of a single stream can be planned with unknown columns of `*`. Any other such statement has
only its inputs until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.text_source import SourceText, TextPosition
from elfmesh.ql.plan.statement import QueryPlan, Statement

Listed = Mapping[str, tuple[str, ...]]
"""The columns of `*`, by stream."""

LOOKUP = "lookup"
"""Namespace of lookup tables in FROM and JOIN: `lookup.name`."""

_NOTHING = QueryPlan(None, (), (), (), (), (), None, (), None, False, "", False, ())


def waiting(
    origin: SourceText,
    tree: exp.Query,
    labels: Mapping[int, tuple[tuple[str, str], ...]],
    listed: Listed,
    star: TextPosition,
) -> Statement:
    """Return the statement with its inputs only; `labels` and `star` are as in the text."""
    tables = [table for table in _tables(tree) if table.db.lower() != LOOKUP]
    if any(table.db for table in tables):
        raise origin.error("* beside results of jobs needs their columns", star, "Name the fields.")
    found = ((one.name, labels.get((one.this._meta or {}).get("start", -1), ())) for one in tables)
    parts = tuple(
        Statement("", origin.name, None, name, wanted, None, ("*",), (), True, _NOTHING, origin)
        for name, wanted in dict.fromkeys(found)
    )
    return Statement(
        "", origin.name, None, parts[0].stream, parts[0].labels, None, ("*",), (), True, _NOTHING, origin,
        parts=parts, listed=tuple(listed.items()),
    )  # fmt: skip


def streams_read(tree: exp.Query) -> set[str]:
    return {table.name for table in _tables(tree) if not table.db}


def _tables(tree: exp.Query) -> Iterator[exp.Table]:
    for table in tree.find_all(exp.Table, bfs=False):
        if table.db or not _is_named(table):
            yield table


def _is_named(table: exp.Table) -> bool:
    name, node, passed = table.name.lower(), table, None
    above: Any = table
    while above is not None:
        given = above.args.get("with_") or above.args.get("with") if isinstance(above, exp.Query) else None
        for one in () if given is None else given.expressions:
            if given is passed and one is node:
                break  # a query of WITH can refer to earlier ones
            if one.alias.lower() == name:
                return True
        if isinstance(above.parent, exp.With):
            node, passed = above, above.parent
        above = above.parent
    return False
