"""Schemas of results as Spark reads them, and rows that are given exactly these columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.spark_types import HEAD, UTC, ddl, plain_type, result_rows, row_schema


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.null(), pa.string()),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.timestamp("ns"), UTC),
        (pa.date64(), pa.date32()),
        (pa.decimal256(50, 3), pa.decimal128(38, 3)),
        (pa.large_list(pa.uint8()), pa.list_(pa.int64())),
        (pa.map_(pa.string(), pa.null()), pa.map_(pa.string(), pa.string())),
        (pa.duration("us"), pa.string()),
        (pa.float32(), pa.float32()),
    ],
    ids=str,
)
def test_every_type_has_one_that_spark_can_name(kind: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(kind) == plain
    assert plain_type(plain) == plain


def test_the_text_of_a_schema_quotes_what_is_no_plain_name() -> None:
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("b c", pa.list_(pa.string())),
            ("d`e", pa.struct([("x", pa.bool_()), ("1", pa.date32())])),
            ("m", pa.map_(pa.string(), pa.decimal128(10, 2))),
        ]
    )
    assert ddl(schema) == (
        "a BIGINT, `b c` ARRAY<STRING>, `d``e` STRUCT<x: BOOLEAN, `1`: DATE>, m MAP<STRING, DECIMAL(10,2)>"
    )


def record() -> ResultRecord:
    return ResultRecord(job="a/b", index=3, start_us=0, end_us=1, completeness=0.5)


def test_rows_have_the_columns_of_the_schema_in_its_order() -> None:
    schema = row_schema(pa.schema([("b", pa.float64()), ("lacks", pa.string())]))
    found = result_rows(record(), pa.table({"extra": [1, 2], "b": pa.array([7, None], pa.int32())}), schema)
    assert found.schema == schema
    assert found.select(["interval_index", "completeness", "b", "lacks"]).to_pylist() == [
        {"interval_index": 3, "completeness": 0.5, "b": 7.0, "lacks": None},
        {"interval_index": 3, "completeness": 0.5, "b": None, "lacks": None},
    ]
    assert result_rows(record(), pa.table({"b": pa.array([], pa.int32())}), schema).num_rows == 0


def test_a_value_that_does_not_fit_its_column_is_refused() -> None:
    schema = row_schema(pa.schema([("b", pa.int8())]))
    with pytest.raises(pa.ArrowException):
        result_rows(record(), pa.table({"b": [300]}), schema)
    assert schema.names[: len(HEAD)] == HEAD.names
