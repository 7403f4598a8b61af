"""Numbers and values written by a pattern, as Java does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('format_number(12332.123456, 4)', '12,332.1235'),
        ('format_number(0.5D, 0)', '0'),
        ('format_number(1.5D, 0)', '2'),
        ('format_number(12332, 2)', '12,332.00'),
        ('format_number(5, -1)', None),
        ("format_number(1234567, '#,###.0')", '1,234,567.0'),
        ("format_string('%s is %d', 'a', 7)", 'a is 7'),
        ("printf('%05d', 42)", '00042'),
        ("printf('%x', 255)", 'ff'),
        ("printf('%.2f', 1.005D)", '1.01'),
        ("printf('%%')", '%'),
        ("printf('%s', cast(null AS string))", 'null'),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_each_row_is_written_by_itself() -> None:
    assert values("format_number(d, 1)", d=[1234.56, None, -0.04]) == ["1,234.6", None, "-0.0"]
