"""Functions that search in a string, and LIKE, give the values of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("instr('banana', 'an')", 2),
        ("instr('banana', 'x')", 0),
        ("locate('an', 'banana', 3)", 4),
        ("locate('', 'abc')", 1),
        ("startswith('abc', 'ab')", True),
        ("endswith('abc', 'ab')", False),
        ("contains('abc', '')", True),
        ("locate('a', 'banana', 0)", 0),
        ("position('n', 'banana')", 3),
        ("contains('abc', cast(null AS string))", None),
        ("'a_c' LIKE 'a\\\\_c'", True),
        ("'abc' LIKE 'a%'", True),
        ("'abc' LIKE '%b'", False),
        ("'abc' LIKE 'a_c'", True),
        ("'ABC' ILIKE '%b%'", True),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_what_is_searched_for_may_differ_by_row() -> None:
    assert values("instr(s, part)", s=["abc", "abc", None], part=["c", None, "a"]) == [3, None, None]
    assert values("contains(s, part)", s=["abc", "abc"], part=["bc", "x"]) == [True, False]
