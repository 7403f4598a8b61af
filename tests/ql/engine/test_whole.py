"""A whole statement: which parts read which records here, and what their outcomes are together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import Query, parse
from elfmesh.ql.engine.block import BlockRows

BATCH = pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "x"]})


def test_all_columns_must_be_named_first() -> None:
    with pytest.raises(QueryError, match=r"SELECT \* needs the columns of the log"):
        Query(parse("SELECT * FROM s"))


@pytest.mark.parametrize(
    ("labels", "carried", "streams"),
    [
        (None, ("s", "t", "u"), ("s", "t")),
        ({"role": "web"}, ("s", "t"), ("s", "t")),
        ({"role": "db"}, ("s", "t"), ("t",)),
        ({}, ("s",), ()),
        ({"role": "web"}, ("t",), ("t",)),
    ],
)
def test_an_agent_reads_the_streams_that_it_has_and_its_labels_allow(
    labels: dict[str, str] | None, carried: tuple[str, ...], streams: tuple[str, ...]
) -> None:
    text = "SELECT a FROM s ON (role = 'web') UNION ALL SELECT a FROM t"
    assert Query(parse(text), labels).streams_of(carried) == streams


UNION = "SELECT a FROM s WHERE a > 1 UNION ALL SELECT a FROM s WHERE b = 'x' AND a > 2"


def test_a_record_is_contributed_once_if_any_part_keeps_it_and_filtered_if_none_does() -> None:
    done = Query(parse(UNION)).prepare(BATCH, "s")
    assert (dict(done.kept), dict(done.filtered)) == ({0: 2}, {0: 1})
    assert {name: table.num_rows for name, table in done.tables.items()} == {"main@0": 2, "main@1": 1}
    assert {name: list(places) for name, places in done.places.items() if places is not None} == {
        "main@0": [0, 1], "main@1": [1],
    }  # fmt: skip


def test_records_of_another_stream_meet_only_its_parts() -> None:
    query = Query(parse("SELECT a FROM s UNION ALL SELECT a FROM t"))
    assert list(query.prepare(BATCH, "t").tables) == ["main@1"]
    assert list(query.prepare(BATCH).tables) == ["main@0", "main@1"]


def test_counts_are_per_interval() -> None:
    text = "SELECT count(*) AS n FROM s JOIN t ON s.a = t.a WHERE s.b = 'x' GROUP BY TUMBLE(s.ts, '1 s')"
    times = pa.array([0, 1_000_000, 1_500_000], pa.timestamp("us", "UTC"))
    done = Query(parse(text)).prepare(BATCH.append_column("ts", times), "s")
    assert (dict(done.kept), dict(done.filtered)) == ({0: 1, 1: 1}, {1: 1})


def test_without_records_an_interval_has_no_rows_and_a_query_of_everything_has() -> None:
    query = Query(parse("SELECT (SELECT count(*) FROM s) AS n, 1 AS one FROM t"))
    assert query.finalise({}, (0, 1)).num_rows == 0
    total = Query(parse("SELECT n + 1 AS m FROM (SELECT count(*) AS n FROM s)"))
    assert total.finalise({}, None).to_pylist() == [{"m": 1}]


def test_a_format_that_lacks_a_column_is_met_by_its_stream_only() -> None:
    query = Query(parse("SELECT a FROM s UNION ALL SELECT c FROM t"))
    query.check_schema(BATCH.schema, "s")
    with pytest.raises(QueryError, match="c"):
        query.check_schema(BATCH.schema, "t")


def test_reduced_rows_of_one_input_are_those_of_its_parts() -> None:
    reduced = Query(parse(UNION)).reduced("s", BlockRows.of(BATCH))
    assert sorted(reduced) == ["main@0", "main@1"]
    assert Query(parse(UNION)).reduced("s", BlockRows.of(BATCH.slice(0, 0))) == {}


def test_people_read_where_no_text_was_a_list() -> None:
    query = Query(parse("SELECT e FROM s LATERAL VIEW explode(b) v AS e"))
    query.finalise_parts(query.reduced("s", BlockRows.of(BATCH)), None)
    (found,) = query.untaken
    assert "no text there is a JSON array, as 'x'" in found or "as 'y'" in found
