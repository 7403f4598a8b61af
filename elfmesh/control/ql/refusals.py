"""The words and functions ELF-QL does not have (yet), each with what to write instead.

Only tables. What is refused here gets an error at its own line and column; what is in no table falls through to
the translator, which refuses every construct it does not know by name.
"""

from __future__ import annotations

from dataclasses import dataclass

MARK = "elf_"
"""Put before the names of our functions, so that the SQL parser hands the calls through as they stand."""

AGGREGATES = ("count", "sum", "min", "max", "avg", "mean")
WINDOWS = ("tumble", "hop", "window")
SPECIAL_FORMS = ("trim", "position", "substring", "substr")
"""Functions that may be written with words between the arguments; the SQL parser knows those forms."""


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

UNSUPPORTED_WORDS: dict[str, Refusal] = {
    "JOIN": _JOIN,
    "CROSS": _JOIN,
    "UNION": _SET,
    "INTERSECT": _SET,
    "EXCEPT": _SET,
    "MINUS": Refusal(_SET.message, _SET.hint, ("SELECT", "ALL", "DISTINCT")),
    "CUBE": Refusal(_GROUPING.message, _GROUPING.hint, ("(", "")),
    "ROLLUP": Refusal(_GROUPING.message, _GROUPING.hint, ("(", "")),
    "GROUPING": Refusal(_GROUPING.message, _GROUPING.hint, ("SETS",)),
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
    "?": Refusal("parameters are not there", "Write the value."),
}

_APPROXIMATE = "Approximate aggregates are not there yet: count(DISTINCT x) is exact."
_QUANTILE = "Percentiles are not there yet: min, max and avg are."
_CLOCK = "An answer must not depend on when it is computed: use the event time, such as ts, window_start or window_end."
_RANDOM = "An answer must be the same on every agent and at every attempt: use a field of the record."
_SESSION = "Session windows are not there yet: write TUMBLE(ts, '30 s') or HOP(ts, '10 s', '30 s')."
_MOMENT = "Write sum(x), sum(x * x) and count(x), or avg(x); stddev and variance are not there yet."
_ORDERED = "Write min(x) or max(x); first and last by time are not there yet."
_COLLECT = "Group by the value instead: GROUP BY x."
_BOOLEAN = "Write min(CASE WHEN p THEN 1 ELSE 0 END) = 1 for every, max(...) = 1 for some."
_RANK = "Write ORDER BY ... LIMIT n: it works within each interval."
_NESTED = "Name a field by its dotted path."
_BOUND = "Select window_start or window_end."

UNSUPPORTED_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(("approx_count_distinct", "approx_top_k", "hll_sketch_agg", "count_min_sketch"), _APPROXIMATE),
    **dict.fromkeys(
        ("approx_percentile", "percentile_approx", "percentile", "percentile_cont", "percentile_disc", "median", "mode"),
        _QUANTILE,
    ),
    **dict.fromkeys(
        ("now", "current_timestamp", "current_date", "curdate", "localtimestamp", "current_time", "getdate"), _CLOCK
    ),
    **dict.fromkeys(("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "randstr"), _RANDOM),
    **dict.fromkeys(("session", "session_window"), _SESSION),
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp", "skewness", "kurtosis", "corr",
         "covar_pop", "covar_samp"), _MOMENT,
    ),
    **dict.fromkeys(("first", "last", "first_value", "last_value", "any_value", "max_by", "min_by", "nth_value"), _ORDERED),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg", "listagg", "string_agg", "group_concat"), _COLLECT),
    **dict.fromkeys(("bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or", "bit_xor"), _BOOLEAN),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile", "lag", "lead", "percent_rank", "cume_dist"), _RANK),
    **dict.fromkeys(
        ("explode", "posexplode", "inline", "array", "map", "struct", "named_struct", "transform", "filter", "from_json",
         "get_json_object", "json_tuple", "element_at", "size", "array_contains"), _NESTED,
    ),
    **dict.fromkeys(("tumble_start", "tumble_end", "hop_start", "hop_end", "window_time"), _BOUND),
    "count_if": "Write count(*) FILTER (WHERE condition).",
    "regexp_extract_all": "Write regexp_extract(x, pattern, group).",
    "exists": "Subqueries are not there yet: write the condition itself.",
    "decimal": "Write CAST(x AS DOUBLE) or CAST(x AS BIGINT); decimals are not there yet.",
    "float": "Write double(x) or CAST(x AS DOUBLE).",
    "cube": _GROUPING.hint,
    "rollup": _GROUPING.hint,
}  # fmt: skip
