"""Joining a table from a file where records are read: at most one row for each record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import DataError, QueryError
from elfmesh.ql import parse
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.engine.lookup import look_up, with_tables
from elfmesh.ql.plan.inline import InlineTable

TABLE = pa.table({"k": ["x", "y", None], "v": [1, 2, 3]})
RECORDS = pa.record_batch({"a": ["y", "z", None, "y"], "n": [1, 2, 3, 4]})


def joined(text: str, table: pa.Table = TABLE) -> tuple[list[bool], dict[str, list[Any]]]:
    statement = parse(text)
    (part,) = statement.parts or (statement,)
    stays, columns = look_up(part, lambda _name, names: table.select(list(names)), BlockRows.of(RECORDS))
    return stays.tolist(), {name.rpartition(".")[2]: array.to_pylist() for name, array in columns.items()}


@pytest.mark.parametrize(
    ("join", "stays"),
    [("JOIN", [True, False, False, True]), ("LEFT JOIN", [True] * 4)],
)
def test_a_record_meets_the_row_with_its_key_and_null_meets_none(join: str, stays: list[bool]) -> None:
    found = joined(f"SELECT s.n, t.v FROM s {join} lookup.t t ON s.a = t.k")
    assert found == (stays, {"k": ["y", None, None, "y"], "v": [2, None, None, 2]})


def test_keys_are_compared_as_the_language_compares() -> None:
    table = pa.table({"k": ["1", "4.0", "x"], "v": [7, 8, 9]})
    stays, columns = joined("SELECT s.n, t.v FROM s JOIN lookup.t t ON s.n = t.k", table)
    assert (stays, columns["v"]) == ([True, False, False, True], [7, None, None, 8])


def test_all_keys_of_a_join_must_agree() -> None:
    table = pa.table({"k": ["y", "y"], "m": [1, 9], "v": [7, 8]})
    stays, columns = joined("SELECT s.n, t.v FROM s JOIN lookup.t t ON s.a = t.k AND s.n = t.m", table)
    assert (stays, columns["v"]) == ([True, False, False, False], [7, None, None, None])


def test_a_key_that_comes_twice_is_refused_and_null_may() -> None:
    text = "SELECT s.n, t.v FROM s LEFT JOIN lookup.t t ON s.a = t.k"
    with pytest.raises(DataError, match=r"lookup t: has a key \(k\) twice"):
        joined(text, pa.table({"k": ["x", "x"], "v": [1, 2]}))
    assert joined(text, pa.table({"k": [None, None, "y"], "v": [1, 2, 3]}))[1]["v"] == [3, None, None, 3]


def test_types_that_cannot_be_compared_are_refused_at_their_place() -> None:
    text = "SELECT s.n, t.v FROM s JOIN lookup.t t ON s.a = t.k"
    with pytest.raises(QueryError, match=r"STRING and ARRAY<BIGINT> \(t.k\) cannot be compared") as caught:
        joined(text, pa.table({"k": [[1]], "v": [1]}))
    assert caught.value.column == text.index("a = t.k") + 1


def test_a_table_of_the_text_comes_before_one_of_a_file() -> None:
    text = "CREATE JOB n.j EVERY '1 s' TABLE own (k STRING) AS SELECT count(*) FROM s"
    job = parse(text).job
    assert job is not None
    tables: tuple[InlineTable, ...] = job.tables
    source = with_tables(tables, lambda name, names: TABLE.select(list(names)))
    assert source("own", ("k",)).to_pylist() == []
    assert source("other", ("k",)).num_rows == 3
    with pytest.raises(DataError, match="there is no lookup table other here"):
        with_tables(tables, None)("other", ("k",))
