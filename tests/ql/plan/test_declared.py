"""Declarations of Python functions, read before the SQL parser sees the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql import parse, parse_many
from elfmesh.ql.plan.declared import masked

DOUBLE = "FUNCTION twice(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$\ndef twice(x): return 2 * x\n$$"


def test_a_declaration_is_read_and_its_source_kept_to_the_letter() -> None:
    source = "\n# it's \"quoted\"; SELECT 'x\ndef f(a, b):\n    return a  -- b\n"
    text = (
        f"-- $$ in a comment\nWITH FUNCTION F(a STRING, b DOUBLE) RETURNS BOOLEAN "
        f"LANGUAGE PYTHON VECTORIZED AS $${source}$$ SELECT '$$' AS m, f(x, y) AS z FROM s; SELECT 1 FROM t"
    )
    first, second = parse_many(text)
    (function,) = first.functions
    assert function.source == source
    assert function.signature == "f(a STRING, b DOUBLE) RETURNS BOOLEAN LANGUAGE PYTHON VECTORISED"
    assert first.fields == ("x", "y")
    assert second.functions == ()
    assert parse(first.text).functions == first.functions, "a statement's own text has all of it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", "a b"),
        ("AS $$x y$$ b", "AS '     ' b"),
        ("$$a\nb$$", "'  \n  '"),
        ("'$$ a $$' x", "'$$ a $$' x"),
        ("-- $$ a\n$$b$$", "-- $$ a\n'   '"),
        ("/* $$ */ $$b$$", "/* $$ */ '   '"),
    ],
)
def test_a_body_is_masked_and_a_quoted_fence_is_not(text: str, expected: str) -> None:
    assert masked(text) == expected


@given(st.text(alphabet="$a'\n -/*", max_size=12))
def test_masking_moves_nothing(text: str) -> None:
    assert len(masked(text)) == len(text)
    assert [at for at, each in enumerate(masked(text)) if each == "\n"] == [
        at for at, each in enumerate(text) if each == "\n"
    ]


F = "WITH FUNCTION f({takes}) RETURNS {gives} LANGUAGE {language} AS {body} SELECT 1 FROM s"
PARTS = {"takes": "x BIGINT", "gives": "BIGINT", "language": "PYTHON", "body": "$$def f(x): return 1$$"}


def declared(**other: str) -> str:
    return F.format(**{**PARTS, **other})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (declared().replace(" f(", " lower("), "there is a function lower already"),
        (f"WITH {DOUBLE}, {DOUBLE} SELECT 1 FROM s", "there is a function twice already"),
        (declared(gives="INT"), "not a type"),
        (declared(takes=""), "is a constant"),
        (declared(takes="x BIGINT, x BIGINT"), "duplicated"),
        (declared(language="SQL"), "expected PYTHON"),
        (declared(body="'def f(x): return 1'"), "between"),
        (declared(body="$$g = 1$$"), "does not define f"),
        (declared(takes="x BIGNT"), "`BIGNT` is not a type"),
        (declared(takes="x"), "`\\)` is not a type"),
        (declared(body="$$ def f(x): return 1$$"), "does not define f"),
        (declared(body=f"$$def f(x): return '{'x' * 66_000}'$$"), "longer than 65536 bytes"),
        (declared().replace(" f(", " 5("), "expected the name of the function, found `5`"),
        (declared().split(" AS")[0], "expected AS, found `the end of the text`"),
        (declared().split(" $$")[0], "must be between"),
        (declared().replace("RETURNS", "GIVES"), "expected RETURNS, found `GIVES`"),
        (
            f"WITH {', '.join(DOUBLE.replace('twice', f't{at}') for at in range(17))} SELECT 1 FROM s",
            "than 16",
        ),
        ("SELECT $$x$$ FROM s", "can only enclose"),
        (f"WITH {DOUBLE} SELECT twice(x, y) FROM s", "twice takes 1 argument"),
        (f"WITH {DOUBLE} SELECT twise(x) FROM s", "unknown function"),
        (f"WITH {DOUBLE} SELECT twice(count(*)) FROM s", "on single records"),
        (f"WITH {DOUBLE} SELECT k, count(*) FROM s GROUP BY k HAVING twice(k) > 1", "on single records"),
        (f"WITH {DOUBLE} SELECT a.x FROM s a JOIN t b ON twice(a.x) = b.x", "on single records"),
        (f"WITH {DOUBLE} SELECT twice(n) FROM (SELECT count(*) AS n FROM s)", "on single records"),
        (f"WITH {DOUBLE} SELECT twice(l.a) AS y FROM s JOIN lookup.l ON s.k = l.k", "lookup table"),
    ],
)
def test_what_cannot_be_declared_or_called_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) > (0, 0)


@pytest.mark.parametrize(
    ("written", "ordered", "shown"),
    [
        ("", None, ""),
        ("CONFLUENT READ", None, ""),
        ("ordered read", (), " ORDERED READ"),
        ("VECTORISED ORDERED READ BY (a, b)", ("a", "b"), " VECTORISED ORDERED READ BY (a, b)"),
    ],
)
def test_an_author_declares_what_a_result_depends_on(
    written: str, ordered: tuple[str, ...] | None, shown: str
) -> None:
    text = f"WITH {DOUBLE.replace('AS', f'{written} AS', 1)} SELECT twice(x) FROM s"
    (function,) = parse(text).functions
    assert function.ordered == ordered
    assert function.signature == f"twice(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON{shown}"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("CONFLUENT WRITE", "cannot be declared WRITE"),
        ("ORDERED WRITE", "cannot be declared WRITE"),
        ("ORDERED", "expected READ, found `AS`"),
        ("CONFLUENT READ BY (a)", "expected AS, found `BY`"),
        ("ORDERED READ BY a", "expected (, found `a`"),
        ("ORDERED READ BY ()", "expected a column, found `)`"),
        ("READ", "expected AS, found `READ`"),
    ],
)
def test_a_wrong_declaration_is_refused_at_its_place(written: str, message: str) -> None:
    text = f"WITH {DOUBLE.replace('AS', f'{written} AS', 1)} SELECT twice(x) FROM s"
    with pytest.raises(QueryError, match=r"1:") as caught:
        parse(text)
    assert message in str(caught.value)
