"""Queries in brackets that stand for a value: over no rows they are what Spark's are, in every interval."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse
from tests.ql.conftest import run_streams

TICK = 1_000_000


def table(*rows: tuple[int, str, int]) -> pa.Table:
    times = pa.array([seconds * TICK for seconds, _, _ in rows], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": [k for _, k, _ in rows], "v": [v for _, _, v in rows]})


STREAMS = {"s": table((1, "a", 5), (12, "a", 6), (23, "b", 7)), "u": table((13, "a", 50), (14, "a", 6))}
EACH = "FROM s GROUP BY TUMBLE(ts, '10 s'), k"

WINDOWED = {
    f"SELECT k, (SELECT count(*) FROM u WHERE v > 9) AS o {EACH}": [("a", 0), ("a", 1), ("b", 0)],
    f"SELECT k, (SELECT coalesce(sum(v), 0) FROM u WHERE v > 9) AS o {EACH}": [
        ("a", 0), ("a", 50), ("b", 0),
    ],
    f"SELECT k, (SELECT count(*) FROM (SELECT v FROM u WHERE v > 9) q) AS o {EACH}": [
        ("a", 0), ("a", 1), ("b", 0),
    ],
    f"SELECT k, (SELECT count(DISTINCT v) FROM u HAVING count(*) = 0) AS o {EACH}": [
        ("a", 0), ("a", None), ("b", 0),
    ],
    f"SELECT k, (SELECT count(*) FROM u GROUP BY TUMBLE(ts, '10 s')) AS o {EACH}": [
        ("a", None), ("a", 2), ("b", None),
    ],
    f"SELECT k, count(*) AS n {EACH} HAVING count(*) > (SELECT count(*) FROM u WHERE v > 9)": [
        ("a", 1), ("b", 1),
    ],
    "SELECT k, v FROM s WHERE (SELECT count(*) FROM u) = 0 GROUP BY TUMBLE(ts, '10 s'), k, v": [
        ("a", 5), ("b", 7),
    ],
    "CREATE JOB j EVERY '10 s' AS SELECT s.k, x.n FROM s CROSS JOIN (SELECT count(*) AS n FROM u) x": [
        ("a", 0), ("a", 2), ("b", 0),
    ],
}  # fmt: skip


def rows_by_interval(text: str, streams: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    results = run_streams(parse(text), streams)
    found = [row for _, rows in sorted(results.items()) for row in rows.to_pylist()]
    return [tuple(value for name, value in row.items() if "window_" not in name) for row in found]


@pytest.mark.parametrize("text", WINDOWED)
def test_a_value_over_no_records_of_an_interval_is_that_over_no_rows(text: str) -> None:
    assert rows_by_interval(text, STREAMS) == WINDOWED[text]


def test_an_interval_of_which_no_part_kept_a_record_has_no_rows() -> None:
    text = "CREATE JOB j EVERY '10 s' AS SELECT n FROM (SELECT count(*) AS n FROM s WHERE v > 99) x"
    query = Query(parse(text))
    for rows in (query.finalise({}, (0, 10 * TICK)), query.finalise_parts({}, (0, 10 * TICK))):
        assert rows.num_rows == 0
        assert rows.column_names == ["n"]


OF_A_ROW = {
    "coalesce(sum(v), 0)": [0, 56, 56],
    "count(*) + 1": [1, 3, 3],
    "count(v) + coalesce(max(v), 9)": [9, 52, 52],
    "count(*) FILTER (WHERE v > 9)": [0, 1, 1],
    "count(DISTINCT v)": [0, 2, 2],
    "count_if(v > 9) * 2": [0, 2, 2],
    "size(collect_list(v))": [0, 2, 2],
    "max(v)": [None, 50, 50],
    "CASE WHEN max(v) IS NULL THEN -1 ELSE min(v) END": [-1, 6, 6],
}


@pytest.mark.parametrize("value", OF_A_ROW)
def test_a_value_of_a_row_without_partners_is_that_over_no_rows(value: str) -> None:
    text = f"SELECT s.k, (SELECT {value} FROM u WHERE u.k = s.k) AS c FROM s"
    found = run_streams(parse(text), STREAMS)[0].to_pylist()
    assert sorted((row["c"] for row in found), key=lambda c: (c is not None, c)) == OF_A_ROW[value]


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        ("max(v) + u.v", "must be in GROUP BY or in an aggregate"),
        ("v + 1", "aggregates"),
        ("hll_sketch_agg(v)", "sketch"),
    ],
)
def test_values_of_a_row_that_cannot_be_computed_are_refused(value: str, reported: str) -> None:
    with pytest.raises(QueryError, match=reported):
        parse(f"SELECT s.k, (SELECT {value} FROM u WHERE u.k = s.k) AS c FROM s")
