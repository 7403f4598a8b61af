"""Joins WITHIN a time: the plan, and the refusals with their places."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.errors import QueryError
from elfmesh.ql.plan.relation import TIME, within_of

JOB = "CREATE JOB a.b EVERY '10 s' AS "
FROM = "FROM s JOIN t ON s.x = t.x WITHIN "


def test_the_join_has_the_time_of_both_sides() -> None:
    statement = ql.parse(JOB + "SELECT s.a, count(*) AS n " + FROM + "INTERVAL '5' SECOND GROUP BY s.a")
    join = within_of(statement.relation)
    assert join is not None
    assert (join.within_us, join.times) == (5_000_000, (f"s.{TIME}", f"t.{TIME}"))
    window = statement.window
    assert window is not None
    assert (window.kind, window.size_us, window.within_us) == ("within", 10_000_000, 5_000_000)
    assert statement.spans_intervals


@pytest.mark.parametrize(
    "within", ["'5 s'", "INTERVAL '5' SECOND", "INTERVAL 5 SECONDS", "5 SECONDS", "INTERVAL '5 seconds'"]
)
def test_the_time_has_the_spellings_of_other_durations(within: str) -> None:
    join = within_of(ql.parse("SELECT s.a " + FROM + within).relation)
    assert join is not None
    assert join.within_us == 5_000_000


def test_a_lookup_table_may_be_joined_as_well() -> None:
    text = "SELECT s.a, l.b FROM s JOIN t ON s.x = t.x WITHIN '5 s' LEFT JOIN lookup.l l ON s.a = l.a"
    statement = ql.parse(JOB + text)
    assert [join.name for join in statement.joined] == ["l"]


def test_results_of_jobs_may_be_joined() -> None:
    statement = ql.parse(JOB + "SELECT s.a FROM shop.s s JOIN shop.t t ON s.x = t.x WITHIN '1 min'")
    assert statement.streams == ("shop/s", "shop/t")
    assert statement.spans_intervals


def test_within_is_still_a_name() -> None:
    assert "within" in ql.parse("SELECT within FROM s WHERE s.within = 1 ORDER BY within").fields


REFUSED = {
    "SELECT a FROM s WITHIN '5 s'": (17, "WITHIN stands behind the ON of a JOIN"),
    "SELECT s.a FROM s JOIN t ON s.x = t.x WHERE s.a > 1 WITHIN '5 s'": (53, "WITHIN stands behind the ON"),
    "SELECT s.a FROM s JOIN (SELECT x FROM t) t ON s.x = t.x WITHIN '5 s'": (57, "behind the ON of a JOIN"),
    "SELECT s.a " + FROM + "'0 s'": (46, "WITHIN must be greater than zero"),
    "SELECT s.a " + FROM + "'five'": (46, "'five' is not a duration"),
    "SELECT s.a " + FROM + "'1 s' WITHIN '2 s'": (52, "WITHIN is given twice"),
    "SELECT s.a FROM s RIGHT JOIN t ON s.x = t.x WITHIN '5 s'": (45, "a RIGHT JOIN has no WITHIN"),
    "SELECT s.a FROM s FULL JOIN t ON s.x = t.x WITHIN '5 s'": (44, "a FULL JOIN has no WITHIN"),
    "SELECT s.a FROM s LEFT SEMI JOIN t ON s.x = t.x WITHIN '5 s'": (49, "a SEMI JOIN has no WITHIN"),
    "SELECT s.a FROM s JOIN LATEST a.j t ON s.x = t.x WITHIN '5 s'": (50, "and nothing else"),
    "SELECT s.a FROM s JOIN lookup.t t ON s.x = t.x WITHIN '5 s'": (48, "and nothing else"),
    "SELECT s.a FROM s JOIN t ON s.x = t.x WITHIN '5 s' JOIN u ON u.x = s.x": (39, "and nothing else"),
    "SELECT s.a FROM s JOIN t ON s.x = t.x WITHIN '5 s' UNION ALL SELECT a FROM s": (39, "and nothing else"),
    "SELECT a FROM (SELECT s.a " + FROM + "'5 s') q": (54, "and nothing else"),
    "SELECT s.a " + FROM + "'5 s' WHERE s.a > (SELECT max(a) FROM s)": (39, "and nothing else"),
    "SELECT s.a " + FROM + "'5 s' WHERE s.a IN (SELECT a FROM s)": (39, "and nothing else"),
    "SELECT count(*) AS n " + FROM + "'5 s' GROUP BY HOP(s.ts, '5 s', '10 s')": (49, "not for HOP"),
    "SELECT count(*) AS n " + FROM + "'5 s' GROUP BY SESSION(s.ts, '5 s')": (49, "not for SESSION"),
    "SELECT count(*) AS n " + FROM + "'5 s' GROUP BY ROWS(3)": (49, "not for ROWS"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_is_refused_with_its_place(text: str) -> None:
    column, message = REFUSED[text]
    with pytest.raises(QueryError) as caught:
        ql.parse(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert caught.value.hint


@pytest.mark.parametrize("option", ["STANDBY ALL", "EARLY '1 s'", "KEEP PARTIALS"])
def test_clauses_of_a_job_that_need_windows_of_their_own_are_refused(option: str) -> None:
    with pytest.raises(QueryError):
        ql.parse(f"CREATE JOB a.b EVERY '10 s' {option} AS SELECT s.a {FROM}'5 s'")


def test_a_job_has_no_history_and_needs_an_interval() -> None:
    with pytest.raises(QueryError, match="windows of a fixed size"):
        ql.parse(JOB + "SELECT s.a FROM s HISTORY '1 h' JOIN t ON s.x = t.x WITHIN '5 s'")
    with pytest.raises(QueryError, match="a job needs an interval"):
        ql.parse("CREATE JOB a.b AS SELECT s.a " + FROM + "'5 s'")
