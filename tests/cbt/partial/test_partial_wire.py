"""Bytes of partials from outside: damaged, cut, hostile with a right checksum, over the limits."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt import (
    CompressedBufferTree,
    PartialTooLarge,
    decode_partial,
    encode_partial,
    encode_parts,
    finish,
    finish_parts,
    merge_partials,
    split_partial,
)
from elfmesh.cbt.partial import partial_wire
from elfmesh.errors import ProtocolError
from tests.hostile.memory import peak_bytes

PLAN = {
    "n": ("count", None),
    "s": ("sum", "v"),
    "lo": ("min", "v"),
    "hi": ("max", "t"),
    "c": ("count", "t"),
    "q": ("sumsq", "v"),
}
HEADER_AT = 13


def partial_of(keys: Any, **plan: Any) -> dict[str, pa.Table]:
    rows = len(keys)
    batch = pa.record_batch(
        {
            "k": keys,
            "v": pa.array([None if i % 3 == 1 else i / 4 for i in range(rows)], pa.float64()),
            "t": pa.array(["x" * (i % 4) for i in range(rows)]),
        }
    )
    tree, distinct = CompressedBufferTree(["k"], plan or PLAN), CompressedBufferTree(["k", "t"], {})
    tree.insert(batch)
    distinct.insert(batch)
    return {"main": tree.partial(), "d0": distinct.partial()}


SAMPLES = [
    encode_partial(partial_of(pa.array(["a", None, "ü\0"] * 5))),
    encode_partial(partial_of(pa.array(range(40)))),
    encode_partial(partial_of(pa.array([f"/page/{i}" for i in range(9_000)]))),
]


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


def put_together(header: Any, raws: list[bytes]) -> bytes:
    """What a hostile peer does: any content, with right lengths of frames and a right checksum."""
    frames = [zstandard.ZstdCompressor(level=1).compress(raw) for raw in raws]
    left = iter(frames)
    for table in header:
        for block in table[3]:
            block[0] = len(next(left))
    return seal(msgspec.msgpack.encode(header), b"".join(frames))


def seal(header: bytes, frames: bytes = b"") -> bytes:
    body = struct.pack(">I", len(header)) + header + frames
    return struct.pack(">4sBI", b"EPAO", 2, zlib.crc32(body)) + body


def use(data: bytes) -> None:
    """What passes must be usable to the end: merged, split, finished, read. Else it is a ProtocolError."""
    try:
        tables = decode_partial(data)
    except ProtocolError:
        for other in (
            lambda: merge_partials([data, data]),
            lambda: [[*t.blocks()] for t in finish_parts([data]).values()],
        ):
            with pytest.raises(ProtocolError):
                other()
        return
    for table in finish(tables).values():
        table.validate(full=True)
        table.to_pylist()
    decode_partial(merge_partials([data, data]))
    split_partial(data, 3)


def test_taking_apart_and_putting_together_changes_nothing() -> None:
    for data in SAMPLES:
        again = decode_partial(put_together(*take_apart(data)))
        assert all(again[name].equals(table) for name, table in decode_partial(data).items())


@given(st.integers(0, len(SAMPLES[0]) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_noticed(place: int, flip: int) -> None:
    damaged = bytearray(SAMPLES[0])
    damaged[place] ^= flip
    with pytest.raises(ProtocolError):
        decode_partial(bytes(damaged))


@given(st.integers(1, len(SAMPLES[0]) - 1))
def test_any_truncation_is_noticed(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_partial(SAMPLES[0][:size])


@given(st.binary(min_size=1, max_size=200))
@example(b"EPAO")
@example(struct.pack(">4sBI", b"EPAO", 2, 0))
@example(struct.pack(">4sBII", b"EPAO", 2, zlib.crc32(b"\xff\xff\xff\xff"), 2**32 - 1))
def test_noise_is_refused(data: bytes) -> None:
    for noise in (data, seal(data), seal(b"\x90", data)):
        with pytest.raises(ProtocolError):
            decode_partial(noise)


@given(
    st.sampled_from([0, 1]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
)
@settings(max_examples=400, deadline=None)
def test_hostile_content_of_blocks_never_crashes(sample: int, changes: list[tuple[int, int]]) -> None:
    header, raws = take_apart(SAMPLES[sample])
    damaged = [bytearray(raw) for raw in raws]
    for place, value in changes:
        raw = damaged[place % len(damaged)]
        raw[place // len(damaged) % len(raw)] = value
    use(put_together(header, [bytes(raw) for raw in damaged]))


NUMBERS = st.sampled_from([-1, 0, 1, 2, 7, 12, 60, 64, 255, 2**31, 2**40, 2**63 - 1, -(2**63)])
WORDS = st.sampled_from(["", "k", "n", "count", "sum", "max", "rows", "limb+0", "kll:200", "int64", "string"])


@given(st.sampled_from([0, 1, 2]), st.lists(st.tuples(st.integers(0, 10**9), NUMBERS, WORDS), max_size=3))
@settings(max_examples=600, deadline=None)
def test_hostile_headers_never_crash(sample: int, changes: list[tuple[int, int, str]]) -> None:
    """Values of the header are replaced by others of their type, wherever they are."""
    header, raws = take_apart(SAMPLES[sample])
    for place, number, word in changes:
        slots = list(_slots(header))
        parent, index = slots[place % len(slots)]
        old = parent[index]
        parent[index] = (
            bool(number % 2) if isinstance(old, bool) else number if isinstance(old, int) else word
        )
    frames = [zstandard.ZstdCompressor(level=1).compress(raw) for raw in raws]
    for raw in (seal(msgspec.msgpack.encode(header), b"".join(frames)), put_together(header, raws)):
        use(raw)


def _slots(value: list[Any]) -> Any:
    for index, item in enumerate(value):
        if isinstance(item, list):
            yield from _slots(item)
        else:
            yield value, index


@given(st.integers(0, 10**6), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_any_changed_byte_of_a_header_never_crashes(place: int, value: int) -> None:
    data = SAMPLES[0]
    (size,) = struct.unpack_from(">I", data, 9)
    header = bytearray(data[HEADER_AT : HEADER_AT + size])
    header[place % size] = value
    use(seal(bytes(header), data[HEADER_AT + size :]))


def hollow(rows: int, blocks: int = 1, columns: int = 1) -> bytes:
    """Constant columns of no keys: no bytes on the wire, some per row in memory."""
    (table,), _ = take_apart(encode_partial({"main": counts(1)}))
    name, kind, data_type = table[2][0]
    table[2] = [[f"{name}{i}", kind, data_type] for i in range(columns)]
    block = table[3][0]
    block[1] = block[1][:1] + block[1][1:] * columns
    block[2][0] = rows
    state = block[2][6][0]
    block[2][6] = [[f"{name}{i}", *state[1:]] for i in range(columns)]
    table[3] = [msgspec.msgpack.decode(msgspec.msgpack.encode(block)) for _ in range(blocks)]
    return put_together([table], [bytes(sum(block[1]))] * blocks)


def counts(rows: int) -> pa.Table:
    tree = CompressedBufferTree([], {"n": ("count", None)})
    tree.insert(pa.record_batch({"x": range(rows)}))
    return tree.partial()


def test_a_block_that_unfolds_from_nothing_is_refused_by_what_it_states() -> None:
    def refused() -> None:
        for data in (hollow(1 << 40), hollow(1 << 22, columns=40), hollow(-1), hollow(0)):
            with pytest.raises(ProtocolError, match=r"unfolds to more|block of nothing"):
                decode_partial(data)

    assert peak_bytes(refused, 8 << 20) < 8 << 20


def test_keys_outside_the_range_of_their_block_are_refused() -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": range(200_000)}))
    data = encode_partial({"main": tree.partial()})
    header, raws = take_apart(data)
    blocks = header[0][3]
    assert len(blocks) > 1
    swapped = [blocks[0][2][:], blocks[1][2][:]]
    blocks[0][2][3:5], blocks[1][2][3:5] = swapped[1][3:5], swapped[0][3:5]
    with pytest.raises(ProtocolError, match="not in the place"):
        decode_partial(put_together([[*header[0][:3], [blocks[0]]]], raws[:1]))
    with pytest.raises(ProtocolError, match="out of order"):
        decode_partial(put_together(header, raws))


def test_a_decompression_bomb_is_refused_by_what_it_states_and_by_what_it_gives() -> None:
    header, raws = take_apart(encode_partial({"main": counts(3)}))
    zeros = bytes(64 << 20)
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    frames = [
        zstandard.ZstdCompressor().compress(zeros),
        stream.compress(raws[0] + zeros) + stream.flush(),
    ]
    del zeros

    def refused() -> None:
        for frame in frames:
            header[0][3][0][0] = len(frame)
            with pytest.raises(ProtocolError, match="does not state the size"):
                decode_partial(seal(msgspec.msgpack.encode(header), frame))

    assert peak_bytes(refused, 1 << 20) < 1 << 20


def test_many_keys_go_in_blocks_and_come_back() -> None:
    keys = np.random.default_rng(1).integers(0, 2**62, 200_000)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": keys}))
    data = encode_partial({"main": tree.partial()})
    assert Counter(decode_partial(data)["main"]["k"].to_pylist()) == Counter(set(keys.tolist()))
    assert len(take_apart(data)[1]) > 1


@pytest.mark.parametrize(
    ("limit", "value"), [("BLOCK_BYTES_MAX", 1 << 14), ("PARTIAL_BYTES_MAX", 1 << 15), ("BLOCKS_MAX", 1)]
)
def test_what_receivers_would_refuse_is_not_sent(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more PARTITIONS each part is under the limit: the advice of the error is true."""
    tables = partial_of(pa.array([f"key{i}" for i in range(1_000)]))
    data = encode_partial(tables)
    monkeypatch.setattr(partial_wire, limit, value)
    with pytest.raises(PartialTooLarge, match="PARTITIONS"):
        encode_partial(tables)
    with pytest.raises(ProtocolError):
        decode_partial(data)
    if limit != "BLOCKS_MAX":
        parts = encode_parts(tables, 100)
        assert sum(decode_partial(part)["main"].num_rows for part in parts if part) == 1_000


def test_the_header_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_wire, "HEADER_BYTES_MAX", 100)
    with pytest.raises(PartialTooLarge, match="header"):
        encode_partial(partial_of(pa.array([1, 2])))
    with pytest.raises(ProtocolError, match="header"):
        decode_partial(SAMPLES[0])
