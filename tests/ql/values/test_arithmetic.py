"""Arithmetic on whole columns: what leaves 64 bits is null, and costs no neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.arithmetic import add, divide, multiply, subtract

LEAST, MOST = -(2**63), 2**63 - 1
NUMBERS = st.one_of(
    st.none(),
    st.integers(-9, 9),
    st.integers(LEAST, MOST),
    st.sampled_from([LEAST, LEAST + 1, MOST, MOST - 1, 2**32, -(2**32), 3_037_000_500]),
)
EXACT: list[tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = [
    (add, lambda a, b: a + b),
    (subtract, lambda a, b: a - b),
    (multiply, lambda a, b: a * b),
]


@pytest.mark.parametrize(("kernel", "exact"), EXACT, ids=["add", "subtract", "multiply"])
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_each_row_is_the_exact_number_or_null(
    kernel: Callable[[Any, Any], Any],
    exact: Callable[[int, int], int],
    pairs: list[tuple[int | None, int | None]],
) -> None:
    left, right = (pa.array(side, pa.int64()) for side in zip(*pairs, strict=True))
    expected = []
    for a, b in pairs:
        value = None if a is None or b is None else exact(a, b)
        expected.append(value if value is not None and LEAST <= value <= MOST else None)
    assert kernel(left, right).to_pylist() == expected


@pytest.mark.parametrize("kernel", [add, multiply])
def test_a_constant_beside_a_column_is_taken_for_each_row(kernel: Callable[[Any, Any], Any]) -> None:
    column, two = pa.array([1, MOST, None]), pa.scalar(2, pa.int64())
    assert kernel(column, two).to_pylist() == kernel(two, column).to_pylist()
    assert kernel(column, two).to_pylist()[1:] == [None, None]


def test_division_by_zero_is_null() -> None:
    assert divide(pa.array([1.0, 0.0, None]), pa.array([0.0, 0.0, 2.0])).to_pylist() == [None, None, None]
    assert divide(pa.array([1.0, -3.0]), pa.scalar(2.0)).to_pylist() == [0.5, -1.5]
