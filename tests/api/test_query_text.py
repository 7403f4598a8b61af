"""The job that a query over streams becomes, and where its errors are."""

from __future__ import annotations

import pytest

from elfmesh.api.query_text import as_job
from elfmesh.errors import QueryError

CLAUSE = "HISTORY '1 h' UNTIL HISTORY"


def test_the_range_stands_behind_the_first_input() -> None:
    assert as_job("SELECT a FROM log WHERE b", "CREATE JOB x.y", CLAUSE) == (
        f"CREATE JOB x.y AS SELECT a FROM log {CLAUSE} WHERE b"
    )


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT zz( FROM log", 10),
        ("SELECT a, count(*) AS n FROM log HISTORY '1 d' GROUP BY a", 34),
        ("SELECT 1 AS one", 1),
    ],
)
def test_an_error_is_at_its_place_in_the_text_of_the_user(text: str, column: int) -> None:
    with pytest.raises(QueryError) as caught:
        as_job(text, "CREATE JOB x.y", CLAUSE, source="mine")
    assert (caught.value.line, caught.value.column) == (1, column)
