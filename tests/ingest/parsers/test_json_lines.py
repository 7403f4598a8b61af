from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers.json_lines import JsonParser


def column(block: bytes, name: str, parser: JsonParser | None = None) -> pa.Array:
    return (parser or JsonParser()).parse(block, [name]).batch.column(0)


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
