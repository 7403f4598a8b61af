"""One column as bytes and back, bit for bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elfmesh.cbt import kernel
from elfmesh.cbt.codec.column_codec import (
    Column,
    chunk_bytes,
    lay_array,
    lay_numbers,
    read_array,
    read_numbers,
    write_column,
)
from tests.cbt.tables import columns

NUMBER = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300) | st.sampled_from([2**24, 2**40, 2**56 - 1])
)


def write_numbers(values: np.ndarray) -> tuple[Column, bytes]:
    (column,), (chunk,) = write_column(lay_numbers("x", values), np.array([0, len(values)]))
    return column, chunk


def write_array(array: pa.Array) -> tuple[Column, bytes]:
    (column,), (chunk,) = write_column(lay_array("x", array), np.array([0, len(array)]))
    return column, chunk


@given(st.lists(NUMBER, max_size=20), st.integers(-(2**62), 2**62))
@example([-(2**63), 2**63 - 1], 0)
@example([2**63 - 2**56, 2**63 - 1], 0)
@example([0, 2**56 - 1], 0)
@example([5, 5], 0)
def test_numbers_come_back(values: list[int], shift: int) -> None:
    for array in (np.array(values, np.int64), np.array(values, np.int64) // 4 + shift // 2):
        column, chunk = write_numbers(array)
        assert read_numbers(column, memoryview(chunk), len(values)).tolist() == array.tolist()
        if len(set(array.tolist())) <= 1:
            assert chunk == b""


@given(columns(9))
def test_columns_come_back(array: pa.Array) -> None:
    column, chunk = write_array(array)
    back = read_array(column, memoryview(chunk), len(array), trusted=False)
    assert back.type == array.type
    assert back.is_valid().equals(array.is_valid())
    if pa.types.is_floating(array.type):
        array, back = array.view(pa.int64()), back.view(pa.int64())
    assert back.drop_null().equals(array.drop_null())


@given(st.lists(st.tuples(st.integers(-(2**52), 2**52), st.integers(0, 6)), min_size=1, max_size=9))
def test_short_decimals_are_integers(numbers: list[tuple[int, int]]) -> None:
    digits = max(places for _, places in numbers)
    values = np.array(
        [number / 10.0**places for number, places in numbers if abs(number) < 2**52 // 10**digits] or [0.5]
    )
    found = kernel.active.scale_floats(values)
    assert found is not None
    scaled, places = found
    assert (scaled / 10.0**places).tobytes() == values.tobytes()
    column, _ = write_array(pa.array(values))
    assert column.coding == "scaled"


@pytest.mark.parametrize("odd", [np.pi, np.inf, np.nan, -0.0, 1e300, 2.0**60])
def test_other_floats_are_their_bits(odd: float) -> None:
    values = np.array([1.25] * 300 + [odd])
    assert kernel.active.scale_floats(values) is None
    column, chunk = write_array(pa.array(values))
    back = read_array(column, memoryview(chunk), 301, trusted=True)
    assert back.to_numpy().tobytes() == values.tobytes()


@given(columns(9), st.lists(st.integers(1, 8), max_size=3, unique=True))
def test_a_column_cut_into_blocks_comes_back(array: pa.Array, inner: list[int]) -> None:
    cuts = [0, *sorted(inner), 9]
    headers, chunks = write_column(lay_array("x", array), np.array(cuts))
    parts = [
        read_array(column, memoryview(chunk), stop - start, trusted=False)
        for column, chunk, (start, stop) in zip(headers, chunks, pairwise(cuts), strict=True)
    ]
    assert [len(chunk) for chunk in chunks] == [
        chunk_bytes(column, stop - start)
        for column, (start, stop) in zip(headers, pairwise(cuts), strict=True)
    ]
    assert write_array(pa.concat_arrays(parts)) == write_array(array)


@given(columns(9), st.permutations(range(9)), st.integers(0, 9))
def test_a_column_written_in_another_order_comes_back_in_it(
    array: pa.Array, order: list[int], cut: int
) -> None:
    headers, chunks = write_column(lay_array("x", array), np.array([0, cut, 9]), np.array(order))
    parts = [
        read_array(column, memoryview(chunk), rows, trusted=False)
        for column, chunk, rows in zip(headers, chunks, (cut, 9 - cut), strict=True)
    ]
    assert write_array(pa.concat_arrays(parts)) == write_array(array.take(pa.array(order)))
