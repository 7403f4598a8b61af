"""first and last give a value also of rows without event time; which one does not depend on their order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.api.explain import explain
from elfmesh.ql import parse
from tests.ql.conftest import run

ROWS: list[dict[str, Any]] = [
    {"ts": 1, "k": "a", "v": 6, "w": "x"},
    {"ts": 2, "k": "a", "v": 5, "w": "y"},
    {"ts": 3, "k": "b", "v": None, "w": "z"},
    {"ts": 4, "k": "b", "v": 7, "w": "q"},
]
BARE = [{key: value for key, value in row.items() if key != "ts"} for row in ROWS]

CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[Any, ...]]]] = {
    # With event time: by it, also where it is not selected.
    "SELECT k, first(v) AS f, last(v) AS l FROM t GROUP BY k": (ROWS, [("a", 6, 5), ("b", None, 7)]),
    "SELECT k, first_value(v) OVER (PARTITION BY k) AS f, last_value(v) OVER (PARTITION BY k) AS l FROM t": (
        ROWS,
        [("a", 6, 5), ("a", 6, 5), ("b", None, 7), ("b", None, 7)],
    ),
    "SELECT v, first(v, true) OVER () AS f, last(v) IGNORE NULLS OVER () AS l FROM (SELECT v, ts FROM t) x": (
        ROWS,
        [(None, 6, 7), (5, 6, 7), (6, 6, 7), (7, 6, 7)],
    ),
    "SELECT first(w) AS f, last(w) AS l FROM t WHERE v >= (SELECT min(v) FROM t)": (ROWS, [("x", "q")]),
    # Without: a value wherever there is one.
    "SELECT k, first(v) AS f, last(v) AS l, any_value(v) AS a FROM t GROUP BY k": (
        BARE,
        [("a", 5, 6, 5), ("b", 7, 7, 7)],
    ),
    "SELECT k, first_value(w) AS f, last_value(w) AS l FROM (SELECT k, w FROM t) x GROUP BY k": (
        ROWS,
        [("a", "x", "y"), ("b", "q", "z")],
    ),
    "SELECT a.k, first(b.v) AS f, last(a.w) AS l FROM t a JOIN t b ON a.k = b.k GROUP BY a.k": (
        ROWS,
        [("a", 5, "y"), ("b", 7, "z")],
    ),
    "SELECT first(e) AS f, last(e) AS l FROM (SELECT explode(array(w, k)) AS e FROM t) x": (
        ROWS,
        [("a", "z")],
    ),
    "SELECT k, first(v) FILTER (WHERE v > 5) AS f FROM t GROUP BY k": (BARE, [("a", 6), ("b", 7)]),
    "SELECT k, first_value(v) OVER (PARTITION BY k) AS f FROM t": (
        BARE,
        [("a", 5), ("a", 5), ("b", 7), ("b", 7)],
    ),
    "SELECT k, first(sum(v)) OVER () AS f FROM t GROUP BY k": (ROWS, [("a", 7), ("b", 7)]),
    "SELECT first(v) AS f, last(v) AS l FROM t WHERE k = 'none'": (BARE, [(None, None)]),
}


def _rows(text: str, rows: list[dict[str, Any]], batch_rows: int) -> list[tuple[Any, ...]]:
    (table,) = run(text, pa.Table.from_pylist(rows), batch_rows=batch_rows).values()
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("batch_rows", [1, 3, 7])
@pytest.mark.parametrize("text", CASES)
def test_a_value_is_given_whatever_the_order_and_the_cut(text: str, batch_rows: int) -> None:
    rows, wanted = CASES[text]
    assert _rows(text, rows, batch_rows) == wanted
    assert _rows(text, rows[::-1], batch_rows) == wanted


def test_records_with_a_time_come_before_those_without() -> None:
    rows: list[dict[str, Any]] = [
        {"ts": None, "v": 1},
        {"ts": 5, "v": 9},
        {"ts": 6, "v": 8},
        {"ts": None, "v": 10},
    ]
    assert _rows("SELECT first(v) AS f, last(v) AS l FROM t", rows, 7) == [(9, 8)]


def test_a_window_over_another_column_of_time_is_what_they_go_by() -> None:
    rows = [{"at": 2, "k": "a", "v": 1}, {"at": 1, "k": "a", "v": 2}]
    window = "GROUP BY TUMBLE(at, INTERVAL '10' SECOND)"
    text = f"SELECT first(v) AS f FROM t WHERE v > (SELECT min(v) - 1 FROM t {window}) {window}"
    assert _rows(text, rows, 7) == [(2,)]


def test_explain_shows_by_what_first_and_last_are_ordered() -> None:
    timed = explain(parse("SELECT k, first(v) AS f FROM t GROUP BY k"))["stages"][2]["does"]
    assert "first and last by ts, then by value; records without a time come after all others" in timed
    bare = explain(parse("SELECT k, first(v) AS f FROM (SELECT k, v FROM t) x GROUP BY k"))["stages"][2]
    assert (
        "first and last of rows without ts: an arbitrary row, by value, the same in every run" in bare["does"]
    )
