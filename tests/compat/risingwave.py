"""RisingWave's streaming tests, and Nexmark's queries as it has them: rows as lines of text.

Its materialised views are ours as one query over a log that holds what was inserted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from tests.compat.cases import PEERS, Case, Check, NotOurs, Ours, Row, Translation, difference, shown, token

NULL = "NULL"


def words(value: Any) -> list[Any]:
    """A value as the words in which a line would have it."""
    if value is None:
        return [NULL]
    if isinstance(value, datetime):
        return [token(word) for word in shown(value).split("T")]
    if isinstance(value, list):
        return ["{" + ",".join(str(each) for each in value) + "}"]
    if isinstance(value, float):
        value = Decimal(repr(value))
    return [token(word) for word in str(value).split()]


def same_lines(lines: Sequence[str], *, ordered: bool) -> Check:
    """A check for rows that are written as lines, words apart by any white space."""
    wanted = [tuple(token(word) for word in line.split()) for line in lines]

    def check(rows: Sequence[Row]) -> str:
        found = [tuple(word for value in row.values() for word in words(value)) for row in rows]
        return difference(wanted, found, ordered=ordered)

    return check


def cases() -> list[Case]:
    """The cases of RisingWave, named by file and number."""
    found = []
    for path in sorted((PEERS / "risingwave").glob("*.json")):
        for at, case in enumerate(json.loads(path.read_text())["cases"]):
            name = f"{path.stem}/{at}"
            inputs = {table: content["rows"] for table, content in case["tables"].items()}
            ordered = "order by" in case["query"] and "rowsort" not in case["mode"] and name not in UNORDERED
            found.append(Case(name, inputs, same_lines(case["expected"], ordered=ordered)))
    return found


UNORDERED = {"time_window/1"}
"""Ordered by something else before the window: rows come interval by interval here."""

DELETED = NotOurs("rows are deleted or changed: a log only grows")
NOT_COPIED = NotOurs("the inserted rows are not published with the case")

TOP = """SELECT {columns} FROM (
  SELECT {columns}, {place} AS place FROM {table}
) ranked
WHERE {condition}"""


def top(columns: str, place: str, condition: str, table: str = "t") -> Ours:
    """The first rows of each partition."""
    return Ours(TOP.format(columns=columns, place=place, condition=condition, table=table))


def hop(slide: str, size: str, columns: str, order: str) -> Ours:
    """Sums per hopping window."""
    keys = "".join(f", {key}" for key in ("uid",) if key in columns)
    return Ours(
        f"SELECT {columns} FROM t1 GROUP BY HOP(created_at, INTERVAL {slide}, INTERVAL {size}){keys}"
        f" ORDER BY {order}"
    )


TUMBLE = "TUMBLE(created_at, INTERVAL '30' MINUTE)"
AVERAGE = Ours("SELECT round(avg(v1), 1) AS avg_v1, sum(v2) AS sum_v2, count(v3) AS count_v3 FROM t1")
ALL = Ours("SELECT v1, v2, v3 FROM t1")
ITEMS = """(SELECT window_start, window_end, item, price
      FROM bid GROUP BY TUMBLE(bidtime, INTERVAL '10' MINUTE), bidtime, item, price) bids"""
SUPPLIERS = """(SELECT window_start, window_end, supplier_id, sum(price) AS price, count(*) AS cnt
      FROM bid GROUP BY TUMBLE(bidtime, INTERVAL '10' MINUTE), supplier_id) sums"""
UNIONS = (
    Ours("SELECT v1, v2, v4 FROM t1 UNION ALL SELECT v1, v3, v4 FROM t2"),
    Ours("SELECT v1, v2, v4 FROM t1 UNION SELECT v1, v3, v4 FROM t2"),
    Ours("SELECT v1, v4 FROM t1 UNION ALL SELECT v1, v4 FROM t2"),
    Ours("SELECT v4, v1 FROM t1 UNION SELECT v4, v1 FROM t2"),
)
COLUMNS = ("v1", "v2", "v3", "v4", "b", "s", "bs", "j", "arr")
NUMBERS = COLUMNS[:4]
EMPTY = [
    "count(*) AS count_all",
    *(f"count({name}) AS count_{name}" for name in COLUMNS),
    *(f"{what}({name}) AS {what}_{name}" for what in ("sum", "min", "max") for name in NUMBERS),
]

TRANSLATIONS: Mapping[str, Translation] = {
    "aggregate__basic_agg/0": Ours(f"SELECT {', '.join(EMPTY)} FROM t"),
    "aggregate__basic_agg/1": NOT_COPIED,
    **{f"aggregate__basic_agg/{at}": DELETED for at in (2, 3, 4, 5)},
    "aggregate__basic_agg/6": Ours(
        "SELECT min(v1) AS o1, max_by(v1, coalesce(v2, 1000)) AS o2, max(v1) AS o3, max_by(v1, v2) AS o4\n"
        "FROM t"
    ),
    "aggregate__count_star/0": Ours("SELECT count(*) AS n FROM t"),
    "aggregate__count_star/1": Ours("SELECT count(v) AS n FROM t"),
    "basic/0": ALL,
    "basic/1": AVERAGE,
    "basic/2": ALL,
    "basic/3": AVERAGE,
    "basic/4": Ours(
        "SELECT sum(v1) AS sum_v1, min(v1) AS min_v1, max(v1) AS max_v1, v3\n"
        "FROM t4 GROUP BY v3 ORDER BY sum_v1"
    ),
    "basic/5": Ours("SELECT count(*) AS count, CAST(d AS DOUBLE) AS d FROM t5 GROUP BY CAST(d AS DOUBLE)"),
    "basic/6": Ours("SELECT v2, avg(v1) FILTER (WHERE FALSE) AS avg_v1 FROM t1 GROUP BY v2"),
    **{
        f"group_top_n__group_top_1/{at}": Ours(
            "SELECT a, b, c, place FROM (\n"
            "  SELECT a, b, c, row_number() OVER (PARTITION BY a ORDER BY b) AS place FROM t\n"
            ") ranked\nWHERE place <= 1"
        )
        for at in range(3)
    },
    "group_top_n__main/0": top("x, y", "row_number() OVER (PARTITION BY x ORDER BY y)", "place <= 3"),
    "group_top_n__main/1": top(
        "x, y", "row_number() OVER (PARTITION BY x div 2 ORDER BY 6 - y, x)", "place <= 3"
    ),
    "group_top_n__main/2": top(
        "x, y", "row_number() OVER (PARTITION BY x ORDER BY y)", "place <= 3 AND place > 1"
    ),
    "group_top_n__main/3": top("x, y", "rank() OVER (ORDER BY y)", "place <= 4"),
    "group_top_n__main/4": top("x, y", "rank() OVER (PARTITION BY x ORDER BY y)", "place <= 3"),
    "group_top_n__main/5": top("x, y", "rank() OVER (PARTITION BY x ORDER BY x)", "place <= 1"),
    "group_top_n__main/6": Ours(
        top(
            "window_start, window_end, item, price",
            "row_number() OVER (ORDER BY price DESC)",
            "place <= 3\nORDER BY price DESC, item",
            ITEMS,
        ).text
    ),
    "group_top_n__main/7": top(
        "window_start, window_end, supplier_id, price, cnt",
        "row_number() OVER (ORDER BY price DESC)",
        "place <= 3\nORDER BY price DESC, supplier_id",
        SUPPLIERS,
    ),
    "time_window/0": Ours(
        f"SELECT row_id, uid, created_at, window_start, window_end FROM t1\n"
        f"GROUP BY {TUMBLE}, row_id, uid, created_at ORDER BY row_id"
    ),
    "time_window/1": Ours(
        "SELECT row_id, uid, created_at, window_start, window_end FROM t1\n"
        "GROUP BY HOP(created_at, INTERVAL '15' MINUTE, INTERVAL '30' MINUTE), row_id, uid, created_at"
    ),
    "time_window/2": Ours(f"SELECT sum(v) AS sum_v, window_start FROM t1 GROUP BY {TUMBLE}"),
    "time_window/3": Ours(
        f"SELECT uid, sum(v) AS sum_v, window_start FROM t1 GROUP BY {TUMBLE}, uid ORDER BY uid"
    ),
    "time_window/4": hop("'15' MINUTE", "'30' MINUTE", "sum(v) AS sum_v, window_start", "window_start"),
    "time_window/5": hop("'15' MINUTE", "'30' MINUTE", "uid, sum(v) AS sum_v, window_start", "uid"),
    "time_window/6": hop("'1' DAY", "'2' DAY", "uid, sum(v) AS sum_v, window_start", "uid"),
    **{f"union/{at}": UNIONS[at % 4] if at < 8 else DELETED for at in range(16)},
}
