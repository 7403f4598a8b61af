"""Tables as streams: their columns, blocks and types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh import run
from elfmesh.errors import QueryError, UsageError
from elfmesh.local import table_rows
from elfmesh.local.table_rows import is_table, table_blocks, table_of, with_columns
from elfmesh.ql import parse

TABLE = pa.table({"v": pa.array([1, 2, 3], pa.int8()), "w": [{"x": "a"}, None, {"x": "c"}]})


@pytest.mark.parametrize("value", [TABLE, TABLE.to_batches()[0], TABLE.to_reader()])
def test_forms_of_a_table(value: object) -> None:
    assert is_table(value)
    assert table_of(value) == TABLE


def test_other_values_are_no_tables() -> None:
    assert not any(map(is_table, ("x", b"x", ["x"], {"a": 1}, None)))

    class Broken:
        """Its stream of Arrow cannot be read."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            raise TypeError("no")

    with pytest.raises(UsageError, match="Broken is no table of Arrow: no"):
        table_of(Broken())


def test_blocks_have_the_columns_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "BLOCK_ROWS", 2)
    statement = parse("SELECT v, w, w.x, w.y, _source, _raw FROM t")
    blocks = list(table_blocks(["t"], {"t": TABLE, "other": TABLE}, statement.fields_of))
    assert [parsed.rows for parsed, _, _ in blocks] == [2, 1]
    assert {block.stream for _, block, _ in blocks} == {"t"}
    rows = [row for parsed, _, _ in blocks for row in parsed.batch.to_pylist()]
    assert rows[0] == {"v": 1, "w": '{"x":"a"}', "w.x": "a", "w.y": None, "_source": "t", "_raw": None}
    assert (rows[1]["w"], rows[1]["w.x"]) == (None, None)
    assert blocks[0][0].batch.schema.field("v").type == pa.int64()


def test_star_and_unknown_columns() -> None:
    assert with_columns(parse("SELECT * FROM t"), {"t": TABLE}).columns == ("v", "w")
    with pytest.raises(QueryError, match="t has no column vv"):
        with_columns(parse("SELECT vv FROM t"), {"t": TABLE})


NESTED = pa.table(
    {
        "n": [1, 2, 3],
        "xs": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
        "s": [{"y": ["q"], "m": 1}, None, {"y": [], "m": 2}],
        "o": pa.array([[{"a": 1}], [], None], pa.list_(pa.struct([("a", pa.int64())]))),
    }
)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_lists_and_maps_are_columns_of_rows_that_are_not_grouped(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "BLOCK_ROWS", rows)
    (found,) = run("SELECT n, xs, m, o, s.y FROM t WHERE n < 3", streams={"t": NESTED})
    assert found.drop_columns("y").equals(NESTED.slice(0, 2).drop_columns("s"))
    assert found["y"].to_pylist() == [["q"], None]
    (found,) = run("SELECT transform(xs, x -> x + n) AS x, m['a'] AS a FROM t", streams={"t": NESTED})
    assert found.to_pylist() == [{"x": [2, 3], "a": 1}, {"x": None, "a": None}, {"x": [], "a": None}]
    (found,) = run("SELECT * EXCEPT (s) FROM t LIMIT 2", streams={"t": NESTED})
    assert found.equals(NESTED.slice(0, 2).drop_columns("s"))


def test_a_list_is_a_key_and_a_map_is_none() -> None:
    (table,) = run("SELECT xs, count(*) AS n FROM t GROUP BY xs", streams={"t": NESTED})
    assert sum(row["n"] for row in table.to_pylist()) == NESTED.num_rows
    with pytest.raises(QueryError, match="cannot be grouped"):
        run("SELECT DISTINCT m FROM t", streams={"t": NESTED})
