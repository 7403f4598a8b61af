"""Placement of key columns over trees."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise, promote
from elfmesh.cbt.kernel import placement

TEXT = st.none() | st.text(max_size=20) | st.just("x" * 100)
NUMBER = st.none() | st.integers(-3, 3)
ROWS = st.lists(st.tuples(TEXT, NUMBER, st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.5])), max_size=40)


def key_columns(rows: list[tuple[Any, Any, Any]]) -> list[pa.Array]:
    types = (pa.string(), pa.int64(), pa.float64())
    return [normalise(pa.array([row[i] for row in rows], types[i]), f"k{i}") for i in range(3)]


def identity(row: tuple[Any, Any, Any]) -> tuple[Any, ...]:
    """SQL's grouping: NaN equals NaN, -0.0 equals 0.0, null equals null."""
    text, number, real = row
    return text, number, "nan" if real is not None and math.isnan(real) else real


@given(ROWS)
def test_equal_keys_hash_alike_in_any_layout(rows: list[tuple[Any, Any, Any]]) -> None:
    keys = key_columns(rows)
    whole = placement.hash_rows(keys, len(rows), 7)
    by_key: dict[tuple[Any, ...], int] = {}
    for place, row in enumerate(rows):
        alone = [column[place : place + 1] for column in keys]
        assert placement.hash_rows(alone, 1, 7)[0] == whole[place]
        assert by_key.setdefault(identity(row), int(whole[place])) == int(whole[place])


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_promotion_to_float_moves_no_key(values: list[int | None]) -> None:
    ints = pa.array(values, pa.int64())
    before = placement.hash_rows([ints], len(values), 1)
    after = placement.hash_rows([normalise(promote(ints, pa.float64()), "x")], len(values), 1)
    assert before.tolist() == after.tolist()


def test_nulls_of_an_untyped_column_hash_as_nulls_of_a_typed_one() -> None:
    for typed in (pa.string(), pa.int64(), pa.decimal128(9, 2), pa.date32(), pa.bool_()):
        left = placement.hash_rows([pa.nulls(3)], 3, 1)
        assert left.tolist() == placement.hash_rows([pa.nulls(3, typed)], 3, 1).tolist()


def test_hashes_are_fixed_for_ever() -> None:
    # Agents of different versions must split keys alike: a change here is a change of the protocol.
    keys = [pa.array(["", "a", "/index.html", None]), pa.array([0, 1, -1, None])]
    assert [f"{value:016x}" for value in placement.hash_rows(keys, 4, 1).tolist()] == FIXED


FIXED = ["e163df4e3c88e86a", "7cf945fe6189805c", "8e0cff9adfbcf6cd", "145cab0f29eec7e8"]


def test_hashes_spread_over_their_top_bits() -> None:
    for keys in (pa.array(range(20_000)), pa.array([f"/item/{i}" for i in range(20_000)])):
        hashes = placement.hash_rows([keys], 20_000, 0)
        counts = np.bincount((hashes >> np.uint64(60)).astype(int), minlength=16)
        assert counts.min() > 1_100
        assert counts.max() < 1_400
        assert len(np.unique(hashes)) == 20_000


def test_the_hash_distinguishes_keys_that_differ_only_in_embedded_nul_or_place() -> None:
    tricky = [
        "",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "a\0b",
        "12345678",
        "12345678\0",
        "x" * 65_536,
        "x" * 65_535 + "y",
    ]
    assert len(set(placement.hash_rows([pa.array(tricky)], len(tricky), 0).tolist())) == len(tricky)
    pairs = placement.hash_rows([pa.array(["a", "b"]), pa.array(["b", "a"])], 2, 0)
    assert pairs[0] != pairs[1]
    decimals = pa.array([Decimal("1.5"), Decimal("15.0"), None])
    assert len(set(placement.hash_rows([decimals], 3, 0).tolist())) == 3


@pytest.mark.parametrize("data_type", [pa.null(), pa.string(), pa.int64(), pa.bool_(), pa.decimal128(5, 1)])
def test_no_rows_have_no_hashes(data_type: pa.DataType) -> None:
    assert len(placement.hash_rows([pa.array([], data_type)], 0, 0)) == 0
