"""What every parser is: only the asked columns, and each line a row or an error."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.base import LazyArrays, Parsed, join_parsed, make_batch, read_each, sample

ACCESS = b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5'


def test_every_format_has_raw_source_and_host() -> None:
    parser = StreamFormat("json", host="web-1").parser("/var/log/x")
    (row,) = parser.parse(b'{"a": 1}\r\n', ["_raw", "_source", "_host"]).batch.to_pylist()
    assert row == {"_raw": '{"a": 1}', "_source": "/var/log/x", "_host": "web-1"}


def test_malformed_utf8_costs_no_line_and_no_neighbour() -> None:
    block = b'{"a":"x"}\n{"a":"\xff\xfe"}\n{"a":"\xc3"}\n{"a":"y"}\n'
    parsed = StreamFormat("json").parser().parse(block, ["a"])
    assert parsed.batch.column(0).to_pylist() == ["x", "��", "�", "y"]
    assert (parsed.errors, parsed.replaced) == (0, 2)


def test_only_the_selected_columns_are_made() -> None:
    parsed = StreamFormat("combined").parser("f").parse(ACCESS + b' "-" "x"\n', ["agent", "path", "_source"])
    assert isinstance(parsed.arrays, LazyArrays)
    assert parsed.select(["_source", "path"]).to_pylist() == [{"_source": "f", "path": "/"}]
    assert parsed.arrays.made == {"_source", "path"}
    assert parsed.select([]).num_rows == parsed.rows == 1
    assert parsed.batch.schema.names == ["agent", "path", "_source"]
    with pytest.raises(KeyError, match="host"):
        parsed.select(["host"])


def parsed(values: list[object], errors: int, unfit: list[int], samples: list[str]) -> Parsed:
    return Parsed({"x": pa.array(values)}, len(values), len(values) + errors, errors, samples, unfit, errors)


def test_parts_of_a_block_are_one_with_the_places_of_all() -> None:
    parts = [
        parsed([1, 2], 1, [1], ["a", "b"]),
        parsed([None], 0, [], []),
        parsed([3, 4], 2, [0, 1, 1], ["c", "d"]),
    ]
    whole = join_parsed(parts)
    assert whole.arrays["x"].to_pylist() == [1, 2, None, 3, 4]
    assert (whole.rows, whole.lines, whole.errors, whole.field_errors) == (5, 8, 3, 4)
    assert whole.unfit == [1, 3, 4, 4]
    assert (whole.samples, whole.replaced) == (["a", "b", "c"], 2)


def test_a_batch_without_columns_keeps_its_rows() -> None:
    assert make_batch([], [], 7).num_rows == 7


def test_lines_that_cannot_be_read_leave_a_sample_and_no_row() -> None:
    texts = [(0, "1"), (2, "x"), (3, "2"), (4, "y"), (5, "z"), (6, "w")]
    found = read_each(texts, lambda text: int(text) if text.isdigit() else None, lambda text: f"no {text}")
    assert found == ([0, 3], [1, 2], ["no x", "no y", "no z"])


def test_a_sample_is_cut() -> None:
    assert sample("why", "x" * 160) == "why: " + "x" * 160
    assert sample("why", "x" * 161) == "why: " + "x" * 160 + "..."
