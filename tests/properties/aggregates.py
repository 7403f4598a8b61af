"""Random aggregates and functions OVER rows, in both languages."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.properties.expressions import SHORT, SORTS, Scope, condition, expression
from tests.properties.nodes import Node, listed, same, spare, two
from tests.properties.rows import BOOL, DEC, INT, NUM, TEXT, TIME

FILTER = " FILTER (WHERE {0})"
AGGREGATES: dict[str, tuple[tuple[str, str, str], ...]] = {
    INT: (
        ("count(*)", "", ""),
        ("count({0})", "", "i"),
        ("count({0})", "", "t"),
        ("count({0})", "", "n"),
        ("count(DISTINCT {0})", "", "t"),
        ("count(DISTINCT {0})", "", "i"),
        (
            "count(DISTINCT {0}, {1})",
            "count(DISTINCT CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN ({0}, {1}) END)",
            "ti",
        ),
        ("sum({0})", "", "i"),
        ("sum(DISTINCT {0})", "", "i"),
        ("min({0})", "", "i"),
        ("max({0})", "", "i"),
        ("count_if({0})", "count(CASE WHEN {0} THEN 1 END)", "b"),
    ),
    NUM: (
        ("sum({0})", "", "n"),
        ("avg({0})", "", "i"),
        ("avg({0})", "", "n"),
        ("min({0})", "", "n"),
        ("max({0})", "", "n"),
        ("median({0})", "CAST(median({0}) AS DOUBLE)", "i"),
    ),
    DEC: (("sum({0})", "", "d"), ("min({0})", "", "d"), ("max({0})", "", "d")),
    TEXT: (
        ("min({0})", "", "t"),
        ("max({0})", "", "t"),
        ("string_agg({0}, '+')", "string_agg({0}, '+' ORDER BY {0})", "t"),
        ("string_agg({0}, '+' ORDER BY {0} DESC)", "", "t"),
    ),
    TIME: (("min({0})", "", "w"), ("max({0})", "", "w")),
    BOOL: (("bool_and({0})", "", "b"), ("bool_or({0})", "", "b")),
}
OVERS: dict[str, tuple[str, ...]] = {
    INT: (
        "row_number()",
        "rank()",
        "dense_rank()",
        "ntile(3)",
        "count(*)",
        "sum({0})",
        "max({0})",
        "lag({0})",
        "lead({0}, 2)",
    ),
    NUM: ("percent_rank()", "cume_dist()", "avg({0})", "min({0})", "first_value({0})", "lag({0}, 1)"),
    DEC: ("sum({0})", "min({0})", "last_value({0})", "lead({0})"),
    TEXT: ("max({0})", "lag({0})", "first_value({0})", "nth_value({0}, 2)"),
    TIME: ("min({0})", "lead({0})"),
    BOOL: ("bool_or({0})", "lag({0})"),
}
"""By type of the result: functions that see the rows of a frame or their order."""

UNFRAMED = ("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist", "lag", "lead")
FRAMES = (
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    " ROWS UNBOUNDED PRECEDING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)


def aggregate(rng: random.Random, scope: Scope, sort: str, depth: int = 1) -> Node:
    """An aggregate of a type over the rows of a scope."""
    elf, duck, takes = rng.choice(AGGREGATES[sort])
    parts = [expression(rng, scope, SHORT[each], rng.randint(0, depth)) for each in takes]
    call = two(sort, elf, duck or elf, *parts)
    if rng.random() < 0.15:
        return same(sort, "{0}{1}", call, spare(same("", FILTER, condition(rng, scope, 1))))
    return call


def over(rng: random.Random, scope: Scope, sort: str, total: Sequence[Node]) -> Node:
    """A function OVER rows.

    Args:
        rng: decides.
        scope: what it may use.
        sort: type of its result.
        total: what orders all rows, but for rows that are alike.
    """
    function = rng.choice(OVERS[sort])
    name = function.split("(", maxsplit=1)[0]
    parts = [expression(rng, scope, sort, 1)] if "{0}" in function else []
    call = same(sort, function, *parts)
    inside: list[Node] = []
    if rng.random() < 0.6:
        inside.append(spare(same("", "PARTITION BY {0}", column(rng, scope))))
    ranked = name in ("rank", "dense_rank", "percent_rank", "cume_dist")
    if ranked or name in UNFRAMED or "value" in name or rng.random() < 0.6:
        keys = [spare(direction(rng, column(rng, scope)))]
        if not ranked:
            keys += [direction(rng, each) for each in rng.sample(list(total), len(total))]
        frame = "" if name in UNFRAMED else rng.choice(FRAMES)
        parts = [listed(", ", keys)]
        if frame:
            parts.append(spare(same("", frame)))
        inside.append(same("", "ORDER BY {0}{1}" if frame else "ORDER BY {0}", *parts))
    return same(sort, "{0} OVER ({1})", call, listed(" ", inside))


def column(rng: random.Random, scope: Scope) -> Node:
    """A column of the scope, or an expression of one."""
    if scope.leaves and rng.random() < 0.8:
        return rng.choice(scope.leaves)
    return expression(rng, scope, rng.choice(SORTS), 1)


def direction(rng: random.Random, key: Node) -> Node:
    """A key of an order."""
    return same("", "{0}" + rng.choice(("", "", " ASC", " DESC", " DESC NULLS FIRST", " NULLS LAST")), key)
