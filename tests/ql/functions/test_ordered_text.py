"""Lists with ORDER BY: keys are ordered as ORDER BY orders the values; any split gives the same answer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt.sort_bytes import sort_bytes
from elfmesh.ql import Query, expand, parse
from tests.ql.conftest import run
from tests.ql.refusals import refusal

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals(-(10**20), 10**20, places=2),
)
VALUES = st.one_of(
    st.lists(NUMBERS, min_size=2, max_size=2),
    st.lists(st.binary(max_size=4), min_size=2, max_size=2),
    st.lists(st.text("a\0b\xff", max_size=4), min_size=2, max_size=2),
    st.lists(st.booleans(), min_size=2, max_size=2),
)


def exact(value: Any) -> Any:
    """As ORDER BY compares: doubles by the decimal they are written as, texts by their bytes."""
    if isinstance(value, float) and abs(value) != float("inf"):
        return Decimal(repr(value))
    return value.encode() if isinstance(value, str) else value


@given(VALUES, st.sampled_from(["a", "d"]))
def test_keys_compare_as_values_do(values: list[Any], way: str) -> None:
    one, other = (sort_bytes(value, f"{way}l") for value in values)
    first, second = map(exact, values)
    below, above = (one < other, one > other) if way == "a" else (one > other, one < other)
    assert (below, above) == (first < second, first > second)


@given(VALUES)
def test_no_key_is_the_beginning_of_another(values: list[Any]) -> None:
    for way in ("af", "dl"):
        one, other = (sort_bytes(value, way) for value in values)
        assert one == other or not (one.startswith(other) or other.startswith(one))


@pytest.mark.parametrize("value", [float("nan"), -5, 5.0, "", b"\xff"])
@pytest.mark.parametrize("direction", ["a", "d"])
def test_nulls_have_the_place_that_is_asked_for(value: Any, direction: str) -> None:
    assert sort_bytes(None, f"{direction}f") < sort_bytes(value, f"{direction}f")
    assert sort_bytes(None, f"{direction}l") > sort_bytes(value, f"{direction}l")


@pytest.mark.parametrize(
    ("kind", "unit"), [(pa.date32(), 86_400_000_000), (pa.timestamp("us", tz="UTC"), 1), (pa.int64(), 1)]
)
def test_a_time_is_ordered_by_its_microseconds(kind: pa.DataType, unit: int) -> None:
    """Agents of the release before send these keys too. Python lacks some of these times."""
    numbers = [3_000_000, -800_000, 0, None]
    table = pa.table({"x": ["a", "b", "c", "d"], "y": pa.array(numbers, kind)})
    query = Query(expand(parse("SELECT listagg(x) WITHIN GROUP (ORDER BY y) AS t FROM s"), ["x", "y"]))
    sent = query.prepare(table.to_batches()[0]).tables["main"].column("v0").to_pylist()
    keys = [sort_bytes(None if each is None else each * unit).hex() for each in numbers]
    assert sent == [f"\x01{key}{x}{len(key):08x}" for key, x in zip(keys, "abcd", strict=True)]
    (found,) = run("SELECT listagg(x) WITHIN GROUP (ORDER BY y) AS t FROM s", table).values()
    assert found.column("t").to_pylist() == ["dbca"]


def test_nan_is_the_greatest_number() -> None:
    assert sort_bytes(float("nan"), "al") > sort_bytes(float("inf"), "al") > sort_bytes(10**18, "al")


ROWS = {"x": ["a", "b", "c", None], "y": [2, 1, None, 0], "z": [1, 1, 1, 1]}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("y", "c,b,a"),
        ("y DESC", "a,b,c"),
        ("y NULLS LAST", "b,a,c"),
        ("y DESC NULLS FIRST", "c,a,b"),
        ("z, x DESC", "c,b,a"),
    ],
)
def test_texts_are_joined_in_order(order: str, expected: str) -> None:
    (table,) = run(f"SELECT listagg(x, ',') WITHIN GROUP (ORDER BY {order}) AS t FROM s", ROWS).values()
    assert table.column("t").to_pylist() == [expected]


def test_what_has_no_order_is_refused() -> None:
    text = "SELECT listagg(x) WITHIN GROUP (ORDER BY split(x, ',')) AS t FROM s"
    assert "ORDER BY does not work on ARRAY<STRING> | Order by one of its fields." in refusal(text, x=["a"])


LISTED = {
    "bigint": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "double": (st.floats(), pa.float64()),
    "string": (st.text("a\x01\0b'", max_size=3), pa.string()),
    "binary": (st.binary(max_size=3), pa.binary()),
    "boolean": (st.booleans(), pa.bool_()),
    "date": (st.dates(date(1900, 1, 1), date(2100, 1, 1)), pa.date32()),
    "timestamp": (
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
        pa.timestamp("us", "UTC"),
    ),
    "decimal": (st.decimals(-(10**8), 10**8, places=2), pa.decimal128(12, 2)),
}


def sortable(value: Any) -> Any:
    """As ORDER BY compares: NaN is the greatest, and -0.0 is 0.0."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value + 0.0)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", LISTED)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_list_has_the_order_and_type_of_its_values_in_every_split(kind: str, data: st.DataObject) -> None:
    values, arrow = LISTED[kind]
    rows = data.draw(
        st.lists(st.tuples(st.none() | values, st.none() | st.integers(0, 3)), min_size=1, max_size=12)
    )
    falling, first = data.draw(st.booleans()), data.draw(st.booleans())
    limit = data.draw(st.sampled_from([1, 3, 100]))
    present = sorted((row for row in rows if row[0] is not None), key=lambda row: sortable(row[0]))
    numbered = sorted(
        (row for row in present if row[1] is not None), key=lambda row: row[1] or 0, reverse=falling
    )  # sorted() is stable in both directions
    nulls = [row for row in present if row[1] is None]
    expected = [row[0] for row in ([*nulls, *numbered] if first else [*numbered, *nulls])][:limit]
    way = f"{'DESC' if falling else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
    table = pa.table({"x": pa.array([row[0] for row in rows], arrow), "y": [row[1] for row in rows]})
    table = table.set_column(1, "y", table.column("y").cast(pa.int64()))
    text = f"SELECT array_agg(x, {limit} ORDER BY y {way}) AS v FROM s"
    for batch_rows, shuffled in ((1, table), (7, table.take(list(range(len(rows)))[::-1]))):
        (found,) = run(text, shuffled, batch_rows=batch_rows).values()
        kinds = found.column("v").type.value_type
        assert kinds == arrow or not expected
        assert [sortable(each) for each in found.column("v")[0].as_py()] == [*map(sortable, expected)]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("array_agg(x ORDER BY y)", [["c", "b", "a"]]),
        ("array_agg(DISTINCT z ORDER BY z DESC)", [[1]]),
        ("array_agg(y ORDER BY x DESC) FILTER (WHERE y > 0)", [[1, 2]]),
        ("array_agg(upper(x) ORDER BY length(x), y DESC)", [["A", "B", "C"]]),
        ("string_agg(x, '-' ORDER BY y DESC)", ["a-b-c"]),
        ("size(array_agg(x ORDER BY y)) + 1", [4]),
        ("array_agg(x ORDER BY y)[0]", ["c"]),
        ("collect_list(x, 2 ORDER BY x DESC)", [["c", "b"]]),
    ],
)
def test_order_by_stands_inside_the_call(aggregate: str, expected: list[Any]) -> None:
    (table,) = run(f"SELECT {aggregate} AS t FROM s", ROWS).values()
    assert table.column("t").to_pylist() == expected


def test_an_agent_without_values_does_not_change_the_type_of_a_list() -> None:
    halves = [pa.table({"x": pa.nulls(7), "y": range(7)}), pa.table({"x": [2.5, 1.5], "y": [8, 7]})]
    rows = pa.concat_tables(halves, promote_options="permissive")
    (table,) = run("SELECT array_agg(x ORDER BY y) AS t FROM s", rows).values()
    assert table.column("t").to_pylist() == [[1.5, 2.5]]


def test_lists_and_structs_are_listed_in_their_type() -> None:
    rows = {"x": ["b", "a", None, "a"], "d": [date(2024, 5, 1), None, date(2024, 5, 2), date(2024, 5, 3)]}
    rows["y"] = [1, 2, 3, 3]
    (table,) = run(
        "SELECT array_agg(array(x, 'é') ORDER BY y DESC, x NULLS LAST) AS l,"
        " array_agg(struct(d, y + 0.5 AS f, 1.50BD AS e, X'00ff' AS b, array(y) AS n), 2 ORDER BY y) AS s"
        " FROM s",
        rows,
    ).values()
    (row,) = table.to_pylist()
    assert row["l"] == [["a", "é"], [None, "é"], ["a", "é"], ["b", "é"]]
    more = {"e": Decimal("1.50"), "b": b"\x00\xff"}
    assert row["s"] == [
        {"d": date(2024, 5, 1), "f": 1.5, **more, "n": [1]}, {"d": None, "f": 2.5, **more, "n": [2]},
    ]  # fmt: skip


def test_values_of_equal_place_have_the_order_of_lists() -> None:
    rows = {"x": [[2], [1, 9], [], [1]], "y": [0, 0, 0, 0]}
    (table,) = run("SELECT array_agg(x ORDER BY y) AS t FROM s", rows, batch_rows=1).values()
    assert table.column("t").to_pylist() == [[[], [1], [1, 9], [2]]]


def test_a_list_of_maps_is_refused() -> None:
    text = "SELECT array_agg(map('a', x) ORDER BY x) AS t FROM s"
    assert "MAP<STRING,STRING> cannot be aggregated" in refusal(text, x=["a"])
