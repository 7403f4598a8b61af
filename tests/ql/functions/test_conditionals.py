"""Functions that choose among their arguments by null."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('coalesce(cast(null AS bigint), 2, 3)', 2),
        ('coalesce(cast(null AS bigint), cast(null AS bigint))', None),
        ("ifnull(cast(null AS string), 'x')", 'x'),
        ("nvl('a', 'x')", 'a'),
        ("nvl2(cast(null AS string), 'is', 'is not')", 'is not'),
        ("nvl2('', 'is', 'is not')", 'is'),
        ('nullif(3, 3)', None),
        ('nullif(3, 4)', 3),
        ('nullifzero(0)', None),
        ('nullifzero(5)', 5),
        ('zeroifnull(cast(null AS bigint))', 0),
        ('zeroifnull(5)', 5),
        ('isnull(cast(null AS string))', True),
        ("isnotnull('')", True),
        ("isnan(cast('NaN' AS double))", True),
        ('isnan(1.0D)', False),
        ('isnan(cast(null AS double))', False),
        ("if(1 > 2, 'a', 'b')", 'b'),
        ("if(cast(null AS boolean), 'a', 'b')", 'b'),
        ('CASE WHEN false THEN 1 END', None),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", 'b'),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_each_row_has_its_own_first_value() -> None:
    columns = {"a": [1, None, None], "b": [10, 20, None]}
    assert values("coalesce(a, b, -1)", **columns) == [1, 20, -1]
    assert values("nullif(a, b)", a=[1, 2, None], b=[1, 3, 4]) == [None, 2, None]
