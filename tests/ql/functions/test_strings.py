"""Functions of strings: positions count from 1, characters are not bytes, null in, null out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("length('héllo')", 5),
        ("length('')", 0),
        ('char_length(cast(null AS string))', None),
        ("reverse('abc é')", 'é cba'),
        ("concat('a', 'b', 'c')", 'abc'),
        ("concat('a', cast(null AS string))", None),
        ("'a' || 1", 'a1'),
        ("concat_ws('-', 'a', cast(null AS string), 'c')", 'a-c'),
        ("concat_ws('-')", ''),
        ("trim('  x y ')", 'x y'),
        ("btrim('xxaxx', 'x')", 'a'),
        ("ltrim('  a ')", 'a '),
        ("rtrim('  a ')", '  a'),
        ("substring('abcdef', 2, 3)", 'bcd'),
        ("substring('abcdef', -2)", 'ef'),
        ("substring('abcdef', 0, 2)", 'ab'),
        ("substring('abcdef', 9)", ''),
        ("substring('äöü', 2, 1)", 'ö'),
        ("left('abc', 2)", 'ab'),
        ("left('abc', -1)", ''),
        ("right('abc', 2)", 'bc'),
        ("split_part('a.b.c', '.', 2)", 'b'),
        ("split_part('a.b.c', '.', -1)", 'c'),
        ("split_part('a.b.c', '.', 9)", ''),
        ("replace('aXbX', 'X', 'yy')", 'ayybyy'),
        ("replace('abc', 'b')", 'ac'),
        ("translate('abcba', 'ab', 'x')", 'xcx'),
        ("upper('straße')", 'STRASSE'),
        ("lower('ÄB')", 'äb'),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_a_null_row_costs_no_neighbour() -> None:
    assert values("concat(s, '!')", s=["a", None, "c"]) == ["a!", None, "c!"]
    assert values("substring(s, n, 2)", s=["abcdef", None, "xy"], n=[2, 1, None]) == ["bc", None, None]


def test_a_text_is_split_by_a_pattern_up_to_a_limit() -> None:
    assert values("split('a1b22c', '[0-9]+')") == [["a", "b", "c"]]
    assert values("split('a,b,c', ',', 2)") == [["a", "b,c"]]
