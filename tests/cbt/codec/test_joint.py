from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import CompressedBufferTree
from elfmesh.cbt.codec import joint
from elfmesh.cbt.codec.codec import Packed, pack, unpack
from elfmesh.cbt.codec.joint import merge_packed
from elfmesh.cbt.rows import finish_rows
from elfmesh.cbt.sorted_rows import SortedRows, merge_sorted, to_rows

PLAN: dict[str, tuple[str, str | None]] = {
    "n": ("count", None),
    "seen": ("count", "v"),
    "total": ("sum", "v"),
    "least": ("min", "v"),
    "most": ("max", "i"),
    "text": ("max", "t"),
    "exact": ("sum", "d"),
    "top": ("max", "d"),
}


def block(seed: int, rows: int, digits: int, *, nulls: bool, types: bool = True) -> Packed:
    """Packed rows as a leaf has them; what they are like, and so how they are coded, depends on the seed."""
    rng = random.Random(seed)
    scale = 10 ** rng.randrange(1, 8)
    texts = [None if nulls and rng.random() < 0.1 else f"t{rng.randrange(99)}" for _ in range(rows)]
    decimals = [Decimal(rng.randrange(10 ** rng.choice((3, 30)))) for _ in range(rows)]
    columns: dict[str, Any] = {
        "k": pa.array([f"key{rng.randrange(600)}" for _ in range(rows)]),
        "v": pa.array([round(rng.uniform(-scale, scale), digits) for _ in range(rows)], pa.float64()),
        "i": pa.array([rng.randrange(-scale, scale) for _ in range(rows)]),
        "t": pa.array(texts, pa.string()),
        "d": pa.array(decimals, pa.decimal128(38, 0)),
    }
    if not types:
        columns["v"] = pa.nulls(rows)
    tree = CompressedBufferTree(["k"], PLAN)
    tree.insert(pa.record_batch(columns))
    (sorted_rows,) = tree.snapshot().sorted()
    return pack(sorted_rows)


def content(rows: SortedRows) -> dict[Any, Any]:
    table = finish_rows(to_rows(rows)).to_pylist()
    return {row.pop("k"): row for row in table}


def merged(blocks: list[Packed]) -> SortedRows:
    packed = merge_packed(blocks)
    return unpack(packed.header, packed.chunks, trusted=True)


def one_by_one(blocks: list[Packed]) -> SortedRows:
    return merge_sorted([unpack(each.header, each.chunks, trusted=True) for each in blocks])


BLOCKS = st.lists(
    st.builds(
        block,
        st.integers(0, 10**6),
        st.sampled_from([1, 5, 150, 400]),
        st.sampled_from([0, 2, 6, 15]),
        nulls=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@given(BLOCKS)
@settings(max_examples=40, deadline=None)
def test_blocks_together_are_what_they_are_one_by_one(blocks: list[Packed]) -> None:
    together, apart = merged(blocks), one_by_one(blocks)
    assert content(together) == content(apart)
    assert together.run.data.tobytes() == apart.run.data.tobytes()
    assert (together.form, together.types, together.layout) == (apart.form, apart.types, apart.layout)


def test_blocks_coded_alike_are_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [block(seed, 300, 2, nulls=False) for seed in range(6)]
    monkeypatch.setattr(joint, "merge_sorted", None)  # not needed
    assert content(merged(blocks)) == content(one_by_one(blocks))


def test_a_column_that_had_no_type_yet_is_read_by_itself() -> None:
    blocks = [block(1, 50, 2, nulls=False, types=False), block(2, 300, 2, nulls=False)]
    assert content(merged(blocks)) == content(one_by_one(blocks))


def test_rests_that_no_unit_holds_are_read_one_by_one() -> None:
    tree = CompressedBufferTree(["k"], {"s": ("sum", "v")})
    blocks = []
    for exponent in (-600, 300):
        tree.empty()
        values = [random.Random(place).uniform(1, 2) * 2.0**exponent for place in range(600)]
        tree.insert(pa.record_batch({"k": [f"key{place % 300}" for place in range(600)], "v": values}))
        (rows,) = tree.snapshot().sorted()
        blocks.append(pack(rows))
    assert content(merged(blocks)) == content(one_by_one(blocks))
