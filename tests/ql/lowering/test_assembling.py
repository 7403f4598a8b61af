"""Assembly of a statement: its window and its tables, by the relation that its draft has become."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.errors import QueryError
from elfmesh.ql.plan.relation import Counted, Derived

JOB = "CREATE JOB a.b EVERY '10 s' AS "


@pytest.mark.parametrize(
    ("text", "kind", "tables"),
    [
        ("SELECT s.k FROM s JOIN t ON s.k = t.k", "tumble", ["main@0", "main@1"]),
        ("SELECT s.k FROM s JOIN t ON s.k = t.k WITHIN '1 s'", "within", ["main@0", "main@1"]),
        ("SELECT k, count(*) AS n FROM s GROUP BY ROWS(2), k", "rows", ["main@0"]),
        ("SELECT k FROM s UNION ALL SELECT l FROM s", "tumble", ["main@0", "main@1"]),
    ],
)
def test_a_relation_has_the_tables_of_its_parts_and_the_window_of_its_kind(
    text: str, kind: str, tables: list[str]
) -> None:
    statement = ql.parse(JOB + text)
    assert statement.window is not None
    assert (statement.window.kind, statement.window.size_us) == (kind, 10_000_000)
    assert [table.name for table in statement.tables] == tables


def test_only_rows_count_records() -> None:
    counted = ql.parse("SELECT count(*) AS n FROM s GROUP BY ROWS(2)").relation
    joined = ql.parse("SELECT s.k FROM s JOIN t ON s.k = t.k").relation
    assert isinstance(counted, Derived)
    assert isinstance(joined, Derived)
    assert [isinstance(each.source, Counted) for each in (counted, joined)] == [True, False]


def test_a_result_that_is_beside_a_stream_needs_one() -> None:
    with pytest.raises(QueryError, match="LATEST and SAME can only be joined to a stream"):
        ql.parse(JOB + "SELECT k FROM LATEST a.c")
    with pytest.raises(QueryError, match="SAME needs intervals"):
        ql.parse("SELECT s.k FROM s JOIN SAME a.c t ON s.k = t.k")
