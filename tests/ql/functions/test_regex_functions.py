"""Matches of a pattern: how many, where, which."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.errors import QueryError
from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("regexp_extract_all('a1b22', '([0-9]+)', 1)", ['1', '22']),
        ("regexp_extract_all('none', '([0-9]+)', 1)", []),
        ("regexp_count('banana', 'an')", 2),
        ("regexp_count('banana', 'x')", 0),
        ("regexp_substr('a1b22', '[0-9]+')", '1'),
        ("regexp_substr('none', '[0-9]+')", None),
        ("regexp_instr('a1b22', '[0-9][0-9]')", 4),
        ("regexp_instr('none', '[0-9]')", 0),
        ("regexp_count(cast(null AS string), 'a')", None),
        ("regexp_extract('id=42;', 'id=([0-9]+)', 1)", '42'),
        ("regexp_extract('none', 'id=([0-9]+)', 1)", ''),
        ("regexp_replace('a1b22', '[0-9]+', '#')", 'a#b#'),
        ("regexp_replace('ab', '(a)(b)', '$2$1')", 'ba'),
        ("'abc' RLIKE 'b.'", True),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_an_empty_match_is_counted_between_all_characters() -> None:
    assert values("regexp_count(s, 'x*')", s=["ab", "", None]) == [3, 1, None]


def test_a_pattern_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(QueryError) as caught:
        values("regexp_count('a', '(')")
    assert caught.value.line == 1
