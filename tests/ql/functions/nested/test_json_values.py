"""JSON texts into typed values and back: what does not fit is null, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("from_json('[1, 2]', 'ARRAY<BIGINT>')", [1, 2]),
        ('from_json(\'[1, "x"]\', \'ARRAY<BIGINT>\')', None),
        ('from_json(\'{"a": 1}\', \'STRUCT<a: BIGINT, b: STRING>\').a', 1),
        ('from_json(\'{"a": "x", "b": "y"}\', \'STRUCT<a: BIGINT, b: STRING>\').b', 'y'),
        ("from_json('{broken', 'ARRAY<BIGINT>')", None),
        ('to_json(array(1, 2))', '[1,2]'),
        ("to_json(map('a', 1))", '{"a":1}'),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_one_text_that_does_not_fit_costs_no_neighbour() -> None:
    texts = ["[1]", "[1.5]", "x", None, "[]"]
    assert values("from_json(s, 'ARRAY<BIGINT>')", s=texts) == [[1], None, None, None, []]
