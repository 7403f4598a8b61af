"""Little that unfolds to much: in logs, in blocks and results of peers, in requests."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from elfmesh.cbt.codec.blocks import unfold
from elfmesh.errors import ProtocolError
from elfmesh.ingest.sources.compressed import decoded
from elfmesh.ql.values.plain_ipc import ipc_to_table, table_to_ipc
from tests.agent.sinks.rig import HOSTILE
from tests.hostile.memory import peak_bytes

UNFOLDED = 128 << 20
BLOCK = 1 << 20
ZEROS = bytes(1 << 20)


def zeros_by_zstd(*, declared: bool) -> bytes:
    compressor = zstandard.ZstdCompressor(level=19, write_content_size=declared)
    stream = compressor.compressobj(size=UNFOLDED if declared else -1)
    return b"".join(stream.compress(ZEROS) for _ in range(UNFOLDED >> 20)) + stream.flush()


def zeros_by_gzip() -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        for _ in range(UNFOLDED >> 20):
            file.write(ZEROS)
    return out.getvalue()


@pytest.mark.parametrize(
    "bomb",
    [lambda: zeros_by_zstd(declared=True), lambda: zeros_by_zstd(declared=False), zeros_by_gzip],
    ids=["zstd", "zstd of no stated size", "gzip"],
)
def test_a_log_that_unfolds_without_end_is_read_a_block_at_a_time(bomb: Callable[[], bytes]) -> None:
    data = bomb()
    assert len(data) < UNFOLDED // 500

    def read() -> None:
        sizes = [len(part) for part in decoded(io.BytesIO(data), "log", BLOCK, lambda count: None)]
        assert sum(sizes) == UNFOLDED
        assert max(sizes) <= BLOCK

    assert peak_bytes(read, UNFOLDED // 2) < UNFOLDED // 2


def test_a_file_that_asks_for_a_window_of_gigabytes_is_refused(tmp_path: Path) -> None:
    from elfmesh.errors import DataError

    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = stream.compress(b"x" * 1000) + stream.flush()
    with pytest.raises(DataError, match="damaged"):
        list(decoded(io.BytesIO(data), "log", BLOCK, lambda count: None))


@pytest.mark.parametrize("declared", [True, False])
def test_a_block_of_a_peer_unfolds_to_what_it_may_or_not_at_all(declared: bool) -> None:
    data = zeros_by_zstd(declared=declared)

    def refused() -> None:
        with pytest.raises(ProtocolError):
            unfold(data, [1000])

    assert peak_bytes(refused, 1 << 20) < 1 << 20


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


BOMBS = {
    "compressed": lambda: stream(pa.table({"a": np.zeros(1 << 22)}), "zstd"),
    "compressed by lz4": lambda: stream(pa.table({"a": np.zeros(1 << 22)}), "lz4"),
    "dictionary": lambda: stream(
        pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["x" * 100_000])})
    ),
    "runs": lambda: stream(pa.table({"a": pa.RunEndEncodedArray.from_arrays([1 << 30], [1])})),
    "runs within": lambda: stream(
        pa.table({"a": pa.StructArray.from_arrays([pa.RunEndEncodedArray.from_arrays([9], [1])], ["b"])})
    ),
    "views": lambda: stream(pa.table({"a": pa.array(["x" * 100], pa.string_view())})),
    "rows of nothing": lambda: stream(pa.table({"a": pa.nulls(1 << 22)})),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_results_of_a_peer_are_as_large_as_their_bytes(bomb: str) -> None:
    data = BOMBS[bomb]()
    before = pa.total_allocated_bytes()
    with pytest.raises(ProtocolError):
        ipc_to_table(data)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_every_result_that_a_query_can_have_is_plain() -> None:
    assert ipc_to_table(table_to_ipc(HOSTILE)).schema == HOSTILE.schema
    assert ipc_to_table(table_to_ipc(HOSTILE.slice(0, 0))).num_rows == 0


def test_damaged_heads_are_refused_and_nothing_else_happens() -> None:
    data = table_to_ipc(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}))
    outcomes = Counter[str]()
    for place in range(0, len(data), 3):
        broken = bytearray(data)
        broken[place] ^= 0xFF
        try:
            outcomes["read"] += ipc_to_table(bytes(broken)).num_rows <= 8 * len(data)
        except ProtocolError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 20


def test_gzip_of_an_input_is_unfolded_under_a_limit() -> None:
    from elfmesh.ingest.inputs.http import _Gunzip

    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = bomb.compress(ZEROS * 64) + bomb.flush()
    parts = _Gunzip(1 << 16).push(data)
    assert len(next(parts)) <= 1 << 16, "the rest is only unfolded if it is asked for"
