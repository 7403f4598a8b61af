"""Sums of integers, decimals and what they turn into."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given

from elfmesh.cbt.laws import LAWS
from elfmesh.errors import DataError
from tests.cbt.laws.values import FLOATS, INTS, lift, merge, result


def test_integer_sums_widen_to_decimal_instead_of_wrapping() -> None:
    state = merge("sum", *(lift("sum", pa.array([2**63 - 1])) for _ in range(4)))
    finished = LAWS["sum"].finish(state, 1)
    assert finished.type == pa.decimal128(38, 0)
    assert finished[0].as_py() == 4 * (2**63 - 1)
    back = merge("sum", state, LAWS["sum"].negate(lift("sum", pa.array([2**63 - 1] * 3))))
    assert LAWS["sum"].finish(back, 1).type == pa.int64()


@given(INTS, FLOATS)
def test_integers_stay_exact_when_a_sum_turns_float(
    ints: list[int | None], floats: list[float | None]
) -> None:
    law = LAWS["sum"]
    wide = law.promote(lift("sum", pa.array(ints, pa.int64())), pa.float64())
    finite = [value for value in floats if value is not None and math.isfinite(value)]
    got = law.finish(merge("sum", wide, lift("sum", pa.array(finite, pa.float64()))), 1)[0].as_py()
    present = [Fraction(value) for value in [*ints, *finite] if value is not None]
    if not present:
        assert got is None
        return
    total = sum(present, Fraction(0))
    try:
        assert got == total.numerator / total.denominator
    except OverflowError:
        assert math.isinf(got)


def test_a_sum_of_durations_is_a_duration_and_null_beyond_64_bits() -> None:
    law, most = LAWS["sum"], pa.array([2**63 - 1], pa.int64()).view(pa.duration("us"))
    state = merge("sum", lift("sum", most), lift("sum", pa.array([-5, None], pa.duration("us"))))
    found = law.finish(state, 1)
    assert (found.type, found.view(pa.int64())[0].as_py()) == (pa.duration("us"), 2**63 - 6)
    beyond = law.finish(merge("sum", state, lift("sum", most)), 1)
    assert (beyond.type, beyond.null_count) == (pa.duration("us"), 1)
    with pytest.raises(DataError, match="over duration"):
        LAWS["sumsq"].value_type(most, "x")


def test_sums_of_text_are_refused_with_the_aggregate_named() -> None:
    with pytest.raises(DataError, match="'total' is over string"):
        LAWS["sum"].value_type(pa.array(["1"]), "total")


def test_decimal_sums_have_ten_digits_more_or_all_if_one_needs_them() -> None:
    state = lift("sum", pa.array([Decimal("1.50"), None, Decimal("2.25")]))
    assert LAWS["sum"].finish(state, 1).type == pa.decimal128(13, 2)
    wide = lift("sum", pa.array([Decimal("9.99")] * 4))
    for _ in range(36):
        wide = merge("sum", wide, wide)
    assert LAWS["sum"].finish(wide, 1).type == pa.decimal128(38, 2)
    assert result(wide) == Decimal("9.99") * 4 * 2**36
    assert result(state) == Decimal("3.75")
