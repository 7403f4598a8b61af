"""Functions of numbers: trigonometry, bits and other bases."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('bit_count(255)', 8),
        ('bit_count(-1)', 64),
        ('bit_get(5, 0)', 1),
        ('bit_get(5, 1)', 0),
        ('bin(10)', '1010'),
        ('bin(0)', '0'),
        ("conv('ff', 16, 10)", '255'),
        ("conv('100', 2, 16)", '4'),
        ("conv('zz', 10, 2)", '0'),
        ("conv('10', 99, 10)", None),
        ('width_bucket(5.3, 0.2, 10.6, 5)', 3),
        ('width_bucket(-2.1, 1.3, 3.4, 3)', 0),
        ('width_bucket(8.1, 0.0, 5.7, 4)', 5),
        ("nanvl(cast('NaN' AS double), 7.0D)", 7.0),
        ('nanvl(1.5D, 7.0D)', 1.5),
        ('equal_null(cast(null AS bigint), cast(null AS bigint))', True),
        ('equal_null(1, cast(null AS bigint))', False),
        ('try_divide(1, 0)', None),
        ('try_add(9223372036854775807, 1)', None),
        ('shiftleft(1, 4)', 16),
        ('degrees(pi())', 180.0),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_angles_are_radians() -> None:
    assert values("sin(d)", d=[0.0, None, math.pi / 2]) == [0.0, None, 1.0]
    assert values("acos(d)", d=[1.0])[0] == 0.0
    assert math.isnan(values("acos(d)", d=[2.0])[0])
