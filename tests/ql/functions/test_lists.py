"""Functions of lists: positions count from 1, a null element is one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('array_contains(array(1, 2), 2)', True),
        ('array_contains(array(1, cast(null AS bigint)), 2)', None),
        ("array_position(array('a', 'b'), 'b')", 2),
        ("array_position(array('a', 'b'), 'x')", 0),
        ('sort_array(array(3, 1, 2))', [1, 2, 3]),
        ('sort_array(array(3, cast(null AS bigint), 2), false)', [3, 2, None]),
        ('slice(array(1, 2, 3, 4), 2, 2)', [2, 3]),
        ('slice(array(1, 2, 3, 4), -2, 2)', [3, 4]),
        ("array_join(array('a', cast(null AS string), 'c'), '-')", 'a-c'),
        ("array_join(array('a', cast(null AS string)), '-', '?')", 'a-?'),
        ('size(array(1, 2, 3))', 3),
        ('element_at(array(1, 2, 3), -1)', 3),
        ('array_distinct(array(1, 1, 2))', [1, 2]),
        ('array_max(array(1, 5, cast(null AS bigint)))', 5),
        ("json_array_length('[1, [2, 3]]')", 2),
        ('json_array_length(\'{"a": 1}\')', None),
        ('json_object_keys(\'{"a": 1, "b": 2}\')', ['a', 'b']),
        ('get_json_object(\'{"a": {"b": [1, 2]}}\', \'$.a.b[1]\')', '2'),
        ("get_json_object('{broken', '$.a')", None),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_lists_of_a_column_keep_their_rows() -> None:
    texts = ["3,1", None, "", "b,a"]
    assert values("array_join(sort_array(split(s, ',')), '-')", s=texts) == ["1-3", None, "", "a-b"]
    assert values("array_contains(split(s, ','), '1')", s=texts) == [True, None, False, False]
