"""Calls of Python functions: once per record, for no record that WHERE drops, and what a failure costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import QueryError, RuntimeFailure
from elfmesh.ql import Query, parse
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


def test_a_function_without_an_evaluator_is_refused() -> None:
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
