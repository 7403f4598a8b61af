"""Tables that a text carries along: what they give, how they change, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.api.publish import declared_table, filled
from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse
from elfmesh.ql.engine.changes import KEEP, WARM_UP, compare
from elfmesh.ql.plan.inline import DATA_CHARS_MAX, packed
from tests.ql.conftest import run

TEXT = """CREATE JOB shop.watch EVERY '1 s'
TABLE suspects (name STRING, weight BIGINT)  -- fed from Spark
AS SELECT c.user, count(*) AS n, max(s.weight) AS w
FROM clicks c LEFT JOIN lookup.suspects s ON c.user = s.name GROUP BY c.user ORDER BY c.user"""


def rows(*pairs: tuple[str | None, int]) -> pa.Table:
    names, weights = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"name": pa.array(names, pa.string()), "weight": pa.array(weights, pa.int32())})


def with_rows(table: pa.Table, text: str = TEXT) -> str:
    declared = declared_table(text, "suspects")
    assert declared is not None
    return filled(text, declared, table)[0]


def answer(text: str) -> list[dict[str, Any]]:
    times = pa.array([1_000_000] * 3, pa.timestamp("us", "UTC"))
    found = run(text, {"user": ["ann", "bob", "ann"], "ts": times})
    return [row for table in found.values() for row in table.to_pylist()]


def test_a_declared_table_is_empty_until_it_is_published() -> None:
    assert answer(TEXT) == [{"user": "ann", "n": 2, "w": None}, {"user": "bob", "n": 1, "w": None}]
    filled_once = with_rows(rows(("ann", 7)))
    assert [row["w"] for row in answer(filled_once)] == [7, None]
    again = with_rows(rows(("bob", 9), ("eve", 1)), filled_once)
    assert [row["w"] for row in answer(again)] == [None, 9]
    assert again.count("$$") == 2
    assert again.endswith(TEXT[TEXT.index("\nAS SELECT") :].split("AS ", 1)[1])


def test_agents_need_no_file_for_it_and_others_still_do() -> None:
    assert parse(TEXT).tables_read == ()
    text = TEXT.replace("LEFT JOIN", "JOIN lookup.file f ON c.user = f.x LEFT JOIN")
    assert parse(text).tables_read == ("file",)


def test_another_version_warms_up_and_the_same_rows_are_the_same_text() -> None:
    one = with_rows(rows(("ann", 1)))
    assert with_rows(rows(("ann", 1)), one) == one
    difference = compare(one, with_rows(rows(("ann", 2)), one))
    assert (difference.state, difference.in_place, difference.same_records) == (WARM_UP, True, False)
    assert difference.reasons == ("another version of a table",)
    assert compare(one, one.replace("-- fed from Spark", "")).state == KEEP


@given(st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=5)), st.integers(-9, 9)), max_size=20))
def test_whatever_is_packed_comes_back(pairs: list[tuple[str | None, int]]) -> None:
    unique = list({name: (name, weight) for name, weight in pairs if name is not None}.values())
    found = declared_table(with_rows(rows(*unique)), "suspects")
    assert found is not None
    assert [tuple(row.values()) for row in found.table().to_pylist()] == unique


MANY = [str(number * 7919**3) for number in range(90_000)]
COLUMNS = "suspects (name STRING, weight BIGINT)"


def test_a_key_that_comes_twice_is_refused_where_it_is_published() -> None:
    with pytest.raises(QueryError, match=r"lookup.suspects has a key \(name\) twice"):
        parse(with_rows(rows(("ann", 1), ("ann", 2))))
    assert answer(with_rows(rows((None, 1), (None, 2), ("ann", 3))))[0]["w"] == 3


BOMB = base64.b64encode(zstandard.ZstdCompressor().compress(bytes(200 << 20))).decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((COLUMNS, "suspects (name TEXTS)"), "`name` is not a valid column"),
        ((COLUMNS, "suspects (name STRING, name STRING)"), "`name` is not a valid column"),
        ((COLUMNS, "suspects (name STRING)"), "lookup.suspects has no column weight"),
        (("weight BIGINT)", "weight BIGINT) AS $$ !!! $$"), "the data of table suspects is damaged"),
        (("weight BIGINT)", f"weight BIGINT) AS $$ {BOMB} $$"), "the data of table suspects is damaged"),
        (("weight BIGINT)", "weight BIGINT"), "is not a valid column|expected"),
        (("TABLE suspects", "TABLE suspects (x STRING) TABLE suspects"), "table suspects is duplicated"),
        (("weight BIGINT)", f"weight BIGINT) AS $$ {'A' * (DATA_CHARS_MAX + 4)} $$"), "is longer than"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be_are_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse(TEXT.replace(*change))


def test_data_that_unfolds_within_is_refused() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"name": ["a" * 100_000], "weight": [1]})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data = base64.b64encode(zstandard.ZstdCompressor().compress(sink.getvalue())).decode()
    with pytest.raises(QueryError, match="is damaged: an Arrow stream with compressed buffers"):
        parse(TEXT.replace("weight BIGINT)", f"weight BIGINT) AS $$ {data} $$"))


def test_data_of_other_columns_is_refused() -> None:
    data = packed(pa.table({"other": ["a"]}))
    with pytest.raises(QueryError, match="has columns that differ from its declaration"):
        parse(TEXT.replace("weight BIGINT)", f"weight BIGINT) AS $$ {data} $$"))


def test_a_query_is_given_its_own_tables_first() -> None:
    def of_the_host(name: str, columns: tuple[str, ...]) -> pa.Table:
        raise AssertionError(name)

    assert Query(parse(with_rows(rows(("ann", 1)))), lookup=of_the_host).columns == ("user", "n", "w")
