"""Lists made of other lists and elements."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql.values.growth import TooLarge
from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("array_join(array_append(array(1, 2), 3), ',')", "1,2,3"),
        ("array_join(array_prepend(array(1, 2), NULL), ',', '-')", "-,1,2"),
        ("array_join(array_append(array(1), 1.5D), ',')", "1.0,1.5"),
        ("array_append(NULL, 1) IS NULL", True),
        ("array_join(array_insert(array(1, 2), 2, 9), ',')", "1,9,2"),
        ("array_join(array_insert(array(1, 2), -1, 9), ',')", "1,2,9"),
        ("array_join(array_insert(array(1, 2), -2, 9), ',')", "1,9,2"),
        ("array_join(array_insert(array(1), 3, 9), ',', '-')", "1,-,9"),
        ("array_join(array_insert(array(1), -4, 9), ',', '-')", "9,-,-,1"),
        ("array_insert(array(1), 0, 9) IS NULL", True),
        ("array_insert(array(1), 1000000000, 9) IS NULL", True),
        ("get(array(1, 2), 1)", 2),
        ("get(array(1, 2), 2)", None),
        ("get(array(1, 2), -1)", None),
        ("array_join(array_union(array(2, 1, 2), array(3, 1)), ',')", "2,1,3"),
        ("array_join(array_intersect(array(2, NULL, 2, 1), array(NULL, 2)), ',', '-')", "2,-"),
        ("array_join(array_except(array(2, 1, 2), array(1)), ',')", "2"),
        ("arrays_overlap(array(1, NULL), array(2))", None),
        ("arrays_overlap(array(1, NULL), array(1))", True),
        ("arrays_overlap(array(1, NULL), array())", False),
    ],
)
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


@pytest.mark.parametrize("expression", ["array_append(array(1), true)", "array_union(array(1), array(true))"])
def test_elements_of_two_types_are_refused(expression: str) -> None:
    with pytest.raises(QueryError, match="mixes BIGINT and BOOLEAN"):
        values(f"size({expression})")


LISTED = {
    "l": [[1, 2], [], None, [3], [None]],
    "m": [[9], [8, 7], [6], None, [5]],
    "s": ["a,b", "", None, "c", "d"],
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("concat(l, m, l)", [[1, 2, 9, 1, 2], [8, 7], None, None, [None, 5, None]]),
        ("l || array(0)", [[1, 2, 0], [0], None, [3, 0], [None, 0]]),
        ("concat(array(0.5D), l)", [[0.5, 1.0, 2.0], [0.5], None, [0.5, 3.0], [0.5, None]]),
        ("concat(split(s, ','), array('x'))", [["a", "b", "x"], ["", "x"], None, ["c", "x"], ["d", "x"]]),
        ("concat(l)", [[1, 2], [], None, [3], [None]]),
        ("size(concat(array(), l))", [2, 0, -1, 1, 1]),
        ("flatten(array(l, m))", [[1, 2, 9], [8, 7], None, None, [None, 5]]),
        ("flatten(array(array(l), array(m)))[1][0]", [9, 8, 6, None, 5]),
        ("flatten(transform(m, x -> array(x, 0)))", [[9, 0], [8, 0, 7, 0], [6, 0], None, [5, 0]]),
        ("array_remove(l, 1)", [[2], [], None, [3], [None]]),
        ("array_remove(l, m[0])", [[1, 2], [], None, None, [None]]),
        ("array_remove(l, NULL)", [None] * 5),
        ("reverse(concat(l, m))", [[9, 2, 1], [7, 8], None, None, [5, None]]),
    ],
)
def test_lists_are_put_together(expression: str, expected: list[Any]) -> None:
    assert values(expression, **LISTED) == expected


def test_lists_that_grow_beyond_the_limit_are_refused_before_they_are_made() -> None:
    doubled = "aggregate(split(repeat('x,', 40), ','), l, (acc, e) -> concat(acc, acc))"
    with pytest.raises(TooLarge):
        values(f"size({doubled})", l=[[1]])
