"""Variance without cancellation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.squares import central_squares
from elfmesh.errors import DataError
from tests.cbt.laws.accumulating import (
    same,
)


@given(st.lists(st.floats(-1e150, 1e150) | st.integers(-(2**40), 2**40).map(float), min_size=1, max_size=8))
def test_variance_does_not_cancel(values: list[float]) -> None:
    column, ids = pa.array(values), np.zeros(len(values), np.int64)
    got = central_squares(*(LAWS[kind].lift(column, ids, 1) for kind in ("sum", "sumsq")))[0]
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    want = sum(((number - mean) ** 2 for number in numbers), Fraction(0))
    assert same(float(got), want)


def test_variance_of_other_values_or_of_nan_is_not_made_up() -> None:
    one, two = pa.array([1.0, math.nan]), pa.array([1.0, 2.0])
    ids = np.array([0, 1])
    sums, squares = LAWS["sum"].lift(one, ids, 3), LAWS["sumsq"].lift(one, ids, 3)
    assert [repr(v) for v in central_squares(sums, squares).tolist()] == ["0.0", "nan", "nan"]
    with pytest.raises(DataError, match="same values"):
        central_squares(sums, LAWS["sumsq"].lift(two, np.array([0, 0]), 3))
