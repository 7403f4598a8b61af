"""Covariance is exact: rounded once, whatever the order, the shape of the tree, the size of the numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS
from elfmesh.errors import DataError

LAW = LAWS["covariance"]
NUMBERS = st.one_of(
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1, 1).map(lambda x: 1e9 + x),
    st.sampled_from([5e-324, 1.7e308, -1.7e308, 2.0**-600, 2.0**600, 0.0, -0.0]),
)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2)), max_size=25)
Pair = tuple[float | None, float | None, int]


def exact(pairs: list[Pair], group: int) -> float | None:
    both = [
        (Fraction(x), Fraction(y)) for x, y, at in pairs if at == group and x is not None and y is not None
    ]
    if not both:
        return None
    sums = [sum(column, Fraction(0)) for column in zip(*both, strict=True)]
    value = sum((x * y for x, y in both), Fraction(0)) - sums[0] * sums[1] / len(both)
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def columns(pairs: list[Pair]) -> tuple[tuple[pa.Array, pa.Array], np.ndarray]:
    given = tuple(pa.array([pair[at] for pair in pairs], pa.float64()) for at in range(2))
    return (given[0], given[1]), np.array([pair[2] for pair in pairs], np.int64)


@settings(max_examples=60, deadline=None)
@given(pairs=PAIRS, cut=st.integers(0, 25))
@example(pairs=[(1.7e308, 1.7e308, 0), (-1.7e308, 1.7e308, 0)], cut=1)
@example(pairs=[(5e-324, 5e-324, 0), (0.0, 1e300, 0)], cut=0)
def test_it_is_rounded_once_however_it_is_merged(pairs: list[Pair], cut: int) -> None:
    values, ids = columns(pairs)
    whole = LAW.lift(values, ids, 3)
    LAW.check(whole, 3)
    expected = [exact(pairs, group) for group in range(3)]
    assert LAW.finish(whole, 3).to_pylist() == expected
    states = [LAW.lift(*columns(part), 3) for part in (pairs[cut:], pairs[:cut])]
    merged = LAW.merge(states, np.tile(np.arange(3), 2), 3)
    assert LAW.finish(merged, 3).to_pylist() == expected
    back = LAW.merge([merged, LAW.negate(states[0])], np.tile(np.arange(3), 2), 3)
    assert LAW.finish(back, 3).to_pylist() == [exact(pairs[:cut], group) for group in range(3)]


def test_what_is_not_finite_makes_it_nan_until_it_is_taken_back() -> None:
    values, ids = columns([(1.0, math.inf, 0), (math.nan, 2.0, 1), (1.0, 2.0, 2), (None, math.nan, 2)])
    state = LAW.lift(values, ids, 3)
    found = LAW.finish(state, 3).to_pylist()
    assert [math.isnan(each) for each in found] == [True, True, False]
    taken = LAW.merge([state, LAW.negate(state)], np.tile(np.arange(3), 2), 3)
    assert LAW.finish(taken, 3).to_pylist() == [None, None, None]


def test_text_has_none() -> None:
    with pytest.raises(DataError, match="over string values"):
        LAW.lift((pa.array(["a"]), pa.array([1.0])), np.zeros(1, np.int64), 1)
