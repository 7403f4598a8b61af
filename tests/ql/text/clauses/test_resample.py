"""The clause RESAMPLE in the text: where it stands, what it says, and where it is refused."""

from __future__ import annotations

import pytest

from elfmesh.control.coordination.relations import sources
from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.expressions.nodes import Literal
from elfmesh.ql.expressions.resampling import Fill, FillRule, ResampleClause
from elfmesh.ql.plan.relation import Resampled

SELECT = "SELECT ts AS at, k, x, n FROM s "
NULL = Literal("null", None)


def clause_of(text: str) -> ResampleClause:
    relation = parse(text).relation
    assert relation is not None
    left, found = [relation], list[ResampleClause]()
    while left:
        relation = left.pop()
        found += [relation.clause] if isinstance(relation, Resampled) else []
        left += sources(relation)
    (clause,) = found
    return clause


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("RESAMPLE at EVERY '10 s'", ResampleClause("at", 10_000_000)),
        ("resample AT every INTERVAL '10' SECOND", ResampleClause("at", 10_000_000)),
        ("RESAMPLE at EVERY 2 MINUTES PARTITION BY k, X", ResampleClause("at", 120_000_000, ("k", "x"))),
        (
            "RESAMPLE at EVERY '1 s' FILL (x -1.5, n 7, k 'none')",
            ResampleClause(
                "at",
                1_000_000,
                (),
                (
                    FillRule("x", Fill.VALUE, Literal("double", -1.5)),
                    FillRule("n", Fill.VALUE, Literal("bigint", 7)),
                    FillRule("k", Fill.VALUE, Literal("string", "none")),
                ),
            ),
        ),
        (
            "RESAMPLE at EVERY '1 s' FILL (x LINEAR OR PREVIOUS, n NEXT, k NULL) MAX GAP '5 min' LIMIT 3",
            ResampleClause(
                "at",
                1_000_000,
                (),
                (
                    FillRule("x", Fill.LINEAR_OR_PREVIOUS, NULL),
                    FillRule("n", Fill.NEXT, NULL),
                    FillRule("k", Fill.VALUE, NULL),
                ),
                300_000_000,
            ),
        ),
    ],
)
def test_a_clause_is_read(text: str, clause: ResampleClause) -> None:
    assert clause_of(SELECT + text) == clause


@pytest.mark.parametrize(
    "text",
    [
        f"{SELECT}RESAMPLE at EVERY '1 s' ORDER BY n LIMIT 2 OFFSET 1",
        f"SELECT n FROM ({SELECT}RESAMPLE at EVERY '1 s') t WHERE n IS NULL",
        f"{SELECT}UNION ALL {SELECT}RESAMPLE at EVERY '1 s'",
        f"WITH a AS ({SELECT}RESAMPLE at EVERY '1 s') SELECT at, n FROM a",
        f"CREATE JOB a.b EVERY '1 min' AS {SELECT}RESAMPLE at EVERY '1 s' ORDER BY at",
        "SELECT max(ts) AS at, k FROM s GROUP BY k HAVING count(*) > 1 RESAMPLE at EVERY '1 s'",
        "SELECT ts AS at, row_number() OVER (ORDER BY ts) AS n FROM s RESAMPLE at EVERY '1 s'",
    ],
)
def test_it_ends_a_select(text: str) -> None:
    assert clause_of(text).every_us == 1_000_000


def test_its_words_are_still_names() -> None:
    text = "SELECT resample, s.resample AS every, fill, gap FROM s WHERE resample = 1 ORDER BY resample"
    assert set(parse(text).fields) == {"resample", "fill", "gap"}


REFUSED: dict[str, tuple[int, str]] = {
    "RESAMPLE at EVERY": (50, "EVERY takes a duration"),
    "RESAMPLE at EVERY '0 s'": (51, "EVERY of RESAMPLE must be greater than zero"),
    "RESAMPLE at EVERY 'soon'": (51, "'soon' is not a duration"),
    "RESAMPLE at EVERY '1 s' RESAMPLE at EVERY '1 s'": (57, "expected ORDER BY or the end after RESAMPLE"),
    "RESAMPLE at EVERY '1 s' WHERE x > 1": (57, "expected ORDER BY or the end after RESAMPLE"),
    "RESAMPLE at EVERY '1 s' FILL x LINEAR": (62, "expected `(` in FILL"),
    "RESAMPLE at EVERY '1 s' FILL (x LINEAR": (0, "FILL"),
    "RESAMPLE at EVERY '1 s' FILL (x)": (64, "FILL takes a constant"),
    "RESAMPLE at EVERY '1 s' FILL (x y)": (65, "FILL takes a constant"),
    "RESAMPLE at EVERY '1 s' FILL (x -k)": (65, "FILL takes a constant"),
    "RESAMPLE at EVERY '1 s' FILL (x LINEAR)": (63, "LINEAR needs MAX GAP"),
    "RESAMPLE at EVERY '1 s' FILL (n 0) MAX GAP '1 s'": (33, "MAX GAP needs FILL"),
    "RESAMPLE at EVERY '1 s' FILL (n NEXT) MAX GAP '0 s'": (79, "GAP of RESAMPLE must be greater than zero"),
    "RESAMPLE nope EVERY '1 s'": (33, "nope of RESAMPLE is not a column of the SELECT"),
    "RESAMPLE at EVERY '1 s' PARTITION BY nope": (33, "nope of PARTITION BY is not a column"),
    "RESAMPLE at EVERY '1 s' PARTITION BY k, K": (33, "PARTITION BY has a column twice"),
    "RESAMPLE at EVERY '1 s' PARTITION BY at": (33, "or the column of RESAMPLE"),
    "RESAMPLE at EVERY '1 s' FILL (nope 1)": (33, "nope of FILL is not a column"),
    "RESAMPLE at EVERY '1 s' FILL (n 1, N 2)": (33, "n is filled twice"),
    "RESAMPLE at EVERY '1 s' PARTITION BY k FILL (k 'x')": (33, "k is known in every row"),
    "ORDER BY n RESAMPLE at EVERY '1 s'": (44, "RESAMPLE stands at the end of a SELECT, before ORDER BY"),
}


@pytest.mark.parametrize("tail", REFUSED)
def test_what_has_no_meaning_is_refused_at_its_place(tail: str) -> None:
    column, message = REFUSED[tail]
    with pytest.raises(QueryError, match=message.replace("(", r"\(")) as error:
        parse(SELECT + tail)
    assert error.value.column == column or not column


def test_two_of_them_are_refused() -> None:
    text = f"SELECT at FROM ({SELECT}RESAMPLE at EVERY '1 s') t RESAMPLE at EVERY '2 s'"
    with pytest.raises(QueryError, match="RESAMPLE is given twice"):
        parse(text)


def test_resample_ends_a_select() -> None:
    with pytest.raises(QueryError, match="RESAMPLE stands at the end of a SELECT"):
        parse("RESAMPLE at EVERY '1 s'")
