"""The syntax of ASSUME, its refusals, and what it adds to a statement."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse
from elfmesh.ql.expressions.assumption import AssumedBound, AssumedDependency, Assumption
from elfmesh.ql.lowering.assumptions import ASSUMPTIONS_MAX
from tests.ql.refusals import refusing

HEAD = "CREATE JOB a.b EVERY '1 s'"
QUERY = "AS SELECT u, count(*) AS n FROM log GROUP BY u"


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("ASSUME (id -> campaign)", (AssumedDependency(("id",), "campaign"),)),
        ("assume (id->campaign)", (AssumedDependency(("id",), "campaign"),)),
        ("ASSUME ((id, host) -> campaign)", (AssumedDependency(("id", "host"), "campaign"),)),
        ("ASSUME ((id) -> campaign)", (AssumedDependency(("id",), "campaign"),)),
        ("ASSUME (bytes >= 0)", (AssumedBound("bytes", 0),)),
        ("ASSUME (bytes <= -2.5)", (AssumedBound("bytes", -2.5, upper=True),)),
        ("ASSUME (`two words` >= 1e3)", (AssumedBound("two words", 1000.0),)),
        ("ASSUME (a.b -> c.`d`)", (AssumedDependency(("a.b",), "c.d"),)),
        ("ASSUME (date >= 0)", (AssumedBound("date", 0),)),
        ("ASSUME (a -> b, c >= 1)", (AssumedDependency(("a",), "b"), AssumedBound("c", 1))),
        (
            "ASSUME (a -> b) LATENESS '1 s' ASSUME (c >= 1)",
            (AssumedDependency(("a",), "b"), AssumedBound("c", 1)),
        ),
    ],
)
def test_a_clause_states_dependencies_and_bounds(clause: str, found: tuple[Assumption, ...]) -> None:
    assert parse(f"{HEAD} {clause} {QUERY}").assumes == found
    assert parse(f"CREATE JOB a.b {clause} EVERY '1 s' {QUERY}").assumes == found


SHAPE = "ASSUME (id -> campaign)"
OF_STREAM = "Name columns of records of log"

test_everything_else_is_refused_where_it_is = refusing(
    (f"{HEAD} ASSUME {QUERY}", 1, 35, "expected `(` after ASSUME, found `AS`", SHAPE),
    (f"{HEAD} ASSUME () {QUERY}", 1, 36, "expected a column, found `)`", SHAPE),
    (f"{HEAD} ASSUME (a) {QUERY}", 1, 37, "a dependency `->`, or a bound", SHAPE),
    (f"{HEAD} ASSUME (a > 3) {QUERY}", 1, 38, "a dependency `->`, or a bound", SHAPE),
    (f"{HEAD} ASSUME (a = 3) {QUERY}", 1, 38, "a dependency `->`, or a bound", SHAPE),
    (f"{HEAD} ASSUME (abs(a) >= 3) {QUERY}", 1, 39, "a dependency `->`, or a bound", SHAPE),
    (f"{HEAD} ASSUME (a -> ) {QUERY}", 1, 41, "expected a column, found `)`", SHAPE),
    (f"{HEAD} ASSUME ('a' -> b) {QUERY}", 1, 36, "expected a column, found `'a'`", SHAPE),
    (f"{HEAD} ASSUME (3 <= a) {QUERY}", 1, 36, "expected a column, found `3`", SHAPE),
    (f"{HEAD} ASSUME (a -> a) {QUERY}", 1, 36, "a determines itself", SHAPE),
    (f"{HEAD} ASSUME ((a, a) -> b) {QUERY}", 1, 40, "the column a is given twice", SHAPE),
    (f"{HEAD} ASSUME ((a) >= 3) {QUERY}", 1, 40, "a dependency `->`, or a bound", SHAPE),
    (f"{HEAD} ASSUME (a -> (b, c)) {QUERY}", 1, 41, "expected a column, found `(`", SHAPE),
    (f"{HEAD} ASSUME (a -> b -> c) {QUERY}", 1, 43, "expected `,` or `)` after an assumption", SHAPE),
    (f"{HEAD} ASSUME (a >= 'x') {QUERY}", 1, 41, "a bound is a number, not `'x'`", SHAPE),
    (f"{HEAD} ASSUME (a >= b) {QUERY}", 1, 41, "a bound is a number, not `b`", SHAPE),
    (f"{HEAD} ASSUME (a >= 5L) {QUERY}", 1, 41, "a bound is a number, not `5L`", SHAPE),
    (f"{HEAD} ASSUME (a >= 9007199254740993) {QUERY}", 1, 41, "at most 9007199254740992", SHAPE),
    (f"{HEAD} ASSUME (a >= 1 {QUERY}", 1, 43, "expected `,` or `)`", SHAPE),
    (f"{HEAD} ASSUME (a >= 1, a >= 1) {QUERY}", 1, 44, "duplicated", "Remove it"),
    (f"{HEAD} ASSUME (log.a >= 1) {QUERY}", 1, 36, "log is the stream, not a column", OF_STREAM),
    (
        f"{HEAD} ASSUME (l.a >= 1) AS SELECT l.a, count(*) AS n FROM log JOIN lookup.t l ON log.u = l.u "
        "GROUP BY l.a",
        1, 36, "l is the joined table, not a column", OF_STREAM,
    ),
    (f"{HEAD} ASSUME (a >= 1) {QUERY.replace('log', 'x.y')}", 1, 36, "not for results of a job", "is read"),
    (
        f"{HEAD} ASSUME (a >= 1) AS SELECT a.u, count(*) AS n FROM log a JOIN t b ON a.u = b.u GROUP BY a.u",
        1, 36, "a job that reads one stream", "each stream",
    ),
    ("CREATE TOPIC a.b FROM clicks DELIVERY SEQUENCED EVERY '1 s' ASSUME (a >= 1)", 1, 76, "no ASSUME", ""),
)  # fmt: skip


def test_the_number_of_assumptions_is_limited() -> None:
    clause = ", ".join(f"a{at} >= 0" for at in range(ASSUMPTIONS_MAX))
    assert len(parse(f"{HEAD} ASSUME ({clause}) {QUERY}").assumes) == ASSUMPTIONS_MAX
    with pytest.raises(QueryError, match="beyond 16"):
        parse(f"{HEAD} ASSUME ({clause}, b >= 0) {QUERY}")


def test_agents_read_the_columns_of_assumptions() -> None:
    statement = parse(f"{HEAD} ASSUME (id -> campaign, bytes >= 0) {QUERY}")
    assert statement.fields == ("bytes", "campaign", "id", "ts", "u")
    assert statement.fields_of("log") == statement.fields
    whole = parse(f"{HEAD} ASSUME (bytes >= 0) AS SELECT u FROM log UNION ALL SELECT v FROM log")
    assert whole.fields_of("log") == ("bytes", "ts", "u", "v")
    assert all(part.assumes == whole.assumes for part in whole.parts)


@pytest.mark.parametrize(
    ("clause", "column"), [("nope >= 0", "nope"), ("u -> nope", "nope"), ("n >= 0", "n")]
)
def test_a_column_that_the_format_does_not_have_is_refused_where_the_assumption_is(
    clause: str, column: str
) -> None:
    query = Query(parse(f"{HEAD} ASSUME ({clause}) {QUERY}"))
    with pytest.raises(QueryError, match=f"log has no column {column}") as caught:
        query.check_schema(pa.schema([("ts", pa.string()), ("u", pa.string())]))
    assert (caught.value.line, caught.value.column) == (1, 36)


def test_a_text_without_the_clause_assumes_nothing() -> None:
    statement = parse(f"{HEAD} {QUERY}")
    assert (statement.assumes, statement.fields) == ((), ("ts", "u"))
