"""The words and functions ELF-QL does not have (yet), each with what to write instead.

Only tables. What is refused here gets an error at its own line and column; what is in no table falls
through to the translator, which refuses every construct it does not know by name.
"""

from __future__ import annotations

from dataclasses import dataclass

MARK = "elf_"
"""Put before the names of our functions, so that the SQL parser hands the calls through as they stand."""

WINDOWS = ("tumble", "hop", "window", "session", "session_window")
OVER_FUNCTIONS = {
    "row_number": (0, 0), "rank": (0, 0), "dense_rank": (0, 0), "percent_rank": (0, 0), "cume_dist": (0, 0),
    "ntile": (1, 1), "lag": (1, 2), "lead": (1, 2), "nth_value": (2, 2),
}  # fmt: skip
"""Functions over the rows of an interval, and the least and most of their arguments."""

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer")
"""Functions that give a row for each element of a list or map."""

GROUPING = "grouping"
"""Says of a column whether a row of GROUPING SETS is a total over it."""

SPECIAL_FORMS = ("trim", "position", "substring", "substr")
"""Functions that may be written with words between the arguments; the SQL parser knows those forms."""


PLAIN_FORMS = ("cast", "try_cast", "extract", "group", "exists")
"""Calls that are always written with words between the arguments, and the GROUP ( of WITHIN GROUP."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused word; `following` narrows it to the places where the next word is one of these."""

    message: str
    hint: str
    following: tuple[str, ...] | None = None


_SET = Refusal("INTERSECT and EXCEPT are not there", "Write LEFT SEMI JOIN or LEFT ANTI JOIN.")
_CLOCK = Refusal(
    "the clock is not there",
    "An answer must not depend on when it is computed: use the event time, ts, or window_end.",
)

UNSUPPORTED_WORDS: dict[str, Refusal] = {
    "INTERSECT": _SET,
    "EXCEPT": Refusal(_SET.message, f"{_SET.hint} Instead of * EXCEPT (a), name the columns."),
    "MINUS": Refusal(_SET.message, _SET.hint, ("SELECT", "ALL", "DISTINCT")),
    "LATERAL": Refusal("LATERAL (SELECT ...) is not there", "Write LATERAL VIEW explode(x) t AS e.", ("(",)),
    "PIVOT": Refusal("PIVOT is not there", "Write sum(x) FILTER (WHERE key = 'a') AS a, ...", ("(",)),
    "UNPIVOT": Refusal("UNPIVOT is not there", "Write one query for each column.", ("(",)),
    "TABLESAMPLE": Refusal("TABLESAMPLE is not there", "Filter with WHERE."),
    "CLUSTER BY": Refusal("CLUSTER BY is not there", "Write ORDER BY."),
    "SORT BY": Refusal("SORT BY is not there", "Write ORDER BY."),
    "DISTRIBUTE BY": Refusal("DISTRIBUTE BY is not there", "Write PARTITIONS n after CREATE JOB name."),
    "GROUP BY": Refusal("GROUP BY DISTINCT is not there", "Write GROUP BY a, b.", ("DISTINCT",)),
    "ORDER BY": Refusal("ORDER BY ALL is not there", "Name what to order by: ORDER BY 1, 2.", ("ALL",)),
    "LIMIT": Refusal("LIMIT ALL is not there", "Leave it out: all rows are shown without LIMIT.", ("ALL",)),
    "TABLE": Refusal(
        "TABLE(...) is not there", "Write FROM stream GROUP BY TUMBLE(ts, INTERVAL '30' SECOND).", ("(",)
    ),
    "NATURAL": Refusal("NATURAL JOIN is not there", "Write JOIN ... ON a.x = b.x."),
    "->": Refusal("lambda functions are not there", "Write the expression itself."),
    **dict.fromkeys(("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP"), _CLOCK),
    ":": Refusal("paths with `:` are not there", "Write a.b."),
    "?": Refusal("parameters are not there", "Write the value."),
}

_GROUPS: tuple[tuple[str, str], ...] = (
    ("Write approx_count_distinct, approx_top_k or approx_percentile.", "count_min_sketch"),
    (_CLOCK.hint, "now curdate getdate"),
    (
        "An answer must be the same on every agent and at every attempt: use a field of the record.",
        "rand random randn randstr uuid shuffle monotonically_increasing_id",
    ),
    (
        "Write stddev(x), variance(x), or avg of an expression.",
        "skewness kurtosis regr_slope regr_count",
    ),
    ("Write string_agg(x, ',').", "group_concat"),
    ("Write date_format(ts, 'yyyy-MM-dd HH:mm:ss').", "strftime format_timestamp"),
    ("Write bool_and, bool_or, or sum of an expression with &.", "bit_and bit_or bit_xor"),
    (
        "Write explode(x), x[0], from_json(x, 'STRUCT<a: BIGINT>') or get_json_object(text, '$.a').",
        "stack struct named_struct transform json_tuple",
    ),
    (
        "Write HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND): slide, then size.",
        "hopping hop_window hopping_window slide sliding sliding_window slidingwindow hoppingwindow cumulate",
    ),
    (
        "Write TUMBLE(ts, INTERVAL '30' SECOND).",
        "tumbling tumble_window tumbling_window tumblingwindow time_bucket date_bin countwindow count_window",
    ),
    ("Write SESSION(ts, INTERVAL '5' MINUTE).", "sessions sessionwindow session_windows"),
    ("Select window_start or window_end.", "tumble_start tumble_end hop_start hop_end window_time"),
)

UNSUPPORTED_FUNCTIONS: dict[str, str] = {name: hint for hint, names in _GROUPS for name in names.split()}
"""Functions of Spark that ELF-QL does not have, and what to write instead."""

SELECTS_NOTHING = "Name columns after SELECT; one with the name of a word of SQL is written `from`."
STREAM_NAME = "the name of a stream"
FILE_HINT = "Write FROM log, and name the file behind the query: elf run '... FROM log' a.log."

CLAUSES: dict[str, tuple[str, str]] = {
    "locks": ("FOR UPDATE", "Nothing is locked here: leave it out."),
    "version": ("VERSION AS OF", "Choose times with WHERE."),
    "when": ("VERSION AS OF", "Choose times with WHERE."),
    "by_name": ("UNION BY NAME", "Select the columns in one order: they go by position."),
    "sample": ("SAMPLE", "Filter with WHERE, or read less with `elf run --sample N`."),
    "into": ("INTO", "Read results with `elf results`, or write them on with a sink."),
}
"""Clauses as the SQL parser calls them: how the user did, and what to do instead."""
