"""Tools for whole columns: constants as columns, nulls, and a function called once for each value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.ql.values.columns import (
    as_array,
    bool_values,
    float_values,
    from_numpy,
    int_values,
    list_cuts,
    map_distinct,
    map_rows,
    null_mask,
)
from elfmesh.ql.values.types import DATE, TIMESTAMP


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("value", [7, None])
def test_a_constant_is_a_column_of_any_length(value: int | None, rows: int) -> None:
    column = as_array(pa.scalar(value, pa.int64()), rows)
    assert column.to_pylist() == [value] * rows
    assert column.type == pa.int64()


@pytest.mark.parametrize("chunks", [[[1, None], [3]], [[1]], [[], [2]]])
def test_chunks_are_joined(chunks: list[list[int | None]]) -> None:
    column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks])
    assert as_array(column, 3).to_pylist() == column.to_pylist()


def test_nulls_have_a_mask_and_a_value_that_counts_for_nothing() -> None:
    numbers = pa.array([1, None, -1])
    assert null_mask(numbers).tolist() == [False, True, False]
    assert int_values(numbers).tolist() == [1, 0, -1]
    assert int_values(numbers.slice(1)).tolist() == [0, -1]
    assert float_values(pa.array([1.5, None])).tolist() == [1.5, 0.0]
    assert bool_values(pa.array([True, None, False])).tolist() == [True, False, False]
    assert int_values(pa.array([0, None], TIMESTAMP)).tolist() == [0, 0]


@pytest.mark.parametrize("kind", [pa.int64(), TIMESTAMP, DATE])
def test_a_column_is_made_of_numbers_and_a_mask(kind: pa.DataType) -> None:
    column = from_numpy(np.array([1, 2, 3], np.int64), np.array([False, True, False]), kind)
    assert column.type == kind
    assert column.is_null().to_pylist() == [False, True, False]
    assert column == pa.array([1, None, 3], pa.int32() if kind == DATE else pa.int64()).view(kind)


def test_a_null_list_and_an_empty_one_have_no_elements() -> None:
    lists = pa.array([[1, 2], None, [], [3]])
    assert list_cuts(lists).to_pylist() == [0, 2, 2, 2, 3]


def test_a_function_is_called_once_for_each_distinct_value() -> None:
    called: list[Any] = []

    def upper(text: str) -> str | None:
        called.append(text)
        return None if text == "b" else text.upper()

    column = pa.array(["a", None, "b", "a", "a"])
    assert map_distinct(upper, column, pa.string()).to_pylist() == ["A", None, None, "A", "A"]
    assert sorted(called) == ["a", "b"]


def test_a_row_with_a_null_is_null_and_not_asked() -> None:
    found = map_rows(lambda a, b: a // b, pa.int64(), 3, pa.array([7, None, 9]), pa.scalar(2))
    assert found.to_pylist() == [3, None, 4]
