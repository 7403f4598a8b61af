"""Functions of maps: entries keep their order, a key is there once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("element_at(map('a', 1, 'b', 2), 'b')", 2),
        ("map_contains_key(map('a', 1), 'b')", False),
        ("map_keys(map('a', 1, 'b', 2))", ['a', 'b']),
        ("map_values(map('a', 1, 'b', 2))", [1, 2]),
        ("element_at(map_from_arrays(array('a', 'b'), array(1, 2)), 'a')", 1),
        ("element_at(str_to_map('a:1,b:2'), 'b')", '2'),
        ("element_at(str_to_map('a=1;b', ';', '='), 'b')", None),
        ("size(map('a', 1, 'b', 2))", 2),
        ("map_keys(map_concat(map('a', 1), map('b', 2)))", ['a', 'b']),
        ("map('a', 1)['x']", None),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_a_map_of_each_row_is_its_own() -> None:
    assert values("element_at(map('k', n), 'k')", n=[1, None, 3]) == [1, None, 3]
    assert values("element_at(str_to_map(s), 'a')", s=["a:1", "b:2", None]) == ["1", None, None]
