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


FAR = (
    "array(date_add(DATE'1970-01-01', 3000000), NULL, DATE'1970-01-01', date_add(DATE'1970-01-01', -800000))"
)
FAR_TIMES = "array(timestamp_micros(1000000000000000000), timestamp_micros(0))"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"CAST({FAR}[0] AS STRING)", "+10183-09-21"),
        (f"CAST(array_min({FAR}) AS STRING)", "-0221-09-04"),
        (f"CAST(sort_array({FAR}, false)[0] AS STRING)", "+10183-09-21"),
        (f"array_position({FAR}, DATE'1970-01-01')", 3),
        (f"size(array_distinct(concat({FAR}, {FAR})))", 4),
        (f"CAST(slice({FAR}, 4, 1)[0] AS STRING)", "-0221-09-04"),
        (f"CAST(array_append({FAR}, DATE'2024-01-01')[0] AS STRING)", "+10183-09-21"),
        (f"CAST(map('a', {FAR}[0])['a'] AS STRING)", "+10183-09-21"),
        (f"map({FAR}[0], 'a')[date_add(DATE'1970-01-01', 3000000)]", "a"),
        (f"CAST(map_from_arrays(array(1, 2, 3, 4), {FAR})[4] AS STRING)", "-0221-09-04"),
        (f"CAST(transform_values(map('a', 1), (k, v) -> {FAR}[0])['a'] AS STRING)", "+10183-09-21"),
        (
            f"CAST(map_zip_with(map(1, {FAR}), map(1, {FAR}), (k, a, b) -> concat(a, b))[1][7] AS STRING)",
            "-0221-09-04",
        ),
        (f"unix_micros(array_max({FAR_TIMES}))", 10**18),
        (f"unix_micros(array_sort({FAR_TIMES})[1])", 10**18),
        (f"unix_micros(map('t', {FAR_TIMES}[0])['t'])", 10**18),
        (f"arrays_overlap({FAR_TIMES}, {FAR_TIMES})", True),
    ],
)
def test_times_outside_of_pythons_years_are_elements(expression: str, expected: Any) -> None:
    """A record's number of days may lead beyond the years 1 to 9999, which Python has."""
    assert values(expression) == [expected]
