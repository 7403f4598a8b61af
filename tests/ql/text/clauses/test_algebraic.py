"""Aggregates that a statement declares: what they give, and where they are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.text.clauses.algebraic import AGGREGATES_MAX, TOKENS_MAX
from tests.ql.conftest import run

WAVG = "WITH AGGREGATE wavg(x DOUBLE, w DOUBLE) AS sum(x * w) / sum(w) "
START_US = 1_700_000_040_000_000
TABLE = pa.table(
    {
        "ts": pa.array([START_US + second * 1_000_000 for second in (0, 5, 70)], pa.timestamp("us", "UTC")),
        "k": ["a", "a", "b"],
        "x": [1, 4, 5],
        "w": [2, 1, 3],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (WAVG + "SELECT k, wavg(x, w) AS a FROM t GROUP BY k ORDER BY k", [("a", 2.0), ("b", 5.0)]),
        (WAVG + "SELECT k, WAVG(x + 1, 1) AS a FROM t GROUP BY k HAVING wavg(x, w) > 3", [("b", 6.0)]),
        (
            "with aggregate span(v BIGINT) as max(v) - min(v), aggregate n(v STRING) as count(v) FILTER "
            "(WHERE v <> 'b') SELECT span(x) AS s, n(k) AS n FROM t",
            [(4, 2)],
        ),
        (
            WAVG + "WITH u AS (SELECT k, wavg(x, w) AS a FROM t GROUP BY k) SELECT max(a) AS m FROM u",
            [(5.0,)],
        ),
        ("WITH AGGREGATE label(v STRING) AS max(v) || '!' SELECT label(x) AS a FROM t", [("5!",)]),
        (
            "WITH AGGREGATE recent(at TIMESTAMP) AS max(at) >= min(at) + INTERVAL '1' MINUTE"
            " SELECT recent(ts) AS a FROM t",
            [(True,)],
        ),
    ],
)
def test_a_call_is_the_expression(text: str, rows: list[tuple[Any, ...]]) -> None:
    (found,) = run(text, TABLE).values()
    assert [tuple(row.values()) for row in found.to_pylist()] == rows


@pytest.mark.parametrize("window", ["TUMBLE(ts, '1 min')", "HOP(ts, '1 min', '3 min')"])
def test_its_laws_are_those_of_its_parts(window: str) -> None:
    written = f"SELECT k, sum(CAST(x AS DOUBLE) * w) / sum(w) AS a FROM t GROUP BY {window}, k ORDER BY k"
    called = WAVG + f"SELECT k, wavg(x, w) AS a FROM t GROUP BY {window}, k ORDER BY k"
    assert run(called, TABLE, batch_rows=1) == run(written, TABLE)
    tables = parse(called).tables
    assert {kind for _, (kind, _) in tables[0].aggregates.items()} <= {"sum", "count"}


def test_a_job_may_declare_functions_and_aggregates() -> None:
    text = (
        "CREATE JOB a.b EVERY '1 min' AS WITH FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$\n"
        "def f(x):\n    return x\n$$ " + WAVG + "SELECT wavg(f(x), w) AS a FROM s"
    )
    assert parse(text).columns == ("a",)
    assert parse("SELECT aggregate FROM s").fields == ("aggregate",)


F = "WITH AGGREGATE f(x DOUBLE) AS "
REFUSED = {
    WAVG + "SELECT 1 AS a FROM t": (16, "the aggregate wavg is not used"),
    WAVG + "SELECT wavg(x) AS a FROM t": (71, "wavg takes 2 arguments"),
    WAVG + "SELECT wavg(x, ) AS a FROM t": (71, "wavg takes 2 arguments"),
    WAVG + "SELECT wavg(x, w) OVER () AS a FROM t": (82, "wavg takes no OVER"),
    WAVG + "SELECT wavg(x, w) FILTER (WHERE x > 1) AS a FROM t": (82, "wavg takes no FILTER"),
    WAVG + "SELECT wavg(DISTINCT x, w) AS a FROM t": (76, "wavg takes no `DISTINCT`"),
    WAVG + "SELECT wavg(x, nope(w)) AS a FROM t": (79, "unknown function nope"),
    WAVG + "SELECT wavg(wavg(x, w), w) AS a FROM t": (44, "cannot contain an aggregate"),
    "WITH AGGREGATE sum(x DOUBLE) AS max(x) SELECT sum(x) AS a FROM t": (
        16,
        "there is a function sum already",
    ),
    WAVG.strip() + ", AGGREGATE wavg(x DOUBLE) AS max(x) SELECT wavg(x) AS a FROM t": (75, "wavg already"),
    "WITH AGGREGATE f(x DOUBLE, x DOUBLE) AS max(x) SELECT f(x, x) AS a FROM t": (
        28,
        "argument x is given twice",
    ),
    "WITH AGGREGATE f(x FLOATY) AS max(x) SELECT f(x) AS a FROM t": (20, "`FLOATY` is not a type"),
    "WITH AGGREGATE f(x DOUBLE, y BIGINT) AS max(x) SELECT f(x, x) AS a FROM t": (41, "does not use y"),
    "WITH AGGREGATE 'f'(x DOUBLE) AS max(x) SELECT f(x) AS a FROM t": (
        16,
        "expected the name of the aggregate",
    ),
    "WITH AGGREGATE f(x DOUBLE) max(x) SELECT f(x) AS a FROM t": (28, "expected AS"),
    "WITH AGGREGATE text(x DOUBLE) AS max(x) SELECT text(x) AS a FROM t": (16, "found `text`"),
    F + "max(y) SELECT f(x) AS a FROM t": (35, "y is not an argument of f"),
    F + "x + 1 SELECT f(x) AS a FROM t": (31, "the expression of f has no aggregate"),
    F + "f(x) SELECT f(x) AS a FROM t": (31, "the expression of f uses f"),
    F + "(SELECT max(x)) SELECT f(x) AS a FROM t": (32, "cannot contain `SELECT`"),
    F + "max(x) OVER () SELECT f(x) AS a FROM t": (38, "cannot contain `OVER`"),
    F + "max(x)) SELECT f(x) AS a FROM t": (37, "cannot contain `[)]`"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_meaning_is_refused_in_the_users_text(text: str) -> None:
    column, message = REFUSED[text]
    with pytest.raises(QueryError, match=message) as error:
        parse(text)
    assert error.value.column == column


def test_the_written_out_text_is_bounded() -> None:
    nested = "x"
    for _ in range(16):
        nested = f"d({nested})"
    with pytest.raises(QueryError, match=f"more than {TOKENS_MAX} words"):
        parse(f"WITH AGGREGATE d(x DOUBLE) AS sum(x + x + x) SELECT {nested} AS a FROM t")
    many = ", ".join(f"AGGREGATE f{at}(x DOUBLE) AS max(x)" for at in range(AGGREGATES_MAX + 1))
    with pytest.raises(QueryError, match=f"more than {AGGREGATES_MAX} aggregates"):
        parse(f"WITH {many} SELECT f1(x) AS a FROM t")
