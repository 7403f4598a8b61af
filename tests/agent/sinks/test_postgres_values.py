"""Arrow values as PostgreSQL takes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.agent.sinks.postgres_values import column_type, rows_of, storable


def test_nul_in_json_is_replaced_and_a_backslash_before_u0000_is_not_nul() -> None:
    assert storable('"a\\u0000b"') == '"a\ufffdb"'
    assert storable('"a\\\\u0000b"') == '"a\\\\u0000b"'
    assert storable('"a\\\\\\u0000b"') == '"a\\\\\ufffdb"'


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.bool_(), "boolean"),
        (pa.int64(), "bigint"),
        (pa.float64(), "double precision"),
        (pa.decimal128(38, 6), "numeric"),
        (pa.timestamp("us", "UTC"), "timestamp with time zone"),
        (pa.date32(), "date"),
        (pa.binary(), "bytea"),
        (pa.string(), "text"),
        (pa.null(), "text"),
        (pa.list_(pa.string()), "jsonb"),
        (pa.map_(pa.string(), pa.int64()), "jsonb"),
    ],
)
def test_the_type_of_a_column(kind: pa.DataType, name: str) -> None:
    assert column_type(kind) == name


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array(["a\0b", None]), ["a\ufffdb", None]),
        (pa.array([b"\0", None]), [b"\0", None]),
        (pa.array([0, None], pa.timestamp("us", "UTC")), ["1970-01-01T00:00:00Z", None]),
        (pa.array([2**62, -(2**62)], pa.timestamp("us", "UTC")), ["infinity", "-infinity"]),
        (pa.array([["a\0"], None]), ['["a\ufffd"]', None]),
        (pa.array([1.5, None]), [1.5, None]),
    ],
)
def test_values_have_their_place_in_the_key_before_them(column: pa.Array, values: list[object]) -> None:
    assert list(rows_of(pa.table({"x": column}), "1a2b")) == [
        ("1a2b", at, each) for at, each in enumerate(values)
    ]
