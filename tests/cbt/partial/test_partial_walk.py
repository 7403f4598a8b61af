"""Streams of blocks are merged prefix by prefix, into blocks of a good size."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard

from elfmesh.cbt import (
    CompressedBufferTree,
    encode_partial,
    encode_parts,
    merge_partials,
)
from elfmesh.cbt.partial import partial_walk, partial_wire
from elfmesh.cbt.partial.partial_wire import open_partial
from tests.hostile.memory import peak_bytes

HEADER_AT = 13


def large(seed: int, rows: int, keys: int, key_type: pa.DataType, nulls: bool) -> dict[str, Any]:
    """A table of many keys: as text, or as numbers of one type or another, with or without null."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, keys, rows)
    column = pa.array([f"/page/{n}" for n in numbers]) if key_type == pa.string() else pa.array(numbers)
    column = column.cast(key_type)
    if nulls:
        column = pa.concat_arrays([column[1:], pa.nulls(1, key_type)])
    return {"k": column, "v": rng.integers(0, 50, rows) / 4, "t": pa.array(["x", "y"]).take(numbers % 2)}


def test_many_parts_of_many_blocks_keep_blocks_of_a_good_size() -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": large(1, 300_000, 2**40, pa.int64(), False)["k"]}))
    whole = {"main": tree.partial()}
    for data in encode_parts(whole, 16):
        blocks = [*open_partial(data)["main"].sorted()]
        assert 1 <= len(blocks) <= 16
        assert sum(block.count for block in blocks) > 10_000
    (content,) = open_partial(encode_partial(whole)).values()
    assert max(block.nbytes for block in content.sorted()) <= partial_walk.BLOCK_BYTES_WANTED


def test_keys_that_share_long_beginnings_are_cut_by_what_they_unfold_to() -> None:
    beginning = "https://example.org/one/long/path/" * 40
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": [f"{beginning}{i}" for i in range(50_000)]}))
    data = encode_partial({"main": tree.snapshot()})
    blocks = list(open_partial(data)["main"].sorted())
    assert sum(block.count for block in blocks) == 50_000
    assert max(block.run.key_bytes for block in blocks) <= partial_walk.BLOCK_BYTES_WANTED
    assert merge_partials([data, data])


def test_rows_that_all_belong_to_one_part_are_cut_like_others() -> None:
    wide = CompressedBufferTree(["g", "k"], {"n": ("count", None)})
    for start in range(0, 90_000, 10_000):
        keys = [f"{i * 7919 % 1_000_003:0800d}" for i in range(start, start + 10_000)]
        wide.insert(pa.record_batch({"g": ["a"] * 10_000, "k": keys}))
    groups = CompressedBufferTree(["g"], {"n": ("count", None)})
    groups.insert(pa.record_batch({"g": ["a"]}))
    parts = encode_parts({"main": groups.snapshot(), "d0": wide.snapshot()}, 16)
    (part,) = (part for part in parts if part)
    assert sum(block.count for block in open_partial(part)["d0"].sorted()) == 90_000


def take_apart(data: bytes) -> tuple[list[Any], list[bytes]]:
    """The header as plain lists, and the unfolded content of every block."""
    (size,) = struct.unpack_from(">I", data, 9)
    header = msgspec.msgpack.decode(data[HEADER_AT : HEADER_AT + size])
    at, raws = HEADER_AT + size, []
    for table in header:
        for block in table[3]:
            raws.append(zstandard.ZstdDecompressor().decompress(data[at : at + block[0]]))
            at += block[0]
    return header, raws


def test_merging_holds_one_block_of_each_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are read as they are merged: no part is unfolded as a whole."""
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": np.arange(300_000)}))
    data = encode_partial({"main": tree.partial()})
    blocks = len(take_apart(data)[1])
    assert blocks >= 16
    events: list[str] = []
    stream, writer = partial_wire.WireStream, partial_wire.PartialWriter
    take, add = stream.take, writer.add_block

    def noted(name: str, method: Any) -> Any:
        def wrapper(*args: Any) -> Any:
            events.append(name)
            return method(*args)

        return wrapper

    monkeypatch.setattr(stream, "take", noted("take", take))
    monkeypatch.setattr(writer, "add_block", noted("add", add))
    merge_partials([data, data, data])
    assert events == ["take", "take", "take", "add"] * blocks


def test_the_memory_of_a_merge_is_that_of_a_few_blocks() -> None:
    rows = 400_000
    tree = CompressedBufferTree(["k"], {"n": ("count", None), "s": ("sum", "v")})
    tree.insert(pa.record_batch({"k": np.arange(rows), "v": np.arange(rows) / 4}))
    data = encode_partial({"main": tree.snapshot()})
    unfolded = sum(block.nbytes for block in partial_wire.open_partial(data)["main"].sorted())
    limit = unfolded / 2 + 2 * len(merge_partials([data] * 4))
    assert peak_bytes(lambda: merge_partials([data] * 4), limit) < limit
