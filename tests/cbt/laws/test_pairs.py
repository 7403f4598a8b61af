"""Distinct pairs of group and value with their counts, in the order of the values."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws.pairs import VALUE_BYTES_MAX, Pairs, ValueTooLong, check_lengths

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), min_size=1, max_size=15)
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int64(), lambda value: value),
    "float": (pa.float64(), lambda value: value / 4),
    "text": (pa.string(), lambda value: chr(ord("k") + value) * 3),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("counted", [False, True])
@given(batches=st.lists(PAIRS, max_size=3))
def test_pairs_are_a_counter_in_order(kind: str, counted: bool, batches: list[list[tuple[int, int]]]) -> None:
    data_type, shown = TYPES[kind]
    pairs, model = Pairs(data_type, counted=counted), Counter[tuple[int, int]]()
    for batch in batches:
        owners, values = zip(*batch, strict=True)
        pairs.add(normalise(pa.array([shown(value) for value in values], data_type), "x"), np.array(owners))
        model.update(batch)
    owners_, column, counts = pairs.sorted()
    expected = [(owner, shown(value)) for owner, value in sorted(model)]
    assert list(zip(owners_.tolist(), column.to_pylist(), strict=True)) == expected
    assert counts.tolist() == [model[each] if counted else 1 for each in sorted(model)]
    assert pairs.rows == len(model)


def test_pairs_may_be_added_many_times_at_once_and_are_gone_when_cleared() -> None:
    pairs = Pairs(pa.int64(), counted=True)
    pairs.add(pa.array([7, 8]), np.array([0, 0]), np.array([3, 2]))
    pairs.add(pa.array([7]), np.array([0]), np.array([4]))
    assert pairs.sorted()[2].tolist() == [7, 2]
    pairs.clear()
    assert (pairs.rows, pairs.sorted()[0].tolist()) == (0, [])


def test_floats_are_ordered_as_numbers_and_nan_is_the_greatest() -> None:
    pairs = Pairs(pa.float64(), counted=False)
    pairs.add(normalise(pa.array([math.nan, -1.5, math.inf, 0.0, -math.inf]), "x"), np.zeros(5, np.int64))
    assert str(pairs.sorted()[1].to_pylist()) == "[-inf, -1.5, 0.0, inf, nan]"


@pytest.mark.parametrize(("extra", "rows"), [(0, []), (1, [1])])
def test_values_that_are_too_long_are_named_by_their_rows(extra: int, rows: list[int]) -> None:
    column = pa.array(["a", "b" * (VALUE_BYTES_MAX + extra), "c"])
    if not rows:
        check_lengths(column, "collect", "list")
        return
    with pytest.raises(ValueTooLong, match="collect 'list' got 1 values longer than") as caught:
        check_lengths(column, "collect", "list")
    assert caught.value.rows.tolist() == rows
