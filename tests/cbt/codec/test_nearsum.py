"""Exact float sums in short: whatever comes back stands for the very same numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elfmesh.cbt.codec import nearsum
from elfmesh.cbt.kernel import ANY_FLOAT, ShortSums
from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.sums.floatsum import LIMB_MIN, Limbs, exact


def limbs_of(groups: list[list[float]]) -> Limbs:
    """As sums of floats come: signed pieces, not carried."""
    block = np.zeros((len(groups), 1 + 70), np.int64)
    for group, values in enumerate(groups):
        twin.add_floats(np.full(len(values), group), np.array(values, np.float64), block, LIMB_MIN)
    return {
        LIMB_MIN + place: np.ascontiguousarray(block[:, 1 + place])
        for place in range(70)
        if block[:, 1 + place].any()
    }


def assert_same(limbs: Limbs, back: Limbs, rows: int) -> None:
    for row in range(rows):
        assert exact(back, row) == exact(limbs, row)


CENTS = st.integers(-10_000_000, 10_000_000).map(lambda cents: cents / 100)
MICROS = st.integers(-1_000, 10**12).map(lambda micros: micros / 10**6)
USUAL = st.floats(-1e6, 1e6, allow_subnormal=False)
ANY = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("values", [CENTS, MICROS, USUAL, ANY], ids=["cents", "micros", "usual", "any"])
@given(data=st.data())
def test_short_sums_are_the_same_numbers(values: st.SearchStrategy[float], data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.lists(values, max_size=6), min_size=1, max_size=8))
    limbs = limbs_of(groups)
    sums = nearsum.gather(limbs)
    if sums is not None:
        assert_same(limbs, nearsum.spread(sums), len(groups))


@given(
    st.lists(
        st.dictionaries(st.integers(-4, 4), st.integers(-(2**62), 2**62) | st.integers(-9, 9), min_size=2),
        min_size=1,
        max_size=5,
    )
)
@example([{-1: 1 << 62, 0: -(1 << 30)}, {-1: 1, 0: 0}])
def test_limbs_that_were_never_carried_too(rows: list[dict[int, int]]) -> None:
    limbs = {n: np.array([row.get(n, 0) for row in rows], np.int64) for n in sorted(set().union(*rows))}
    sums = nearsum.gather(limbs)
    if sums is not None:
        back = nearsum.spread(sums)
        assert_same(limbs, back, len(rows))
        again = nearsum.gather(back)
        if again is not None:
            assert_same(limbs, nearsum.spread(again), len(rows))


def test_sums_of_cents_take_few_bits() -> None:
    rng = np.random.default_rng(5)
    groups = [np.round(np.exp(rng.normal(2, 1, rng.integers(1, 9))), 2).tolist() for _ in range(500)]
    sums = nearsum.gather(limbs_of(groups))
    assert sums is not None
    assert sums.digits == 2
    assert sums.near.tolist() == [round(sum(Fraction(str(v)) for v in group) * 100) for group in groups]
    assert np.abs(sums.rest).max() < 1 << 13


def test_a_single_value_leaves_nothing_whatever_it_is() -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(0, 1, 300)
    sums = nearsum.gather(limbs_of([[value] for value in values]))
    assert sums is not None
    assert sums.digits == ANY_FLOAT
    assert sums.near.view(np.float64).tolist() == values.tolist()
    assert not sums.rest.any()


def test_sums_far_apart_stay_limbs() -> None:
    assert nearsum.gather(limbs_of([[1e-300], [1e300]])) is None
    assert nearsum.gather({0: np.ones(3, np.int64)}) is None


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    st.integers(-3, 9),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1200, 1200),
)
def test_arbitrary_short_sums_are_refused_or_spread_to_their_exact_value(
    near: list[int], digits: int, rest: int, unit: int
) -> None:
    sums = ShortSums(np.array(near), digits, np.full(len(near), rest), unit)
    try:
        limbs = nearsum.spread(sums)
    except ValueError:
        return
    assert len(limbs) <= nearsum.SPREAD_LIMBS_MAX
    floats = sums.near.view(np.float64) if digits == ANY_FLOAT else sums.near / 10.0**digits
    for row, value in enumerate(floats.tolist()):
        assert exact(limbs, row) == Fraction(value) + rest * Fraction(2) ** unit


def added(groups: list[list[list[float]]]) -> None:
    """Each group's values come in several parts, whose sums in short are added up in short."""
    times = max(map(len, groups))
    parts = [[group[place] if place < len(group) else [0.0] for group in groups] for place in range(times)]
    short = [nearsum.gather(limbs_of(part)) for part in parts]
    if any(sums is None or sums.digits == ANY_FLOAT for sums in short):
        return
    units = [sums.unit for sums in short if sums is not None]
    digits = max(sums.digits for sums in short if sums is not None)
    together = ShortSums(
        np.concatenate([sums.near * 10 ** (digits - sums.digits) for sums in short if sums is not None]),
        digits,
        np.concatenate([sums.rest << (sums.unit - min(units)) for sums in short if sums is not None]),
        min(units),
    )
    rows = len(groups)
    result = nearsum.add_short(together, np.tile(np.arange(rows), times), rows, times)
    if result is not None:
        everything = [list(chain.from_iterable(group)) for group in groups]
        assert_same(limbs_of(everything), nearsum.spread(result), rows)


SEVERAL = st.lists(st.lists(CENTS, max_size=4), min_size=1, max_size=4)


@given(st.lists(SEVERAL, min_size=1, max_size=6))
# The decimals have lower bits than what is left of the sums; and a sum than what went into it.
@example([[[12.74, 29.21], [4.84]], [[32.37], [32.63, 9.08]]])
@example([[[0.1, 0.3], [0.1]], [[1e6], [-999_999.99]]])
@example([[[100000.01], [-100000.0]], [[0.5], [0.25]]])
def test_sums_in_short_add_up_in_short(groups: list[list[list[float]]]) -> None:
    added(groups)


def test_sums_in_short_that_might_not_fit_are_not_added() -> None:
    ids, near = np.zeros(2, np.int64), np.full(2, 1 << 50)
    assert nearsum.add_short(ShortSums(near, 2, np.zeros(2, np.int64), -46), ids, 1, 4) is None
    assert nearsum.add_short(ShortSums(near // 8, 2, np.full(2, 1 << 61), -46), ids, 1, 2) is None
    assert nearsum.add_short(ShortSums(near // 8, 2, np.ones(2, np.int64), -200), ids, 1, 2) is None
