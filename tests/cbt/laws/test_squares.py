"""Sums of squares are exact for any number, and a variance of them does not cancel."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws.base import State
from elfmesh.cbt.laws.registry import LAWS
from elfmesh.cbt.laws.squares import central_squares, rounded
from elfmesh.errors import DataError

FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [1e200, 1e-200, 5e-324, 2.0**511, 1e308, 0.1]
)


def state(kind: str, values: list[float] | list[int], cut: int = 0) -> State:
    """The state of one group, merged of two parts."""
    data_type = pa.array(values).type
    total = LAWS[kind].accumulator(data_type)
    for part in (values[:cut], values[cut:]):
        alone = LAWS[kind].accumulator(data_type)
        alone.add(pa.array(part, data_type), np.zeros(len(part), np.int64), 1)
        total.merge(alone.freeze(1), np.zeros(1, np.int64), 1)
    return total.freeze(1)


def finished(kind: str, values: list[float] | list[int], cut: int = 0) -> float:
    (found,) = LAWS[kind].finish(state(kind, values, cut), 1).to_pylist()
    return float(found)


@given(st.lists(FINITE, min_size=1, max_size=8), st.integers(0, 8))
def test_squares_of_any_floats_are_added_exactly_and_rounded_once(values: list[float], cut: int) -> None:
    exact = rounded(sum((Fraction(value) ** 2 for value in values), Fraction(0)))
    assert finished("sumsq", values, cut) == exact


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.integers(0, 8))
def test_the_variance_of_any_integers_is_exact(values: list[int], cut: int) -> None:
    mean = Fraction(sum(values), len(values))
    exact = rounded(sum(((value - mean) ** 2 for value in values), Fraction(0)))
    (found,) = central_squares(state("sum", values, cut), state("sumsq", values, cut))
    assert found == exact


def test_the_distance_of_near_numbers_does_not_cancel() -> None:
    values = [1e16, 1e16 + 2, 1e16 + 4]
    assert central_squares(state("sum", values), state("sumsq", values)).tolist() == [8.0]


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_not_finite_has_no_variance(odd: float) -> None:
    values = [1.0, odd]
    assert math.isnan(central_squares(state("sum", values), state("sumsq", values))[0])


def test_sums_over_other_values_are_refused() -> None:
    with pytest.raises(DataError, match="same values"):
        central_squares(state("sum", [1.0, 2.0]), state("sumsq", [1.0]))


def test_beyond_the_largest_float_is_infinity() -> None:
    assert rounded(Fraction(10) ** 400) == math.inf
    assert rounded(-(Fraction(10) ** 400)) == -math.inf
