"""Columns and types of a history's DataFrame, and how its work is cut, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import DataError
from elfmesh.ql import parse
from elfmesh.spark_bridge.history.frames import (
    HEAD,
    framed,
    grouped,
    is_projection,
    result_schema,
    wanted,
)
from elfmesh.spark_bridge.history.inputs import FilePiece


@given(st.integers(0, 300), st.integers(1, 40))
def test_pieces_are_divided_in_their_order_into_few_groups(count: int, most: int) -> None:
    pieces = [FilePiece("log", str(at)) for at in range(count)]
    found = grouped(pieces, most)
    assert [piece for group in found for piece in group] == pieces
    assert len(found) <= most
    assert all(found)
    assert len({len(group) for group in found[:-1]}) <= 1


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("SELECT a FROM log", True),
        ("SELECT a + 1 AS b FROM log WHERE a > 3 LIMIT 5", True),
        ("SELECT DISTINCT a FROM log", False),
        ("SELECT a FROM log ORDER BY a", False),
        ("SELECT a FROM log LIMIT 3 OFFSET 1", False),
        ("SELECT a FROM log GROUP BY a", False),
        ("SELECT count(*) FROM log", False),
        ("SELECT sum(a) OVER () FROM log", False),
        ("SELECT l.a FROM log l JOIN other o ON l.a = o.a", False),
    ],
)
def test_a_projection_keeps_rows_one_by_one_in_their_order(text: str, is_one: bool) -> None:
    assert is_projection(parse(text)) is is_one


def types(*tables: tuple[dict[str, Any], bool]) -> dict[bytes, bool]:
    return {pa.table(columns).schema.serialize().to_pybytes(): has_rows for columns, has_rows in tables}


NOTHING = pa.nulls(0)
INT, FLOAT, TEXT = (pa.array([], each) for each in (pa.int32(), pa.float64(), pa.string()))


@pytest.mark.parametrize(
    ("tables", "kind"),
    [
        ([({"a": INT}, True)], pa.int32()),
        ([({"a": INT}, True), ({"a": FLOAT}, True)], pa.float64()),
        ([({"a": NOTHING}, True), ({"a": TEXT}, True)], pa.string()),
        ([({"a": TEXT}, False), ({"a": INT}, True)], pa.int32()),
        ([({"a": TEXT}, False)], pa.string()),
    ],
)
def test_a_column_has_the_type_that_all_with_rows_fit(
    tables: list[tuple[dict[str, Any], bool]], kind: pa.DataType
) -> None:
    schema = result_schema(parse("SELECT a FROM log"), types(*tables))
    assert schema.names == [*HEAD.names, "a"]
    assert schema.field("a").type == kind


@pytest.mark.parametrize(
    ("text", "tables", "message"),
    [
        ("SELECT a FROM log", [({"a": INT}, True), ({"a": TEXT}, True)], "column a has several types"),
        (
            "SELECT a AS Interval_Start FROM log",
            [({"Interval_Start": INT}, True)],
            "are called interval_start",
        ),
    ],
)
def test_columns_that_a_frame_cannot_have_are_refused(
    text: str, tables: list[tuple[dict[str, Any], bool]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        result_schema(parse(text), types(*tables))


ROW = {"interval_index": 4, "start_us": 10, "end_us": None}


def test_rows_stand_behind_their_interval_in_the_types_of_the_frame() -> None:
    schema = pa.schema([*HEAD, ("a", pa.float64())])
    found = framed(ROW, pa.table({"a": pa.array([1, 2], pa.int32())}), schema)
    assert found.schema == schema
    assert found.column("a").to_pylist() == [1.0, 2.0]
    assert found.column("interval_index").to_pylist() == [4, 4]
    assert found.column("interval_end").to_pylist() == [None, None]
    narrow = pa.schema([*HEAD, ("a", pa.int8())])
    with pytest.raises(DataError, match="column a does not fit int8"):
        framed(ROW, pa.table({"a": [1000]}), narrow)


class Frame:
    """A DataFrame's columns, and which of them were selected."""

    def __init__(self, *columns: str) -> None:
        self.columns = list(columns)

    def select(self, *names: str) -> tuple[str, ...]:
        return names


@pytest.mark.parametrize(
    ("columns", "fields", "names"),
    [
        (("a", "b"), ["b"], ("`b`",)),
        (("a", "b"), ["a.x", "b.y"], ("`a`", "`b`")),
        (("a.x", "b"), ["a.x"], ("`a.x`",)),
        (("a`b",), ["a`b"], ("`a``b`",)),
        (("a", "b"), ["none"], ("`a`",)),
        (("a", "b"), [], ("`a`",)),
    ],
)
def test_only_columns_that_are_wanted_are_read_and_one_at_least(
    columns: tuple[str, ...], fields: list[str], names: tuple[str, ...]
) -> None:
    assert wanted(Frame(*columns), fields) == names
