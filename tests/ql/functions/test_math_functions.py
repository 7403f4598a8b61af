"""Functions of numbers that round, divide and compare, as Spark does."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('abs(-3)', 3),
        ('abs(-2.5D)', 2.5),
        ('abs(cast(null AS bigint))', None),
        ('-(5)', -5),
        ('ceil(1.2D)', 2),
        ('ceil(-1.2D)', -1),
        ('floor(-1.2D)', -2),
        ('floor(7)', 7),
        ('round(2.5D)', 3.0),
        ('round(-2.5D)', -3.0),
        ('bround(2.5D)', 2.0),
        ('bround(3.5D)', 4.0),
        ('round(1234, -2)', 1200),
        ('round(2.675D, 2)', 2.68),
        ('log(2, 8)', 3.0),
        ('log(0)', None),
        ('sign(-7)', -1.0),
        ('sign(0.0D)', 0.0),
        ('mod(-7, 3)', -1),
        ('mod(7, 0)', None),
        ('pmod(-7, 3)', 2),
        ('-7 % 3', -1),
        ('sqrt(16)', 4.0),
        ('power(2, 10)', 1024.0),
        ('greatest(1, 3, 2)', 3),
        ('least(cast(null AS bigint), 3)', 3),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_not_a_number_and_infinities_go_through() -> None:
    found = values("abs(d)", d=[math.nan, -math.inf, None])
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, None]
