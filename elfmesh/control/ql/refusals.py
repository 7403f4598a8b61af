"""The words and functions ELF-QL does not have (yet), each with what to write instead.

Only tables. What is refused here gets an error at its own line and column; what is in no table falls
through to the translator, which refuses every construct it does not know by name.
"""

from __future__ import annotations

from dataclasses import dataclass

MARK = "elf_"
"""Put before the names of our functions, so that the SQL parser hands the calls through as they stand."""

AGGREGATES = ("count", "sum", "min", "max", "avg", "mean")
WINDOWS = ("tumble", "hop", "window")
SPECIAL_FORMS = ("trim", "position", "substring", "substr")
"""Functions that may be written with words between the arguments; the SQL parser knows those forms."""


PLAIN_FORMS = ("cast", "try_cast", "extract")
"""Calls that are always written with words between the arguments."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused word; `following` narrows it to the places where the next word is one of these."""

    message: str
    hint: str
    following: tuple[str, ...] | None = None


_JOIN = Refusal("joins are not there yet", "Query one stream; add the fields where the log is written.")
_SET = Refusal("UNION, INTERSECT and EXCEPT are not there yet", "Write one SELECT for each.")
_GROUPING = Refusal(
    "CUBE, ROLLUP and GROUPING SETS are not there yet", "Write one GROUP BY, or one job for each grouping."
)
_CLOCK = Refusal(
    "the clock is not there",
    "An answer must not depend on when it is computed: use the event time, ts, or window_end.",
)

UNSUPPORTED_WORDS: dict[str, Refusal] = {
    "JOIN": _JOIN,
    "CROSS": _JOIN,
    "UNION": _SET,
    "INTERSECT": _SET,
    "EXCEPT": _SET,
    "MINUS": Refusal(_SET.message, _SET.hint, ("SELECT", "ALL", "DISTINCT")),
    "CUBE": Refusal(_GROUPING.message, _GROUPING.hint, ("(", "")),
    "ROLLUP": Refusal(_GROUPING.message, _GROUPING.hint, ("(", "")),
    "GROUPING SETS": Refusal(_GROUPING.message, _GROUPING.hint),
    "OVER": Refusal(
        "window functions (OVER) are not there",
        "Aggregate with GROUP BY; TUMBLE and HOP cut the time.",
        ("(",),
    ),
    "LATERAL": Refusal("LATERAL VIEW is not there yet", "Query the field itself, by its dotted path."),
    "PIVOT": Refusal("PIVOT is not there", "Write sum(x) FILTER (WHERE key = 'a') AS a, ...", ("(",)),
    "UNPIVOT": Refusal("UNPIVOT is not there", "Write one query for each column.", ("(",)),
    "TABLESAMPLE": Refusal("TABLESAMPLE is not there", "Filter with WHERE."),
    "QUALIFY": Refusal("QUALIFY is not there", "Filter groups with HAVING."),
    "CLUSTER BY": Refusal("CLUSTER BY is not there", "Write ORDER BY."),
    "SORT BY": Refusal("SORT BY is not there", "Write ORDER BY."),
    "DISTRIBUTE BY": Refusal("DISTRIBUTE BY is not there", "Write PARTITIONS n after CREATE JOB name."),
    "OFFSET": Refusal("OFFSET is not there yet", "Write LIMIT alone."),
    "->": Refusal("lambda functions are not there", "Write the expression itself."),
    **dict.fromkeys(("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP"), _CLOCK),
    ":": Refusal("paths with `:` are not there", "Write a.b."),
    "?": Refusal("parameters are not there", "Write the value."),
}

_GROUPS: tuple[tuple[str, str], ...] = (
    (
        "Approximate aggregates are not there yet: count(DISTINCT x) is exact.",
        "approx_count_distinct approx_top_k hll_sketch_agg count_min_sketch",
    ),
    (
        "Percentiles are not there yet: min, max and avg are.",
        "approx_percentile percentile_approx percentile percentile_cont percentile_disc median mode",
    ),
    (_CLOCK.hint, "now curdate getdate unix_date"),
    (
        "An answer must be the same on every agent and at every attempt: use a field of the record.",
        "rand random randn randstr uuid shuffle monotonically_increasing_id",
    ),
    (
        "Session windows are not there yet: write TUMBLE(ts, '30 s') or HOP(ts, '10 s', '30 s').",
        "session session_window",
    ),
    (
        "Write sum(x), sum(x * x) and count(x), or avg(x); stddev and variance are not there yet.",
        "stddev stddev_pop stddev_samp std variance var_pop var_samp skewness kurtosis corr covar_pop "
        "covar_samp",
    ),
    (
        "Write min(x) or max(x); first and last by time are not there yet.",
        "first last first_value last_value any_value max_by min_by nth_value",
    ),
    (
        "Group by the value instead: GROUP BY x.",
        "collect_list collect_set array_agg listagg string_agg group_concat",
    ),
    (
        "Write min(CASE WHEN p THEN 1 ELSE 0 END) = 1 for every, max(...) = 1 for some.",
        "bool_and bool_or every bit_and bit_or bit_xor",
    ),
    (
        "Write ORDER BY ... LIMIT n: it works within each interval.",
        "row_number rank dense_rank ntile lag lead percent_rank cume_dist",
    ),
    (
        "Name a field by its dotted path; lists and maps are not values yet.",
        "explode posexplode inline array map struct named_struct transform from_json get_json_object "
        "json_tuple element_at size array_contains",
    ),
    ("Select window_start or window_end.", "tumble_start tumble_end hop_start hop_end window_time"),
    ("Write count(*) FILTER (WHERE condition).", "count_if"),
    ("Write regexp_extract(x, pattern, group).", "regexp_extract_all"),
    ("Subqueries are not there yet: write the condition itself.", "exists"),
    (_GROUPING.hint, "cube rollup"),
)

UNSUPPORTED_FUNCTIONS: dict[str, str] = {name: hint for hint, names in _GROUPS for name in names.split()}
"""Functions of Spark that ELF-QL does not have, and what to write instead."""
