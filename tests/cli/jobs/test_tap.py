"""`elf tap`: a filter is a condition and nothing else; what is shown of lines, and what at their end."""

from __future__ import annotations

import pytest

from elfmesh.cli.jobs.tap import _filter
from elfmesh.errors import QueryError

TEXT = "SELECT a, count(*) FROM clicks WHERE b > 1 GROUP BY a"


@pytest.mark.parametrize("words", ["a = 1", "WHERE a = 1", " where a = 1 ", "Where a = 1"])
def test_a_filter_is_a_condition_on_the_stream_of_the_text(words: str) -> None:
    clause = words.strip() if "where" in words.lower() else f"WHERE {words}"
    assert _filter(words, TEXT) == f"SELECT _raw FROM `clicks` {clause}"


@pytest.mark.parametrize(
    "words",
    [
        "a = 1 ORDER BY a",
        "a = 1 LIMIT 3",
        "a = 1 OFFSET 3",
        "a = 1 GROUP BY a",
        "a = 1 GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
        "a = 1; SELECT 2 FROM x",
        "a = 1 UNION ALL SELECT a FROM b",
        "count(*) > 1",
        "a = ",
        "",
    ],
)
def test_more_or_less_than_a_condition_is_refused_where_it_stands(words: str) -> None:
    with pytest.raises(QueryError) as refused:
        _filter(words, TEXT)
    assert refused.value.source == "--filter"
