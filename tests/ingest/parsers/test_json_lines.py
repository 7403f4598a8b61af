from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.schema import StreamSchema


def column(block: bytes, name: str, parser: JsonParser | None = None) -> pa.Array:
    return (parser or JsonParser()).parse(block, [name]).batch.column(0)


def test_nested_fields_are_reached_by_dots() -> None:
    block = b'{"a":{"b":{"c":1}}}\n{"a":{"b":7}}\n{"a":null}\n{"x":1}\n{"a":{"b":{"c":2}}}\n'
    assert column(block, "a.b.c").to_pylist() == [1, None, None, None, 2]


def test_a_key_with_dots_is_taken_where_the_path_leads_nowhere() -> None:
    block = b'{"log.level":"warn"}\n{"log":{"level":"info"}}\n'
    assert column(block, "log.level").to_pylist() == ["warn", "info"]


def test_a_key_with_dots_is_found_at_any_depth_behind_the_nested_one() -> None:
    block = (
        b'{"zones":{"a.example.org":{"codes":{"5xx":1}}}}\n'
        b'{"zones.a":{"example":{"org":{"codes":{"5xx":2}}}}}\n'
        b'{"zones":{"a":{"example":{"org":{"codes":{"5xx":3}}}},"a.example.org":{"codes":{"5xx":9}}}}\n'
        b'{"zones":{"a.example":{"org.codes":{"5xx":4}}}}\n'
    )
    parsed = JsonParser().parse(block, ["zones.a.example.org.codes.5xx"])
    assert parsed.batch.column(0).to_pylist() == [1, 2, 3, None], "one key with dots, not two"
    both = JsonParser().parse(block, ["zones.a.example.org.codes.5xx", "zones"])
    assert both.batch.column(0).to_pylist() == [1, 2, 3, None]


def test_a_very_long_path_is_nested_or_one_key() -> None:
    path = ".".join("abcdefghijklmnopqrst")
    assert column(b'{"%s":1}\n' % path.encode(), path).to_pylist() == [1]


def test_a_field_and_its_parent_can_be_asked_together() -> None:
    parsed = JsonParser().parse(b'{"u":{"n":"x","k":[1, 2]}}\n{"u":3}\n', ["u.n", "u", "u.k"])
    assert parsed.batch.to_pylist() == [
        {"u.n": "x", "u": '{"n":"x","k":[1,2]}', "u.k": "[1,2]"},
        {"u.n": None, "u": "3", "u.k": None},
    ]


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


def test_ts_is_the_first_usual_field_of_each_record() -> None:
    block = (
        b'{"eventTime":"2015-05-17T10:00:00Z"}\n{"time":1431856800,"ts":"2015-05-17T10:00:01Z"}\n{"a":1}\n'
    )
    noon = datetime(2015, 5, 17, 10, 0, 0, tzinfo=UTC)
    assert column(block, "ts").to_pylist() == [noon, noon.replace(second=1), None]


def test_ts_may_mix_numbers_and_text() -> None:
    block = b'{"ts":1431856800}\n{"ts":"2015-05-17T10:00:00Z"}\n{"ts":1431856800.5}\n{"ts":[]}\n{"ts":"soon"}'
    found = column(block, "ts").to_pylist()
    assert found[0] == found[1] == datetime(2015, 5, 17, 10, tzinfo=UTC)
    assert found[2].microsecond == 500_000
    assert found[3:] == [None, None]


def test_ts_of_a_declared_field() -> None:
    parser = JsonParser(timestamp="meta.at")
    found = column(b'{"meta":{"at":"2015-05-17T10:00:00Z"},"ts":"2000-01-01T00:00:00Z"}', "ts", parser)
    assert found.to_pylist() == [datetime(2015, 5, 17, 10, tzinfo=UTC)]


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[1]",
        b"3",
        b"nonsense",
        b'{"v":1}{"v":2}',
        b'{"v":1},',
        b'{"v":"\x00"}',
        b'{"v":NaN}',
        b'{"v":"\\ud800"}',
        b'{"v":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_one_bad_line_costs_one_line(bad: bytes) -> None:
    parsed = JsonParser().parse(b'{"v":1}\n' + bad + b'\n{"v":2}\n', ["v"])
    assert parsed.batch.column(0).to_pylist() == [1, 2]
    assert (parsed.lines, parsed.errors, len(parsed.samples)) == (3, 1, 1)


def test_a_record_over_two_lines_is_two_errors_even_beside_two_on_one() -> None:
    parsed = JsonParser().parse(b'{"v":1}{"v":2}\n{"v":\n3}\n{"v":4}\n', ["v"])
    assert parsed.batch.column(0).to_pylist() == [4]
    assert parsed.errors == 3


json_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.dictionaries(st.sampled_from("abc"), json_value, max_size=3), max_size=5), max_size=3
    )
)
def test_any_objects_in_any_blocks_give_a_row_each(blocks: list[list[dict[str, object]]]) -> None:
    parser = JsonParser()
    for records in blocks:
        block = "\n".join(json.dumps(record) for record in records).encode("utf-8", "surrogatepass")
        parsed = parser.parse(block, ["a", "b.c", "ts", "c", "a.b"])
        assert parsed.batch.num_rows + parsed.errors == parsed.lines
        parsed.batch.validate(full=True)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash_it(block: bytes) -> None:
    parsed = JsonParser().parse(block, ["a", "_raw"])
    assert parsed.batch.num_rows + parsed.errors == parsed.lines


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
