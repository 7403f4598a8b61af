"""Aggregates, and functions OVER rows, by the type of their result; {i} and so on: an argument of a type.

Only tables: `statements` puts FILTER, frames and orders around them.
"""

from __future__ import annotations

from tests.properties.typed.rows import BIN, BOOL, DATE, DEC, INT, NUM, TEXT, TIME, WIDE

AGGREGATES: dict[str, tuple[str, ...]] = {
    INT: (
        "count(*)", "count({i})", "count({y})", "count(DISTINCT {t})", "count(DISTINCT {d}, {a})",
        "sum({i})",
        "sum(DISTINCT {i})", "min({i})", "max({i})", "count_if({b})",
        "length(max({t}))", "count({i}, {t})", "count(DISTINCT {t}) FILTER (WHERE {b})",
        "coalesce(sum({i}) + count(*), 7L)", "max(length({t}))", "size(collect_set({i}))",
        "size(collect_list({t}))", "coalesce(sum({i}), 0L)", "sum(if({b}, 1L, 0L))",
        "approx_count_distinct({i})",
        "sum(CASE WHEN {b} THEN {i} END)",
    ),
    NUM: (
        "sum({n})", "avg({i})", "avg({n})", "min({n})", "max({n})", "median({i})",
        "percentile({n}, 0.5D)", "sum({t})", "avg({t})",
        "var_pop({i})", "stddev_samp({n})", "percentile_cont(0.25D) WITHIN GROUP (ORDER BY {i})",
        "sum(DISTINCT {n})",
        "avg(DISTINCT {i})", "percentile_disc(0.5D) WITHIN GROUP (ORDER BY {n})", "median({n})",

    ),
    DEC: ("min({d})", "max({d})", "CAST(sum({d}) AS DECIMAL(8,2))", "CAST(avg({d}) AS DECIMAL(8,2))"),
    WIDE: (
        "min({e})", "max({e})", "CAST(sum({e}) AS DECIMAL(20,4))", "CAST(avg({e}) AS DECIMAL(20,4))",
        "max_by({e}, {i} + {e})",
    ),
    TEXT: (
        "min({t})", "max({t})", "listagg({t}, '+') WITHIN GROUP (ORDER BY {=})",
        "listagg({i}, '+') WITHIN GROUP (ORDER BY {=})", "min(hex({y}))", "typeof(sum({d}))",
        "typeof(avg({e}))",
        "listagg({t}, '-') WITHIN GROUP (ORDER BY {i}, {=})",
        "listagg({t}, ',') WITHIN GROUP (ORDER BY {a} DESC, {=})",
        "listagg({i}, ',') WITHIN GROUP (ORDER BY {n} DESC NULLS FIRST, {=} DESC)",
        "listagg({t}) WITHIN GROUP (ORDER BY {e}, {y}, {=})", "array_join(sort_array(collect_set({t})), '|')",
        "array_join(sort_array(array_agg({t})), '|')", "max(get_json_object({g}, '$.a'))",
        "min(date_format({a}, 'E'))",
    ),
    BIN: ("min({y})", "max({y})"),
    DATE: ("min({a})", "max({a})"),
    TIME: ("min({w})", "max({w})"),
    BOOL: ("bool_and({b})", "bool_or({b})", "min({b})", "max({b})", "every({t} = {t})"),
}  # fmt: skip
OF_AGGREGATES = ("CAST", "size", "length", "array_join", "coalesce", "typeof", "approx_count_distinct")
"""Functions around aggregates: FILTER does not stand behind them."""
OVERS: dict[str, tuple[str, ...]] = {
    INT: (
        "row_number()", "rank()", "dense_rank()", "ntile(3)", "count(*)", "count({y})", "sum({i})",
        "max({i})", "min({i})",
        "lag({i})", "lead({i}, 2)", "lag({i}, 1, 0L)", "lead({i}, 1, -1L)", "nth_value({i}, 2)",
        "nth_value({i}, 2) IGNORE NULLS",
        "lag({i}) IGNORE NULLS", "lead({i}, 2) IGNORE NULLS",
    ),
    NUM: (
        "percent_rank()", "cume_dist()", "avg({n})", "min({n})", "first_value({n})", "sum({n})",
        "lag({n}, 1)", "avg({i})",
    ),
    DEC: (
        "min({d})", "max({d})", "last_value({d})", "lead({d})", "sum({d})", "avg({d})",
        "lag({d}, 1, {d})", "first_value({d}) IGNORE NULLS",
    ),
    WIDE: ("min({e})", "max({e})", "sum({e})", "avg({e})", "nth_value({e}, 2)", "lag({e}, 2)"),
    TEXT: (
        "max({t})", "lag({t})", "first_value({t})", "nth_value({t}, 2)", "last_value({t}) IGNORE NULLS",
        "lag({t}, 1, '?')", "min({t})",
    ),
    BIN: ("min({y})", "lead({y})", "last_value({y})", "max({y})"),
    DATE: ("min({a})", "max({a})", "lag({a})", "first_value({a})", "lag({a}, 1, DATE '2024-01-01')"),
    TIME: ("min({w})", "lead({w})", "max({w})", "last_value({w})"),
    BOOL: ("bool_or({b})", "lag({b})", "bool_and({b})", "lead({b}, 1, true)"),
}  # fmt: skip
RANKS = ("rank", "dense_rank", "percent_rank", "cume_dist")
UNFRAMED = ("row_number", *RANKS, "ntile", "lag", "lead")
FRAMES = (
    "", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING", " ROWS UNBOUNDED PRECEDING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)  # fmt: skip
DISTANCES = {
    INT: (
        "2", "3", "INTERVAL '5' SECOND", "INTERVAL '400' DAY", "30",
    ),
}  # fmt: skip
