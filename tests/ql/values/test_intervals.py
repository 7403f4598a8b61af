"""Intervals: their text, literals from one unit to another, and rounded products."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.intervals import divided, interval_text, intervals_as_text, multiplied, span_us
from elfmesh.ql.values.types import BIGINT, DOUBLE, DURATION

MINUTE = 60_000_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
US = st.integers(-(2**62), 2**62)


@pytest.mark.parametrize(
    ("text", "first", "last", "expected"),
    [
        ("1 02:03:04.5", "DAY", "SECOND", DAY + 2 * HOUR + 3 * MINUTE + 4_500_000),
        (" -1 02:03 ", "DAY", "MINUTE", -(DAY + 2 * HOUR + 3 * MINUTE)),
        ("+1 02", "DAY", "HOUR", DAY + 2 * HOUR),
        ("100:59", "HOUR", "MINUTE", 100 * HOUR + 59 * MINUTE),
        ("61:00.0000019", "MINUTE", "SECOND", 61 * MINUTE + 1),
        ("1 24:00", "DAY", "MINUTE", None),
        ("10:60", "HOUR", "MINUTE", None),
        ("10:59:60", "HOUR", "SECOND", None),
        ("1 02:03", "DAY", "SECOND", None),
        ("1-02", "DAY", "HOUR", None),
        ("1", "SECOND", "DAY", None),
        ("1-2", "YEAR", "MONTH", None),
    ],
)
def test_a_literal_with_two_units(text: str, first: str, last: str, expected: int | None) -> None:
    assert span_us(text, first, last) == expected


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (0, "0 00:00:00"), (-1, "-0 00:00:00.000001"), (90_061_500_000, "1 01:01:01.5"),
        (-(2**63), "-106751991 04:00:54.775808"),
    ],
)  # fmt: skip
def test_the_text_is_the_one_of_spark(us: int, expected: str) -> None:
    assert interval_text(us) == f"INTERVAL '{expected}' DAY TO SECOND"


@given(US)
def test_a_text_is_a_literal_of_the_same_length(us: int) -> None:
    assert span_us(interval_text(us).split("'")[1], "DAY", "SECOND") == us


def intervals(*values: int | None) -> pa.Array:
    return pa.array(values, BIGINT).view(DURATION)


@given(US, st.one_of(st.integers(-(2**40), 2**40), st.decimals("-1e6", "1e6", places=3)))
def test_a_quotient_is_rounded_half_up(us: int, by: int | Decimal) -> None:
    kind = BIGINT if isinstance(by, int) else pa.decimal128(12, 3)
    (found,) = divided(intervals(us), pa.array([by], kind)).view(pa.int64()).to_pylist()
    if not by:
        assert found is None
        return
    exact = Fraction(us) / Fraction(by)
    nearest = int(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    assert found == (nearest if abs(nearest) < 2**63 else None)


@pytest.mark.parametrize(
    ("us", "by", "kind", "product", "quotient"),
    [
        (3, 0.5, DOUBLE, 2, 6), (-3, 0.5, DOUBLE, -2, -6), (2**62, 2.0, DOUBLE, None, 2**61),
        (1, 0.0, DOUBLE, 0, None), (1, float("nan"), DOUBLE, None, None), (None, 1.0, DOUBLE, None, None),
        (2**62, 2, BIGINT, None, 2**61), (5, None, BIGINT, None, None), (-5, 2, BIGINT, -10, -3),
        (-(2**63), 1, BIGINT, -(2**63), -(2**63)), (-(2**63), -1, BIGINT, None, None),
        (-(2**63), 2, BIGINT, None, -(2**62)), (3, Decimal("0.5"), pa.decimal128(2, 1), 2, 6),
    ],
)  # fmt: skip
def test_products_and_quotients(
    us: int | None, by: float | None, kind: pa.DataType, product: int | None, quotient: int | None
) -> None:
    for function, expected in ((multiplied, product), (divided, quotient)):
        assert function(intervals(us), pa.array([by], kind)).view(pa.int64()).to_pylist() == [expected]


def test_results_have_intervals_as_text_at_every_depth() -> None:
    one = timedelta(days=1)
    items = pa.list_(pa.struct([("item", DURATION), ("n", BIGINT)]))
    table = pa.table(
        {
            "plain": pa.array([one, None], DURATION),
            "list": pa.array([[one, None], None], pa.list_(DURATION)),
            "items": pa.array([None, [{"item": one, "n": 1}]], items),
            "n": [1, 2],
        }
    )
    text = "INTERVAL '1 00:00:00' DAY TO SECOND"
    assert intervals_as_text(table).to_pylist() == [
        {"plain": text, "list": [text, None], "items": None, "n": 1},
        {"plain": None, "list": None, "items": [{"item": text, "n": 1}], "n": 2},
    ]
