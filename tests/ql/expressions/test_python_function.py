"""Declaring and calling Python functions: what the language says of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import QueryError, RuntimeFailure
from elfmesh.ql import Query, parse, parse_many
from elfmesh.ql.engine.changes import compare
from elfmesh.ql.engine.live import parse_live
from elfmesh.ql.expressions.python_function import Computed, PythonFunction

DOUBLE = "FUNCTION twice(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$\ndef twice(x): return 2 * x\n$$"


class Twice:
    """Doubles; fails at 13. Remembers how many records it was given."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def call(self, function: PythonFunction, columns: Sequence[pa.Array], rows: int) -> Computed:
        assert [column.type for column in columns] == [pa.int64()]
        self.seen.append(rows)
        failed = pc.fill_null(pc.equal(columns[0], 13), False).to_numpy(zero_copy_only=False)
        return Computed(pc.multiply(columns[0], 2), np.asarray(failed) if failed.any() else None)


def prepared(query: str, **columns: object) -> tuple[Twice, Query, pa.RecordBatch]:
    source = Twice()
    return source, Query(parse(f"WITH {DOUBLE} {query}"), functions=source), pa.record_batch(columns)


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


def test_an_argument_of_another_type_is_converted_or_refused() -> None:
    _, query, batch = prepared("SELECT twice(x) AS y FROM s", x=["1", "no", None])
    assert query.prepare(batch).tables["main"].column(0).to_pylist() == [2, None, None]
    _, query, batch = prepared("SELECT twice(x) AS y FROM s", x=[[1]])
    with pytest.raises(QueryError, match="argument 1 of twice is ARRAY<BIGINT>, not BIGINT"):
        query.prepare(batch)


def test_a_call_is_evaluated_once_and_for_no_record_that_where_drops_anyway() -> None:
    source, query, batch = prepared(
        "SELECT twice(x) AS y, sum(twice(x)) AS s, count(DISTINCT twice(x)) AS d FROM s "
        "WHERE k = 'a' AND twice(x) < 100 GROUP BY twice(x)",
        x=[1, 2, 3, 60], k=["a", "b", "a", "a"],
    )  # fmt: skip
    done = query.prepare(batch)
    assert source.seen == [3]
    assert done.tables["main"].column("k0").to_pylist() == [2, 6]
    assert (done.kept, done.filtered, done.failed) == ({0: 2}, {0: 2}, 0)


def test_a_record_that_fails_is_in_no_table_and_in_no_other_bucket() -> None:
    _, query, batch = prepared(
        "SELECT ts, count(*) AS n FROM s WHERE twice(twice(x)) > 4 "
        "GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), ts",
        x=[1, 13, 2, None], ts=[1, 1, 2, 2],
    )  # fmt: skip
    done = query.prepare(batch)
    assert (done.passed, dict(done.filtered), done.undated, done.failed) == (1, {1: 1, 2: 1}, 0, 1)


def test_a_record_that_fails_one_part_of_a_union_fails_all_of_them() -> None:
    _, query, batch = prepared(
        "SELECT x FROM s WHERE k = 'a' UNION ALL SELECT twice(x) AS x FROM s", x=[1, 13], k=["a", "a"]
    )
    done = query.prepare(batch)
    assert (done.passed, done.failed) == (1, 1)
    assert {name: table.num_rows for name, table in done.tables.items()} == {"main@0": 1, "main@1": 1}


def test_nobody_evaluates_by_accident() -> None:
    query = Query(parse(f"WITH {DOUBLE} SELECT twice(x) AS y FROM s"))
    with pytest.raises(RuntimeFailure, match="Python functions cannot run here"):
        query.prepare(pa.record_batch({"x": [1]}))


def test_another_source_is_another_filter() -> None:
    text = "CREATE JOB a EVERY '1 s' AS WITH {} SELECT count(*) AS n FROM s WHERE twice(x) > 1"
    other = compare(text.format(DOUBLE), text.format(DOUBLE.replace("2 *", "3 *")))
    assert (other.state, other.reasons, other.same_records) == ("warm up", ("another filter",), False)
    assert compare(text.format(DOUBLE), text.format(DOUBLE)).state == "keep"


def test_results_know_no_functions() -> None:
    with pytest.raises(QueryError, match="where records are read"):
        parse_live(f"WITH {DOUBLE} SELECT twice(x) FROM shop.a")
    with pytest.raises(QueryError, match="has no Python functions"):
        read_job(f"CREATE JOB b.b EVERY '1 s' AS WITH {DOUBLE} SELECT twice(x) FROM shop.a")
