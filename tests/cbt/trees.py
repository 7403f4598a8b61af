"""Trees so small that they split and spill all the time, their rows, and what must hold of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from elfmesh.cbt import CompressedBufferTree, TreeLimits, kernel
from elfmesh.cbt.limits import PLACE_BITS_MAX
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.cbt.tree.hot import HotRoot
from elfmesh.cbt.tree.node import BufferNode

TINY = TreeLimits(
    root_rows=16,
    root_rows_max=32,
    root_bits=4,
    buffer_rows_max=24,
    leaf_rows_max=4,
    pending_rows_min=4,
    runs_max=3,
)
PLAN = {
    "n": ("count", None),
    "seen": ("count", "v"),
    "total": ("sum", "v"),
    "least": ("min", "v"),
    "last": ("max", "t"),
}


def tiny_tree(
    keys: list[str] | None = None, plan: dict[str, Any] | None = None, **options: Any
) -> CompressedBufferTree:
    options = {"limits": TINY, **options}
    return CompressedBufferTree(
        ["k", "j"] if keys is None else keys, PLAN if plan is None else plan, **options
    )


def top_of(tree: CompressedBufferTree) -> BufferNode:
    """The member below the root, which is there."""
    assert tree._body is not None
    assert tree._body._top is not None
    return tree._body._top


def hot_of(tree: CompressedBufferTree) -> HotRoot:
    """The root, which is there."""
    assert tree._body is not None
    assert tree._body._hot is not None
    return tree._body._hot


Row = tuple[str | None, int | None, float | None, str | None]


def to_batch(rows: list[Row]) -> pa.RecordBatch:
    types = {"k": pa.string(), "j": pa.int64(), "v": pa.float64(), "t": pa.string()}
    return pa.record_batch(
        {n: pa.array([row[i] for row in rows], t) for i, (n, t) in enumerate(types.items())}
    )


def model(rows: list[Row]) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[0], row[1]].append(row)
    out = {}
    for key, members in groups.items():
        values = [row[2] for row in members if row[2] is not None]
        texts = [row[3] for row in members if row[3] is not None]
        total = sum(map(Fraction, values), Fraction(0))
        out[key] = (
            len(members),
            len(values),
            total.numerator / total.denominator if values else None,
            min(values, default=None),
            max(texts, default=None),
        )
    return out


def content(table: pa.Table, keys: int = 2) -> dict[Any, tuple[Any, ...]]:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    out = {row[:keys]: row[keys:] for row in rows}
    assert len(out) == len(rows), "a key came out twice"
    return out


def counts(tree: CompressedBufferTree) -> dict[Any, int]:
    """Of a tree of one key and one count."""
    return {key: row[0] for (key,), row in content(tree.flush(), 1).items()}


def insert_keys(tree: CompressedBufferTree, keys: list[Any]) -> None:
    tree.insert(pa.record_batch({"k": keys}))


ROW = st.tuples(
    st.none() | st.sampled_from(["", "a", "b\0", "b\0\0", "é", "/x" * 40]) | st.integers(0, 60).map(str),
    st.none() | st.integers(0, 2),
    st.none() | st.floats(-1e9, 1e9).map(lambda value: value + 0.0),
    st.none() | st.text(max_size=3),
)


def check_blocks(blocks: Iterator[SortedRows], bits_min: int = 0) -> Iterator[SortedRows]:
    """Blocks are not empty, ascend without overlapping, and their keys lie and stand where they should."""
    end = 0
    for block in blocks:
        assert block.count > 0
        assert block.bits % 4 == 0
        assert block.bits >= bits_min
        start = block.prefix << (64 - block.bits)
        assert start >= end
        end = start + (1 << (64 - block.bits))
        keys = kernel.active.decode_run(block.run)
        hashes = kernel.active.hash_keys(keys).tolist()
        assert all(start <= value < end for value in hashes)
        data = keys.data.tobytes()
        texts = [data[a:b] for a, b in zip(keys.offsets, keys.offsets[1:], strict=False)]
        assert texts == sorted(set(texts))
        assert all(state.rows == block.count for state in block.states)
        yield block


def check_counters(tree: CompressedBufferTree) -> None:
    """What the tree says it holds is the sum over its members; leaves are not larger than allowed."""
    hot = None if tree._body is None else tree._body._hot
    if hot is not None:
        accumulators = sum(each.nbytes + 300 for each in hot._accumulators)
        assert hot.nbytes == hot._table.nbytes + hot._fused.nbytes + 700 + accumulators
    if tree._body is None or tree._body._top is None:
        return
    top, shared = tree._body._top, tree._body._shared
    members = list(top.members())
    buffers = [buffer for member in members for buffer in member._buffers()]
    assert shared.rows == sum(buffer.rows for buffer in buffers)
    assert shared.nbytes == sum(buffer.nbytes for buffer in buffers) + 300 * len(members)
    for member in members:
        assert member._pending_rows == sum(run.rows for run in member.runs)
        assert member._pending_bytes == sum(run.raw_bytes for run in member.runs)
        assert member.base is None or not member.children
        if member.base is not None and member.bits < PLACE_BITS_MAX:
            assert member.base.rows <= 2 * TINY.leaf_rows_max
