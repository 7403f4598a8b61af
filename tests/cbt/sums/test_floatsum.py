from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elfmesh.cbt.sums import floatsum
from elfmesh.cbt.sums.exactsum import ExactSums

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTS = st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1)


def rounded(total: Fraction) -> float:
    """To nearest, ties to even: what Python's true division of integers does."""
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def one_group(count: int) -> np.ndarray:
    return np.zeros(count, np.intp)


def lift(values: list[float]) -> floatsum.Limbs:
    sums = ExactSums()
    sums.add_floats(np.array(values, np.float64), one_group(len(values)), 1)
    return sums.limbs(1)


def merge(*parts: floatsum.Limbs) -> floatsum.Limbs:
    """Into one group; a part may have several rows."""
    sums = ExactSums()
    for limbs in parts:
        sums.merge(limbs, one_group(max((len(column) for column in limbs.values()), default=0)), 1)
    return sums.limbs(1)


@given(st.lists(FLOATS, max_size=30))
@example([5e-324, -5e-324, 1.7976931348623157e308, 1.0])
@example([1e16, 1.0, -1e16])
@example([2.0**53, 1.0, 2.0**-1000])  # a tie broken by a bit a thousand places below
@example([1.7976931348623157e308, 1.7976931348623157e308])
@example([-2.2250738585072014e-308, 5e-324])
@example([0.1] * 10)
def test_float_sums_equal_the_rounded_fraction(values: list[float]) -> None:
    limbs = lift(values)
    total = sum((Fraction(value) for value in values), Fraction(0))
    assert floatsum.exact(limbs, 0) == total
    assert floatsum.to_floats(limbs, 1)[0] == rounded(total)


@given(st.lists(FLOATS, max_size=12), st.lists(FLOATS, max_size=12), st.randoms(use_true_random=False))
def test_float_sums_do_not_depend_on_order_or_shape(
    left: list[float], right: list[float], rng: object
) -> None:
    whole = floatsum.to_floats(lift(left + right), 1)
    merged = merge(lift(right[::-1]), lift(left))
    assert floatsum.to_floats(merged, 1).tobytes() == whole.tobytes()


@given(st.lists(FLOATS, max_size=12), st.lists(FLOATS, max_size=12))
def test_subtracting_gives_back_the_rest_exactly(left: list[float], right: list[float]) -> None:
    rest = merge(lift(left + right), floatsum.negate(lift(right)))
    assert floatsum.exact(rest, 0) == sum(map(Fraction, left), Fraction(0))


@given(st.lists(st.tuples(INTS, st.integers(0, 2)), max_size=40))
@example([(2**63 - 1, 0)] * 3)
@example([(-(2**63), 1)] * 5)
@example([(2**63 - 1, 0), (1, 0), (-1, 0)])
def test_integer_sums_never_wrap(rows: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    ids = np.array([group for _, group in rows], np.intp)
    sums = ExactSums()
    sums.add_ints(values, ids, 3)
    result = floatsum.to_integers(sums.limbs(3), 3)
    want = [sum(value for value, group in rows if group == wanted) for wanted in range(3)]
    assert [int(value) for value in result.to_pylist()] == want
    fits = all(-(2**63) <= value < 2**63 for value in want)
    assert str(result.type) == ("int64" if fits else "decimal128(38, 0)")


@given(st.lists(DECIMALS, max_size=20))
@example([10**38 - 1, 1])
@example([-(10**38) + 1, -1])
@example([-1, 1, 2**64, -(2**64)])
def test_decimal_sums_are_exact_and_widen_beyond_38_digits(unscaled: list[int]) -> None:
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in unscaled)
    words = np.frombuffer(raw, "<i8").reshape(-1, 2)
    sums = ExactSums()
    sums.add_decimals(words, one_group(len(unscaled)), 1)
    result = floatsum.to_decimals(sums.limbs(1), 1, 0)
    assert int(result[0].as_py()) == sum(unscaled)
    assert str(result.type) == ("decimal128(38, 0)" if abs(sum(unscaled)) < 10**38 else "decimal256(76, 0)")


@given(
    st.lists(st.dictionaries(st.integers(-34, 33), INTS, max_size=6), min_size=1, max_size=5),
)
def test_limbs_at_the_edge_of_int64_are_carried_not_wrapped(rows: list[dict[int, int]]) -> None:
    # What a peer may send: any int64 in any limb.
    numbers = sorted({number for row in rows for number in row})
    limbs = {number: np.array([row.get(number, 0) for row in rows], np.int64) for number in numbers}
    want = [floatsum.exact(limbs, row) for row in range(len(rows))]
    carried = floatsum.carry(limbs)
    assert [floatsum.exact(carried, row) for row in range(len(rows))] == want
    assert [*floatsum.to_floats(limbs, len(rows))] == [rounded(value) for value in want]
    assert floatsum.exact(merge(limbs), 0) == sum(want, Fraction(0))


def test_typical_sums_need_few_limbs() -> None:
    values = np.random.default_rng(1).random(1000) * 100
    sums = ExactSums()
    sums.add_floats(values, one_group(1000), 1)
    limbs = sums.limbs(1)
    assert len(limbs) <= 4
    assert floatsum.to_floats(limbs, 1)[0] == math.fsum(values)
    sums.clear()
    sums.add_ints(np.arange(1000), one_group(1000), 1)
    assert list(sums.limbs(1)) == [0]


def test_a_sum_beyond_76_digits_is_refused_not_wrapped() -> None:
    with pytest.raises(OverflowError):
        floatsum.to_decimals({8: np.array([5])}, 1, 0)


def test_no_rows_and_no_limbs_sum_to_zero() -> None:
    assert floatsum.to_floats({}, 2).tolist() == [0.0, 0.0]
    assert floatsum.to_integers({}, 2).to_pylist() == [0, 0]
    assert floatsum.carry({}) == {}


@given(st.lists(st.lists(FLOATS, max_size=6), min_size=1, max_size=4), st.sampled_from([-34, -2, 0, 3, 31]))
def test_few_sums_are_rounded_like_many(groups: list[list[float]], shift: int) -> None:
    sums = ExactSums()
    for group, values in enumerate(groups):
        sums.add_floats(np.array(values, np.float64), np.full(len(values), group), len(groups))
    limbs = sums.limbs(len(groups))
    moved = {number + shift - min(limbs): column for number, column in limbs.items()} if limbs else {}
    many = {number: np.resize(column, 40) for number, column in moved.items()}  # beyond FEW_ROWS
    few = floatsum.to_floats(moved, len(groups))
    assert few.tobytes() == floatsum.to_floats(many, 40)[: len(groups)].tobytes()


def test_whole_sums_in_one_limb_are_read_as_they_are() -> None:
    limb = np.array([0, -1, 2**63 - 1, -(2**63)])
    assert floatsum.to_integers({0: limb}, 4).to_pylist() == limb.tolist()
    assert floatsum.to_integers({0: limb, 1: np.zeros(4, np.int64)}, 4).to_pylist() == limb.tolist()
