"""Functions over rows, against a walk over the sorted rows of each partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ql.conftest import run

ROWS = {"id": [1, 2, 3, 4, 5], "k": ["a", "a", "a", "b", "a"], "v": [10, 20, 20, 5, None]}


def column(function: str, over: str, **columns: Any) -> list[Any]:
    (table,) = run(f"SELECT id, {function} OVER ({over}) AS x FROM t", columns or ROWS).values()
    return [row["x"] for row in sorted(table.to_pylist(), key=lambda row: int(row["id"]))]


BY = "PARTITION BY k ORDER BY v"


@pytest.mark.parametrize(
    ("function", "over", "expected"),
    [
        ("row_number()", BY, [2, 3, 4, 1, 1]),
        ("rank()", BY, [2, 3, 3, 1, 1]),
        ("dense_rank()", BY, [2, 3, 3, 1, 1]),
        ("rank()", "PARTITION BY k ORDER BY v DESC", [3, 1, 1, 1, 4]),
        ("dense_rank()", "PARTITION BY k ORDER BY v DESC", [2, 1, 1, 1, 3]),
        ("percent_rank()", BY, [1 / 3, 2 / 3, 2 / 3, 0.0, 0.0]),
        ("cume_dist()", BY, [0.5, 1.0, 1.0, 1.0, 0.25]),
        ("ntile(3)", "ORDER BY id", [1, 1, 2, 2, 3]),
        ("ntile(9)", "ORDER BY id", [1, 2, 3, 4, 5]),
        ("lag(v)", "ORDER BY id", [None, 10, 20, 20, 5]),
        ("lag(v, 2, -1)", "ORDER BY id", [-1, -1, 10, 20, 20]),
        ("lead(v, 1, 0)", "ORDER BY id", [20, 20, 5, None, 0]),
        ("lag(v, 0)", "ORDER BY id", [10, 20, 20, 5, None]),
        ("lag(v, -1)", "ORDER BY id", [20, 20, 5, None, None]),
        ("lag(v) IGNORE NULLS", "ORDER BY v", [5, 10, 20, None, None]),
        ("lead(v) IGNORE NULLS", "ORDER BY id DESC", [None, 10, 20, 20, 5]),
        ("first(v)", "ORDER BY id", [10, 10, 10, 10, 10]),
        ("last(v)", "ORDER BY id", [10, 20, 20, 5, None]),
        ("last(v) IGNORE NULLS", "ORDER BY id", [10, 20, 20, 5, 5]),
        ("first(v) IGNORE NULLS", "ORDER BY v", [5, 5, 5, 5, None]),
        ("nth_value(v, 2)", "ORDER BY id", [None, 20, 20, 20, 20]),
        ("nth_value(v, 2) IGNORE NULLS", "ORDER BY v", [10, 10, 10, None, None]),
        ("first(v)", "ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", [20, 20, 5, None, None]),
        ("sum(v)", "ORDER BY v RANGE BETWEEN 10 PRECEDING AND CURRENT ROW", [15, 50, 50, 5, None]),
        ("count(*)", "ORDER BY v DESC RANGE BETWEEN CURRENT ROW AND 10 FOLLOWING", [2, 3, 3, 1, 1]),
    ],
)
def test_a_function_over_rows(function: str, over: str, expected: list[Any]) -> None:
    assert column(function, over) == expected


@given(st.lists(st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 3))), max_size=8))
def test_numbers_agree_with_sorting(rows: list[tuple[str, int | None]]) -> None:
    def place(at: int) -> tuple[bool, int]:
        return rows[at][1] is not None, rows[at][1] or 0

    given = {
        "id": pa.array(range(len(rows)), pa.int64()),
        "k": pa.array([k for k, _ in rows], pa.string()),
        "v": pa.array([v for _, v in rows], pa.int64()),
    }
    same = [[other for other in range(len(rows)) if rows[other][0] == rows[at][0]] for at in range(len(rows))]
    ranks = [1 + sum(place(other) < place(at) for other in same[at]) for at in range(len(rows))]
    dense = [1 + len({place(o) for o in same[at] if place(o) < place(at)}) for at in range(len(rows))]
    assert column("rank()", BY, **given) == ranks
    assert column("dense_rank()", BY, **given) == dense


@pytest.mark.parametrize(
    ("column_of", "frame", "message"),
    [
        (["x"], "2 PRECEDING", "RANGE with a number is not for STRING"),
        ([1], "INTERVAL '1' DAY PRECEDING", "RANGE with an INTERVAL is not for BIGINT"),
    ],
)
def test_a_distance_needs_a_type_that_has_one(column_of: list[Any], frame: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        column("sum(id)", f"ORDER BY v RANGE {frame}", id=[1], v=column_of)
