"""Folds of distinct values with their counts: percentiles and modes as over the values one by one."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.engine.folds import folded, owners_of
from elfmesh.ql.plan.statement import COUNT_COLUMN, Fold
from tests.ql.conftest import run

MAIN = {"k0": pa.array(["a", "b", None])}


def table(rows: list[tuple[Any, Any, int]]) -> pa.Table:
    keys, values, counts = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"k0": pa.array(keys, pa.string()), "x": values, COUNT_COLUMN: pa.array(counts, pa.int64())}
    )


def fold(how: str, rows: list[tuple[Any, Any, int]], *ranks: float) -> list[Any]:
    given = Fold("f0", "d0", how, ranks)
    found: list[Any] = folded(given, MAIN, ("k0",), 3, table(rows)).to_pylist()
    return found


ROWS = [("b", 5, 1), ("a", 1, 3), ("a", 9, 1), (None, 2, 2)]


@pytest.mark.parametrize(
    ("how", "ranks", "expected"),
    [
        ("sum", (), [10, 5, 2]),
        ("mode", (), [1, 5, 2]),
        ("percentile", (0.5,), [1.0, 5.0, 2.0]),
        ("percentile", (1.0,), [9.0, 5.0, 2.0]),
        ("percentile", (0.75,), [3.0, 5.0, 2.0]),  # a quarter of the way from 1 to 9
        ("percentile falling", (0.0,), [9.0, 5.0, 2.0]),
        ("percentile_disc", (0.75,), [1.0, 5.0, 2.0]),
        ("percentile_disc", (0.76,), [9.0, 5.0, 2.0]),
        ("percentile_disc falling", (0.25,), [9.0, 5.0, 2.0]),
        ("percentiles", (0.0, 1.0), [[1.0, 9.0], [5.0, 5.0], [2.0, 2.0]]),
    ],
)
def test_a_fold(how: str, ranks: tuple[float, ...], expected: list[Any]) -> None:
    assert fold(how, ROWS, *ranks) == expected


def test_a_group_without_values_is_null() -> None:
    assert fold("percentile", ROWS[1:3], 0.5) == [1.0, None, None]
    assert fold("percentiles", ROWS[1:3], 0.5, 1.0) == [[1.0, 9.0], None, None]
    assert fold("mode", ROWS[1:3]) == [1, None, None]
    assert folded(Fold("f0", "d0", "sum", ()), MAIN, ("k0",), 3, None).to_pylist() == [None] * 3


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("bit_and", [6 & 3, 12, None]),
        ("bit_or", [6 | 3, 12, None]),
        ("bit_xor", [3, 12, None]),
        ("bit_xor distinct", [6 ^ 3, 12, None]),
    ],
)
def test_bits_are_combined_and_an_even_number_of_equal_values_is_none(
    how: str, expected: list[int | None]
) -> None:
    assert fold(how, [("a", 6, 2), ("a", 3, 1), ("b", 12, 3)]) == expected


def test_lists_and_structs_have_a_mode() -> None:
    rows = {"k": [1, 1, 1, 2, 2, 3], "x": [[2], [1, 3], [1, 3], [2], [1, 9], None]}
    text = "SELECT k, mode(x) AS l, mode(struct(x[0] AS a, k AS b)).a AS s FROM t GROUP BY k ORDER BY k"
    (table,) = run(text, rows, batch_rows=2).values()
    assert table.to_pylist() == [
        {"k": 1, "l": [1, 3], "s": 1}, {"k": 2, "l": [1, 9], "s": 1}, {"k": 3, "l": None, "s": None},
    ]  # fmt: skip


def test_of_values_that_come_equally_often_the_least_is_the_mode() -> None:
    assert fold("mode", [("a", 7, 2), ("a", 3, 2), ("a", 1, 1)]) == [3, None, None]


def test_without_counts_each_value_counts_once() -> None:
    values = table([("a", 1, 1), ("a", 2, 1)]).drop_columns([COUNT_COLUMN])
    assert folded(Fold("f0", "d0", "sum", ()), MAIN, ("k0",), 3, values).to_pylist() == [3, None, None]


@given(
    st.dictionaries(st.integers(-9, 9), st.integers(1, 4), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_a_percentile_is_that_of_the_values_one_by_one(counts: dict[int, int], rank: float) -> None:
    values = sorted(value for value, count in counts.items() for _ in range(count))
    place = (len(values) - 1) * rank
    low, high = values[math.floor(place)], values[math.ceil(place)]
    rows = [("a", value, count) for value, count in counts.items()]
    assert fold("percentile", rows, rank)[0] == pytest.approx(
        low + (place - math.floor(place)) * (high - low)
    )
    reached = values[max(math.ceil(len(values) * rank) - 1, 0)]
    assert fold("percentile_disc", rows, rank)[0] == reached


def test_rows_without_keys_have_one_owner_and_narrow_types_are_widened() -> None:
    assert owners_of({}, (), 1, pa.table({"x": [1, 2]})).tolist() == [0, 0]
    narrow = pa.table({"k0": pa.nulls(1), "x": [1]})
    assert owners_of({"k0": pa.array([7, None])}, ("k0",), 2, narrow).tolist() == [1]
