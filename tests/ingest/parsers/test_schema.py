"""Types of the fields of a stream: what is seen first decides, and then they stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.schema import BOOL, FLOAT, INT, NULL, STRING, StreamSchema, timestamps


def column(block: bytes, name: str, parser: JsonParser | None = None) -> pa.Array:
    return (parser or JsonParser()).parse(block, [name]).batch.column(0)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ("true null false", pa.bool_(), [True, None, False]),
        ("1 2 null", pa.int64(), [1, 2, None]),
        ("1 2.5", pa.float64(), [1.0, 2.5]),
        ('"a" "é"', pa.string(), ["a", "é"]),
        ('1 "a" true {"k":1}', pa.string(), ["1", "a", "true", '{"k":1}']),
        ("[1,2] null", pa.string(), ["[1,2]", None]),
        ("null null", pa.null(), [None, None]),
        ("18446744073709551616 1", pa.int64(), [None, 1]),
    ],
)
def test_types_are_inferred_from_the_first_block(
    values: str, kind: pa.DataType, expected: list[object]
) -> None:
    block = "\n".join(f'{{"v":{value}}}' for value in values.split(" ")).encode()
    found = column(block, "v")
    assert found.type == kind
    assert found.to_pylist() == expected


def test_types_stay_stable_over_blocks_and_misfits_are_null_and_counted() -> None:
    schema = StreamSchema()
    parser, other_file = JsonParser(schema=schema), JsonParser(schema=schema)
    assert column(b'{"v":null}', "v", parser).type == pa.null()
    assert column(b'{"v":1}', "v", parser).type == pa.int64()
    misfit = other_file.parse(b'{"v":"x"}\n{"v":5}', ["v"])
    assert misfit.batch.column(0).to_pylist() == [None, 5]
    assert (misfit.errors, misfit.field_errors) == (0, 1)
    assert misfit.samples == ["v is not int64: 'x'"]
    assert column(b'{"v":null}', "v", parser).type == pa.int64()
    assert column(b'{"v":0.5}', "v", parser).type == pa.float64()
    assert column(b'{"v":3}', "v", parser).to_pylist() == [3.0]
    assert column(b'{"v":3}', "v", other_file).type == pa.float64()


def test_a_declared_type_never_changes() -> None:
    parser = JsonParser(schema=StreamSchema({"v": pa.int64()}))
    assert column(b'{"v":0.5}\n{"v":2}', "v", parser).to_pylist() == [None, 2]


def test_a_string_column_keeps_other_scalars_as_their_text() -> None:
    parser = JsonParser()
    column(b'{"v":"a"}', "v", parser)
    assert column(b'{"v":1}\n{"v":false}', "v", parser).to_pylist() == ["1", "false"]


def test_event_times_keep_their_exact_value_whatever_stands_beside_them() -> None:
    """Neither a float in the same block nor a number that no time can be costs another line its time."""
    lines = [
        b'{"ts": 1779999999000000001}',
        b'{"ts": -9223372036854775808}',
        b'{"ts": 1780000001.5}',
        b'{"ts": "2015-05-17T10:00:00Z"}',
    ]
    parser = StreamFormat("json").parser("log")
    together = parser.parse(b"\n".join(lines) + b"\n", ["ts"]).batch.column(0).to_pylist()
    alone = [parser.parse(line + b"\n", ["ts"]).batch.column(0).to_pylist()[0] for line in lines]
    assert together == alone
    assert together[0] is not None


@pytest.mark.parametrize(
    ("first", "then", "settled"),
    [
        (INT, INT, INT),
        (INT, FLOAT, FLOAT),  # once, and back never
        (FLOAT, INT, FLOAT),
        (BOOL, INT, None),
        (INT, STRING, None),
        (STRING, NULL, STRING),
        (NULL, BOOL, BOOL),
    ],
)
def test_a_column_of_one_kind_settles_or_each_value_is_looked_at(
    first: pa.DataType, then: pa.DataType, settled: pa.DataType | None
) -> None:
    schema = StreamSchema()
    schema.settle("x", first)
    assert schema.settle("x", then) == settled


def test_where_objects_were_seen_each_value_is_looked_at() -> None:
    schema = StreamSchema()
    array, bad = schema.column("x", [{"a": 1}, "b", None])
    assert (array.to_pylist(), bad) == (['{"a":1}', "b", None], [])
    assert schema.settle("x", STRING) is None
    assert schema.column("x", ["c"])[0].to_pylist() == ["c"]


def test_values_that_do_not_fit_are_null_and_named_by_their_places() -> None:
    schema = StreamSchema({"x": INT})
    array, bad = schema.column("x", [1, "a", 2**70, None, True])
    assert (array.to_pylist(), bad) == ([1, None, None, None, None], [1, 2, 4])


def test_what_is_no_time_is_null() -> None:
    assert timestamps([True, [], {}, None]).to_pylist() == [None] * 4
