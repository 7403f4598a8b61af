"""From drafts to parts and relations: which conditions agents check, and which parts are one."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from elfmesh.ql.plan.relation import JoinRelation, StatementPart, Union
from elfmesh.ql.plan.render import full_text
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (
        "SELECT s.a FROM s JOIN t ON s.a = t.a AND sum(t.b) > 3",
        1, 43, "ON cannot contain an aggregate", "",
    ),
    (
        "SELECT x.a FROM s x SEMI JOIN t y ON x.a = y.a WHERE y.b = 3",
        1, 56, "after this join", "left side",
    ),
    (
        "SELECT a FROM s GROUP BY TUMBLE(ts, '5 s'), a UNION SELECT a FROM s GROUP BY TUMBLE(t, '5 s'),a",
        1, 0, "by ts and by t", "one time column",
    ),
    (
        "SELECT a FROM s WHERE row_number() OVER (ORDER BY b) < 3",
        1, 23, "select list", "Filter outside",
    ),
    ("SELECT a + explode(b) FROM s", 1, 12, "must be the only item", "FROM (SELECT explode"),
    ("SELECT a FROM s WHERE explode(b) = 1", 1, 23, "must be the only item", "FROM (SELECT explode"),
    ("SELECT a, grouping(a) FROM s GROUP BY a", 1, 11, "grouping needs", "0 in every row"),
    ("SELECT a FROM s QUALIFY b > 1", 1, 25, "needs a window function", "HAVING"),
    ("CREATE JOB j EVERY '1 s' AS SELECT 1 AS a", 1, 36, "a SELECT without FROM", "Add FROM stream"),
    ("CREATE JOB j EVERY '1 s' AS SELECT a FROM s UNION SELECT 2", 1, 58, "SELECT without FROM", "leave out"),
    ("SELECT 1 AS a GROUP BY TUMBLE(ts, '5 s')", 1, 8, "a SELECT without FROM", "leave out the job"),
)  # fmt: skip


def conditions(text: str) -> list[str]:
    """What each part of a statement checks on single records."""
    parts = parse(text).parts
    return ["" if part.plan.where is None else full_text(part.plan.where) for part in parts]


WHERE = "ON s.a = t.a WHERE s.d = 1 AND t.e = 2 AND s.f + t.f = 3"


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("JOIN", ["(d = 1)", "(e = 2)"]),
        ("LEFT JOIN", ["(d = 1)", ""]),  # a row that the join fills with nulls must meet it after the join
        ("RIGHT JOIN", ["", "(e = 2)"]),
        ("FULL JOIN", ["", ""]),
    ],
)
def test_a_condition_on_one_stream_is_checked_where_its_records_are(join: str, expected: list[str]) -> None:
    assert conditions(f"SELECT s.a, t.b FROM s {join} t {WHERE}") == expected


def test_a_condition_that_waits_for_a_value_of_the_interval_is_checked_at_the_root() -> None:
    text = "SELECT a FROM s WHERE a > (SELECT avg(a) FROM s) AND b = 1"
    assert conditions(text) == ["", "(b = 1)"]


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("SELECT a FROM s UNION ALL SELECT a FROM s", ["s"]),
        ("SELECT a FROM s UNION ALL SELECT b FROM s", ["s", "s"]),
        ("SELECT a FROM s UNION ALL SELECT a FROM s ON (role = 'x')", ["s", "s"]),
        ("SELECT x.a FROM s x JOIN s y ON x.a = y.a", ["s"]),
        ("SELECT s.a FROM s JOIN t ON s.a = t.a", ["s", "t"]),
    ],
)
def test_equal_parts_are_one(text: str, streams: list[str]) -> None:
    assert [part.stream for part in parse(text).parts] == streams


def test_equations_are_keys_of_a_join_and_other_conditions_its_rest() -> None:
    relation = parse("SELECT s.a FROM s LEFT JOIN t ON t.a = s.a AND s.b <=> t.b AND s.c > t.c").relation
    joined = relation.source  # type: ignore[union-attr]  # it reads something
    assert isinstance(joined, JoinRelation)
    assert joined.kind == "left"
    assert [(full_text(key.left), full_text(key.right), key.null_safe) for key in joined.keys] == [
        ("s.a", "t.a", False),
        ("s.b", "t.b", True),
    ]
    assert joined.residual is not None
    assert full_text(joined.residual) == "(s.c > t.c)"


def test_a_union_of_parts_takes_their_rows_as_they_are() -> None:
    relation = parse("SELECT a FROM s UNION ALL SELECT b FROM t").relation
    union = relation.source  # type: ignore[union-attr]  # it reads something
    assert isinstance(union, Union)
    assert [source.index for source in union.sources if isinstance(source, StatementPart)] == [0, 1]
