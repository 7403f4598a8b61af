"""A short text must not cost an agent more than a long one may: limits of what a statement stands for."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import FrameType

import pytest

from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.text.draft_limits import NODES_MAX
from elfmesh.ql.text.parsing import NUMBER_CHARS_MAX
from tests.ql.refusals import refusing


def doubling(levels: int) -> str:
    """Queries in WITH, each of which reads the one before twice."""
    text = "WITH c0 AS (SELECT k, v FROM t)"
    for at in range(1, levels):
        text += f",\nc{at} AS (SELECT k, v FROM c{at - 1} UNION ALL SELECT k, v FROM c{at - 1})"
    return f"{text}\nSELECT k, sum(v) AS s FROM c{levels - 1} GROUP BY k"


def test_queries_that_double_are_read_as_long_as_the_statement_stays_small() -> None:
    assert len(parse(doubling(6)).parts) <= 32


@pytest.mark.parametrize("levels", [12, 31])
def test_queries_that_double_are_refused_at_a_place_and_not_analysed_for_minutes(levels: int) -> None:
    with pytest.raises(QueryError, match=f"more than {NODES_MAX} expressions") as refused:
        parse(doubling(levels))
    assert refused.value.line > 1
    assert refused.value.hint


def test_values_of_a_long_list_cost_no_expressions() -> None:
    values = ", ".join(map(str, range(2 * NODES_MAX)))
    assert parse(f"SELECT count(*) AS n FROM t WHERE x IN ({values})").columns == ("n",)


def calls_of(text: str) -> int:
    """Python and C calls that the analysis of a text makes."""
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        parse(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("item", "rest"),
    [
        ("x{}", " FROM t GROUP BY {}"),
        ("x + {} = 1", " FROM t WHERE x IN ({})"),
        ("sum(x{}) AS s{}", " FROM t"),
        ("count(DISTINCT x{}) AS s{}", " FROM t"),
        ("CASE WHEN x{} = 1 THEN 2 END AS s{}", " FROM t"),
    ],
)
def test_the_cost_of_analysis_grows_with_the_text(item: str, rest: str) -> None:
    def text(count: int) -> str:
        items = ", ".join(item.replace("{}", str(at)) for at in range(count))
        return f"SELECT {items}{rest.replace('{}', items)}"

    costs = [calls_of(text(count)) for count in (100, 200, 400)]
    assert all(after < 2.2 * before for before, after in pairwise(costs)), costs


@pytest.mark.parametrize(
    "text",
    [
        "SELECT {} AS x FROM t",
        "SELECT x FROM t LIMIT {}",
        "SELECT CAST(x AS DECIMAL({}, 2)) AS y FROM t",
        "SELECT {}Y AS y FROM t",
        "CREATE JOB a.b EVERY '1 s' PARTITIONS {} AS SELECT count(*) AS n FROM t",
    ],
)
def test_a_number_of_thousands_of_digits_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(QueryError, match=f"at most {NUMBER_CHARS_MAX}") as refused:
        parse(text.format("9" * 5_000))
    assert refused.value.column == text.index("{") + 1


def test_a_message_about_a_very_long_word_stays_readable() -> None:
    with pytest.raises(QueryError) as refused:
        parse(f"SELECT DATE '{'9' * 5_000}' AS y FROM t")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", ["a" * 129, "1abc", "a.`b c`", "`a.b`.c"])
def test_a_name_that_no_agent_would_accept_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse(f"CREATE JOB {name} EVERY '1 s' AS SELECT count(*) AS n FROM t")
    assert refused.value.line == 1


def test_the_longest_name_is_accepted() -> None:
    job = parse(f"CREATE JOB {'a' * 128}.{'b' * 128} EVERY '1 s' AS SELECT count(*) AS n FROM t").job
    assert job is not None
    assert split_name(job.qualified) == ("a" * 128, "b" * 128)


test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a FROM s LIMIT 10 OFFSET x", 1, 33, "whole number", "OFFSET 10"),
    ("SELECT a FROM s LIMIT x", 1, 23, "whole number", "LIMIT 10"),
    ("SELECT a FROM s LIMIT 10 PERCENT", 1, 0, "", ""),
)  # fmt: skip
