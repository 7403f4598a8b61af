"""A column that changes its type: what the tree gives must not depend on when that was."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import CompressedBufferTree, encode_partial, finish, merge_partials
from elfmesh.cbt.partial.partial import decode_partial

PLAN = {
    "n": ("count", "v"),
    "s": ("sum", "v"),
    "q": ("sumsq", "v"),
    "lo": ("min", "v"),
    "hi": ("max", "v"),
    "set": ("distinct", "v"),
    "about": ("hll", "v"),
    "some": ("collect:3", "v"),
}
BIG = 2**53 + 1
VALUES = st.lists(st.integers(BIG - 2, BIG + 2) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)


def tree_of(batches: list[pa.Array]) -> CompressedBufferTree:
    tree = CompressedBufferTree([], PLAN)
    for values in batches:
        tree.insert(pa.record_batch({"v": values}))
    return tree


@given(st.lists(VALUES, min_size=1, max_size=3), st.integers(0, 3), st.booleans())
@settings(deadline=None)
def test_large_integers_count_the_same_before_and_after_a_column_turns_float(
    integers: list[list[int]], place: int, aggregated: bool
) -> None:
    batches = [pa.array(values, pa.int64()) for values in integers]
    floats = pa.array([0.5])
    expected = tree_of([*batches, floats]).flush()
    batches.insert(place, floats)
    if aggregated:
        parts = [encode_partial({"t": tree_of([values]).snapshot()}) for values in batches]
        assert finish(decode_partial(merge_partials(parts)))["t"] == expected
    else:
        assert tree_of(batches).flush() == expected
    every = [Fraction(number) for values in integers for number in values] + [Fraction(1, 2)]
    assert expected["s"].to_pylist() == [float(sum(every))]
    assert expected["q"].to_pylist() == [float(sum(number**2 for number in every))]


@pytest.mark.parametrize("kind", ["sum", "sumsq", "hll"])
def test_nulls_of_no_type_are_added_to_any_type(kind: str) -> None:
    tree = CompressedBufferTree(["k"], {"x": (kind, "v")})
    tree.insert(pa.record_batch({"k": ["a"], "v": pa.array([2.5])}))
    tree.insert(pa.record_batch({"k": ["a", "b"], "v": pa.nulls(2)}))
    alone = CompressedBufferTree(["k"], {"x": (kind, "v")})
    alone.insert(pa.record_batch({"k": ["a", "b"], "v": pa.array([2.5, None])}))
    assert tree.flush().sort_by("k") == alone.flush().sort_by("k")
