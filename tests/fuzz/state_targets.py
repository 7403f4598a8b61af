"""What lies on disks and what carries records: partials, checkpoints, frame logs, results logs."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import zstandard

from elfmesh.cbt import (
    CompressedBufferTree,
    TreeLimits,
    decode_partial,
    encode_partial,
    finish_parts,
    merge_partials,
)
from elfmesh.cbt.columns import nested_type
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.nested import nested_keys
from tests.cbt.partial.test_partial_wire import put_together, take_apart
from tests.fuzz.engine import DEAR, Harness
from tests.fuzz.mutate import BYTES, PACKED, changed, mutated, of
from tests.fuzz.wire_targets import repacked

BLOCK = struct.Struct("<II")
EVERYTHING = {
    "n": ("count", None),
    "c": ("count", "t"),
    "s": ("sum", "v"),
    "i": ("sum", "w"),
    "lo": ("min", "v"),
    "hi": ("max", "t"),
    "q": ("sumsq", "v"),
}
SKETCHES = {
    "h": ("hll", "t"),
    "p": ("kll", "v"),
    "f": ("frequent", "t"),
    "d": ("distinct", "w"),
    "a": ("first", ("t", "w")),
    "z": ("last", ("v", "w")),
}


NESTED = pa.list_(pa.struct([("x", pa.float64()), ("m", pa.map_(pa.string(), pa.date32()))]))
LISTS: tuple[Any, ...] = (
    [],
    None,
    [None],
    [{"x": 1.5, "m": [("a", 3), ("", None)]}, {"x": None, "m": []}],
    [{"x": -2.0, "m": None}],
)


def batch(rows: int, seed: int = 1) -> pa.RecordBatch:
    """Rows with nulls, texts, integers and floats."""
    dice = np.random.default_rng(seed)
    return pa.record_batch(
        {
            "k": pa.array([None if at % 11 == 5 else f"/page/{at % 17}" for at in range(rows)]),
            "v": pa.array(
                [None if at % 5 == 1 else float(dice.normal()) for at in range(rows)], pa.float64()
            ),
            "w": pa.array(dice.integers(-(2**40), 2**40, rows)),
            "t": pa.array(["é" * (at % 4) for at in range(rows)]),
            "l": nested_keys(
                pa.array([LISTS[at % len(LISTS)] for at in range(rows)], NESTED), nested_type(NESTED)
            ),
        }
    )


def tree(plan: dict[str, Any], rows: int, keys: tuple[str, ...] = ("k",)) -> CompressedBufferTree:
    """A small tree with rows in it."""
    made = CompressedBufferTree(list(keys), plan)
    if rows:
        made.insert(batch(rows))
    return made


def resealed(rng: random.Random, header: Any, raws: list[bytes], *, in_header: bool) -> bytes | None:
    """Return a partial with another header or chunk and a right checksum; None where it has no encoding."""
    if in_header:
        header = changed(rng, header)
    else:
        at = rng.randrange(len(raws))
        raws = [*raws[:at], mutated(rng, raws[at]), *raws[at + 1 :]]
    try:
        return put_together(copied(header), raws)
    except (StopIteration, TypeError, OverflowError, IndexError, KeyError):
        return None


def partials() -> Harness:
    """Partials of all aggregates: broken bytes, and sealed ones with other headers and other chunks."""
    plans = (EVERYTHING, {name: SKETCHES[name] for name in SKETCHES if SKETCHES[name][0] in LAWS})
    corpus = [
        encode_partial(
            {
                "main": tree(plan, rows).partial(),
                "d0": tree({}, rows, ("k", "t")).partial(),
                "d1": tree({}, rows, ("k", "l")).partial(),
            }
        )
        for plan in plans
        for rows in (1, 6, 60)
    ]
    apart = [take_apart(data) for data in corpus]
    noise = of(corpus, (*BYTES, *PACKED))

    def generate(rng: random.Random) -> bytes:
        draw = rng.random()
        if draw < 0.2:
            return noise(rng)
        return resealed(rng, *rng.choice(apart), in_header=draw < 0.6) or noise(rng)

    def run(data: bytes) -> None:
        tables = decode_partial(data)
        again = merge_partials([data, data])
        assert decode_partial(again).keys() == tables.keys()
        for blocks in finish_parts([data, again]).values():
            for _ in blocks.blocks():
                pass

    return Harness("partials", "partial aggregates of every law", generate, run, DEAR)


def copied(value: Any) -> Any:
    return [copied(item) for item in value] if isinstance(value, list | tuple) else value


def checkpoints() -> Harness:
    """Checkpoints of a tree: broken bytes, and frames sealed again with other heads and columns."""
    limits = TreeLimits(root_rows=16, root_rows_max=32, root_bits=4, leaf_rows_max=8, pending_rows_min=4)

    def made(rows: int) -> CompressedBufferTree:
        out = CompressedBufferTree(["k"], EVERYTHING, limits=limits)
        if rows:
            out.insert(batch(rows))
        return out

    corpus = [list(made(rows).save()) for rows in (0, 5, 120)]

    def generate(rng: random.Random) -> bytes:
        parts = list(rng.choice(corpus))
        if rng.random() < 0.2:
            return mutated(rng, b"".join(parts), (*BYTES, *PACKED))
        at = rng.randrange(len(parts))
        body = parts[at][BLOCK.size :]
        if 0 < at < len(parts) - 1 and rng.random() < 0.8:
            body = _other_block(rng, body)
        else:
            body = (
                repacked(rng, msgspec.msgpack.decode(body))
                if at in (0, len(parts) - 1)
                else mutated(rng, body)
            )
        parts[at] = BLOCK.pack(len(body) + 4, zlib.crc32(body)) + body
        if rng.random() < 0.1:
            parts.insert(rng.randrange(len(parts)), rng.choice(parts))
        return b"".join(parts)

    def run(data: bytes) -> None:
        other = made(0)
        other.load([data])
        assert other.flush().num_rows >= 0

    return Harness("checkpoints", "checkpoints of a buffer tree", generate, run, DEAR)


def _other_block(rng: random.Random, body: bytes) -> bytes:
    """A block with another head, or other columns behind the same one."""
    (size,) = struct.unpack_from("<I", body)
    head, frame = body[4 : 4 + size], body[4 + size :]
    if rng.random() < 0.5:
        head = repacked(rng, msgspec.msgpack.decode(head))
    else:
        frame = zstandard.ZstdCompressor(level=1).compress(mutated(rng, zstandard.decompress(frame)))
    return struct.pack("<I", len(head)) + head + frame
