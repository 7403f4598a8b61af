"""Packed rows for the tests of the codec, read back as a receiver has them."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from elfmesh.cbt.codec.codec import Chunk, Packed, PackedHeader
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.rows import Layout, Rows
from elfmesh.cbt.sorted_rows import SortedRows, sort_rows

DECODE = msgspec.msgpack.Decoder(PackedHeader).decode


def reopened(packed: Packed) -> tuple[PackedHeader, list[Chunk]]:
    """As it arrives elsewhere."""
    return DECODE(msgspec.msgpack.encode(packed.header)), [bytes(chunk) for chunk in packed.chunks]


def sample(rows: int, *, digits: int | None = 2, seed: int = 1) -> SortedRows:
    """Keys and values as logs have them: some values per key, of few digits."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(rows), rng.integers(1, 6, rows))
    values = np.exp(rng.normal(2, 1, len(ids)))
    column = pa.array(values if digits is None else np.round(values, digits))
    keys = pa.array([f"/page/{number:06d}" for number in rng.permutation(rows)])
    kinds = {"n": "count", "s": "sum", "lo": "min", "hi": "max"}
    states = tuple(LAWS[kind].lift(None if kind == "count" else column, ids, rows) for kind in kinds.values())
    (block,) = sort_rows(Rows(Layout(("k",), tuple(kinds.items())), rows, (keys,), states))
    return block


def mixed() -> SortedRows:
    """Many types at once, with nulls."""
    keys = (pa.array([1, None, 3]), pa.array(["a", "b\0", ""]))
    ids = np.arange(3)
    values = {
        "s": ("sum", pa.array([1.5, None, 2.25])),
        "t": ("max", pa.array(["x", None, "long " * 9])),
        "d": ("min", pa.array([1, None, 2]).cast(pa.decimal128(38, 2))),
        "b": ("max", pa.array([True, False, None])),
    }
    states = tuple(LAWS[kind].lift(column, ids, 3) for kind, column in values.values())
    layout = Layout(("k", "l"), tuple((name, kind) for name, (kind, _) in values.items()))
    (block,) = sort_rows(Rows(layout, 3, keys, states))
    return block
