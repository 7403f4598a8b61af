"""The second query of a UNION: its columns are taken by place, so their names need not differ."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.conftest import run


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("SELECT b, b FROM t", [1, 2, 2]),
        ("SELECT b AS x, b AS X FROM t", [1, 2, 2]),
        ("SELECT b, b FROM t UNION ALL SELECT a, b FROM t", [1, 1, 2, 2, 2]),
    ],
)
def test_names_of_the_second_query_may_be_equal(second: str, expected: list[int]) -> None:
    (table,) = run(
        f"SELECT a, c FROM (SELECT a, a AS c FROM t UNION ALL ({second}))", {"a": [1], "b": [2]}
    ).values()
    assert table.column_names == ["a", "c"]
    assert sorted(value for row in table.to_pylist() for value in row.values())[1:] == expected


def test_names_of_the_first_query_differ() -> None:
    with pytest.raises(Exception, match="two columns are called b"):
        parse("SELECT b, b FROM t UNION ALL SELECT a, b FROM t")
