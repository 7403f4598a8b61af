"""The clause SEALED: what it means, and what is refused with the place and the remedy."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.errors import QueryError
from elfmesh.ql.engine.changes import RESET, compare
from elfmesh.ql.plan.render import text_of

HEAD = "CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS hits FROM s GROUP BY "
GOOD = "SEALED(k WHEN e = 'end' PRODUCERS ONE AFTER '1 h')"


def test_the_words_of_the_clause_may_be_names_of_fields() -> None:
    clause = (
        "SEALED(k, CASE WHEN a THEN 1 ELSE 2 END WHEN records > 1 PRODUCERS n * records + 1 BY after "
        "RECORDS records AFTER '90 m')"
    )
    seal = ql.parse(HEAD + clause).plan.seal
    assert seal is not None
    assert [text_of(key) for key in seal.keys] == ["k", "CASE WHEN a THEN 1 ELSE 2 END"]
    assert (text_of(seal.when), seal.how, seal.after_us) == ("(records > 1)", "number", 90 * 60 * 10**6)
    given = (seal.producers, seal.by, seal.records)
    assert [text_of(each) for each in given if each is not None] == [
        "TRY_CAST(((n * records) + 1) AS BIGINT)",
        "after",
        "TRY_CAST(records AS BIGINT)",
    ]


@pytest.mark.parametrize("word", ["ONE", "ALL"])
def test_the_member_is_the_producer_unless_a_column_is_given(word: str) -> None:
    seal = ql.parse(HEAD + GOOD.replace("ONE", word)).plan.seal
    assert seal is not None
    assert (seal.how, seal.producers, seal.by, seal.records) == (word, None, None, None)


def test_a_quoted_name_is_a_field() -> None:
    seal = ql.parse(HEAD + GOOD.replace("ONE", "`one`")).plan.seal
    assert seal is not None
    assert seal.how == "number"


def test_the_keys_of_the_partitions_come_first_and_the_window_is_every() -> None:
    statement = ql.parse(HEAD + f"x, {GOOD}, k")
    assert [text_of(key) for key in statement.plan.keys] == ["k", "x"]
    assert statement.window is not None
    assert (statement.window.kind, statement.window.size_us) == ("sealed", 10**6)
    assert {"e", "k", "x", "ts"} == set(statement.fields)


@pytest.mark.parametrize(
    ("clause", "column", "message"),
    [
        ("SEALED(k AFTER '1 h')", 83, "SEALED needs WHEN before AFTER"),
        ("SEALED(k WHEN a = 1 AFTER '1 h')", 94, "SEALED needs PRODUCERS before AFTER"),
        ("SEALED(k WHEN a = 1 PRODUCERS 3)", 105, "SEALED needs AFTER"),
        ("SEALED(k WHEN a = 1 PRODUCERS DISTINCT ONE RECORDS b AFTER '1 h')", 0, "SEALED needs AFTER"),
        ("SEALED(k)", 82, "SEALED needs WHEN"),
        ("SEALED()", 81, "SEALED needs WHEN"),
        ("SEALED(k WHEN a = 1 PRODUCERS 'x' AFTER '1 h')", 104, "PRODUCERS takes ONE, ALL or a number"),
        ("SEALED(1 WHEN a = 1 PRODUCERS ALL AFTER '1 h')", 81, "a key of SEALED is a field"),
        ("SEALED(k WHEN count(*) > 1 PRODUCERS ONE AFTER '1 h')", 88, "values of single records"),
        ("SEALED(k WHEN a = 1 PRODUCERS ONE AFTER 3)", 114, "AFTER of SEALED takes a duration"),
        ("SEALED(k WHEN a = 1 PRODUCERS ONE AFTER '0 s')", 114, "AFTER must be greater than zero"),
        ("SEALED(k WHEN a = 1 PRODUCERS ONE AFTER '1 month')", 114, "month"),
        ("SEALED(k WHEN a = 1, b PRODUCERS ONE AFTER '1 h')", 74, "WHEN of SEALED takes one value"),
        ("SEALED(k WHEN a = 1 PRODUCERS ALL BY h AFTER '1 h')", 111, "PRODUCERS ALL is every member"),
        ("SEALED(k WHEN hits > 1 PRODUCERS ONE AFTER '1 h')", 88, "hits is an alias"),
        (f"{GOOD}, TUMBLE(ts, '1 s')", 126, "one window"),
        (f"{GOOD}, ROLLUP(k)", 0, "SEALED is for a query over one stream alone"),
        (f"{GOOD} HAVING count(*) > (SELECT count(*) FROM s)", 0, "one stream alone"),
    ],
)
def test_the_error_of_a_refused_clause_has_the_place_and_the_remedy(
    clause: str, column: int, message: str
) -> None:
    with pytest.raises(QueryError) as problem:
        ql.parse(HEAD + clause)
    assert message in problem.value.message
    assert problem.value.hint
    assert not column or (problem.value.line, problem.value.column) == (1, column)


def test_it_needs_every() -> None:
    for head in ("SELECT k FROM s GROUP BY ", "CREATE JOB a.b AS SELECT k FROM s GROUP BY "):
        with pytest.raises(QueryError, match="SEALED needs EVERY") as problem:
            ql.parse(head + GOOD)
        assert "EVERY '1 s'" in problem.value.hint


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE JOB a.b EVERY '1 s' AS SELECT k FROM s WHERE {GOOD}",
        f"CREATE JOB a.b EVERY '1 s' AS SELECT {GOOD} FROM s GROUP BY {GOOD}",
    ],
)
def test_it_is_a_key_of_group_by_and_no_value(text: str) -> None:
    with pytest.raises(QueryError, match="window"):
        ql.parse(text)


def test_partials_of_partitions_are_not_kept() -> None:
    with pytest.raises(QueryError, match="KEEP PARTIALS"):
        ql.parse(HEAD.replace("AS SELECT", "KEEP PARTIALS AS SELECT") + GOOD)


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        (GOOD, GOOD, "keep"),
        (GOOD, GOOD.replace("'end'", "'over'"), RESET),
        (GOOD, GOOD.replace("1 h", "2 h"), RESET),
        (GOOD, GOOD.replace("ONE", "ALL"), RESET),
        (GOOD, "SESSION(ts, '1 s'), k", RESET),
        (GOOD, "k", RESET),
    ],
)
def test_other_partitions_begin_empty(old: str, new: str, state: str) -> None:
    head = HEAD.replace("EVERY '1 s' ", "") if "SESSION" in new else HEAD
    assert compare(HEAD + old, head + new).state == state
