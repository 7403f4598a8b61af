"""Bytes of a peer unfold to no more than they are: what a stream of Arrow may contain."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import ProtocolError
from elfmesh.ql.values.plain_ipc import check_plain, ipc_schema, ipc_to_table, table_to_ipc, unfold


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3]),
        pa.array(["a", ""], pa.string()),
        pa.array([[1], None, []], pa.list_(pa.int64())),
        pa.array([{"a": 1}]),
        pa.array([], pa.int64()),
        pa.array([True] * 1000),
    ],
    ids=lambda column: str(column.type),
)
def test_what_we_write_is_plain(column: pa.Array) -> None:
    check_plain(stream(pa.table({"x": column})))


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (pa.array(["a"]).dictionary_encode(), {}, "a column of type dictionary"),
        (pa.array([["a"]]).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))), {}, "of type dictionary"),
        (pa.array(["a"], pa.string_view()), {}, "a column of type string_view"),
        (pa.nulls(1000), {}, "states 1000 rows"),
        (pa.array([7] * 1000), {"compression": "zstd"}, "compressed buffers"),
        (pa.RunEndEncodedArray.from_arrays([1000], [7]), {}, "a column of type run_end_encoded"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_what_unfolds_is_refused(column: pa.Array, options: dict[str, Any], message: str) -> None:
    rows = pa.concat_arrays([column] * 10) if column.type == pa.null() else column
    with pytest.raises(ProtocolError, match=message.replace("1000", str(len(rows)))):
        check_plain(stream(pa.table({"x": rows}), **options))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_frame_unfolds_if_its_declared_size_is_small_enough(data: bytes, bytes_max: int) -> None:
    frame = zstandard.ZstdCompressor().compress(data)
    if len(data) <= bytes_max:
        assert unfold(frame, bytes_max) == data
    else:
        with pytest.raises(ProtocolError, match=f"unfolds to {len(data)} bytes; {bytes_max} are allowed"):
            unfold(frame, bytes_max)


@pytest.mark.parametrize("data", [b"", b"x" * 20])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed zstandard frame"):
        unfold(data, 100)


def test_a_frame_that_does_not_declare_its_size_is_refused() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    with pytest.raises(ProtocolError, match="unfolds to -1 bytes"):
        unfold(compressor.compress(b"a" * 10), 100)


def test_rows_survive_arrow() -> None:
    table = pa.table({"k": ["a", None], "v": pa.array([1, 2], pa.int64())})
    data = table_to_ipc(table)
    assert ipc_to_table(data).equals(table)
    assert ipc_schema(data).equals(table.schema)
    assert ipc_to_table(b"").num_rows == 0


@given(st.binary(max_size=400))
def test_bytes_that_are_no_arrow_stream_are_refused(data: bytes) -> None:
    if data:
        with pytest.raises(ProtocolError):
            ipc_to_table(data)


def test_damaged_arrow_streams_are_refused_or_read() -> None:
    data = bytearray(table_to_ipc(pa.table({"k": ["abc", "def"]})))
    for place in range(0, len(data), 7):
        broken = bytes(data[:place]) + bytes([data[place] ^ 0x55]) + bytes(data[place + 1 :])
        try:
            ipc_to_table(broken)
        except ProtocolError:
            continue
