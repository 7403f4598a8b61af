"""Sorted rows against plain dicts: whatever is done to blocks, no key and no value is lost or moved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import kernel
from elfmesh.cbt.errors import TypeConflict
from elfmesh.cbt.keys import KeyForm, form_of, unify_forms
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.rows import Layout, Rows, combine, empty_rows
from elfmesh.cbt.sorted_rows import (
    SortedRows,
    empty_sorted,
    merge_sorted,
    partition_sorted,
    reform,
    sort_rows,
    to_rows,
)
from tests.cbt.tables import content, tables


def check(block: SortedRows) -> None:
    """The invariants of a block."""
    keys = kernel.active.decode_run(block.run)
    texts = [keys.data[start:stop].tobytes() for start, stop in pairwise(keys.offsets.tolist())]
    assert all(left < right for left, right in pairwise(texts))
    if block.bits:
        assert (kernel.active.hash_keys(keys) >> np.uint64(64 - block.bits) == block.prefix).all()
    assert all(state.rows == block.count for state in block.states)


def together(blocks: list[SortedRows]) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for block in blocks:
        check(block)
        part = content(to_rows(block))
        assert not out.keys() & part.keys()
        out |= part
    return out


def counts(keys: list[pa.Array], times: list[int]) -> Rows:
    """Rows that only count."""
    ids = np.repeat(np.arange(len(times)), times)
    state = LAWS["count"].lift(None, ids, len(times))
    return Rows(
        Layout(tuple(f"k{i}" for i in range(len(keys))), (("n", "count"),)), len(times), tuple(keys), (state,)
    )


@given(tables(), st.sampled_from([0, 4, 8]))
@settings(deadline=None, max_examples=60)
def test_sorting_groups_orders_and_places(rows: Rows, bits: int) -> None:
    blocks = sort_rows(rows, bits)
    assert all(block.count and block.bits == bits for block in blocks)
    assert [block.prefix for block in blocks] == sorted({block.prefix for block in blocks})
    assert together(blocks) == content(combine([rows]))


@given(tables(), st.integers(1, 5), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_merging_equals_combining(rows: Rows, parts: int, random: Any) -> None:
    form = form_of(rows.keys)
    owner = np.array([random.randrange(parts) for _ in range(rows.count)], np.int64)
    pieces = [rows.take(np.flatnonzero(owner == part)) for part in range(parts)]
    blocks = [block for piece in pieces for block in sort_rows(piece, 0, form)]
    if blocks:
        merged = merge_sorted(blocks)
        check(merged)
        assert content(to_rows(merged)) == content(combine([rows]))


@given(tables())
@settings(deadline=None, max_examples=50)
def test_partitioning_is_sorting_by_more_bits(rows: Rows) -> None:
    for whole in sort_rows(rows):
        parts = partition_sorted(whole, 4)
        assert [(part.bits, part.prefix) for part in parts] == [(4, number) for number in range(16)]
        assert together(parts) == content(to_rows(whole))
        finer = [piece for part in parts if part.count for piece in partition_sorted(part, 4) if piece.count]
        direct = sort_rows(rows, 8)
        assert [(b.prefix, b.run.data.tobytes()) for b in finer] == [
            (b.prefix, b.run.data.tobytes()) for b in direct
        ]


def test_types_and_sizes_are_those_of_the_columns() -> None:
    (block,) = sort_rows(counts([pa.array(["a", None]), pa.array([1, 2])], [1, 2]))
    assert block.types == (pa.string(), pa.int64(), pa.int64())
    assert block.count == 2
    assert block.nbytes > block.run.nbytes + 16


def test_no_rows_are_no_blocks() -> None:
    layout = Layout(("k",), (("n", "count"), ("s", "sum")))
    assert sort_rows(empty_rows(layout, (pa.string(), pa.int64(), pa.float64()))) == []
    nothing = empty_sorted(
        layout, KeyForm((pa.string(),), (False,)), (pa.string(), pa.int64(), pa.float64()), 4, 3
    )
    assert (nothing.count, nothing.bits, nothing.prefix) == (0, 4, 3)
    assert to_rows(nothing).types == (pa.string(), pa.int64(), pa.float64())
    assert merge_sorted([nothing, nothing]).count == 0


def test_one_global_group() -> None:
    (block,) = sort_rows(counts([], [1, 2, 3]))
    (other,) = sort_rows(counts([], [4]))
    assert content(to_rows(merge_sorted([block, other]))) == {(): (10,)}


# -- forms that change ---------------------------------------------------------------------------------------

INTS, FLOATS = counts([pa.array([1, 2, 3])], [1, 1, 1]), counts([pa.array([1.0, 2.5])], [1, 1])
NULLS, UNTYPED = counts([pa.array([None, 7])], [5, 5]), counts([pa.nulls(1)], [5])


def test_blocks_of_different_forms_are_brought_to_one() -> None:
    blocks = [sort_rows(rows)[0] for rows in (INTS, FLOATS, UNTYPED)]
    merged = merge_sorted(blocks)
    check(merged)
    assert merged.form == KeyForm((pa.float64(),), (True,))
    assert content(to_rows(merged)) == content(combine([INTS, FLOATS, UNTYPED]))


def test_integers_that_round_to_one_float_become_one_key() -> None:
    big = counts([pa.array([2**53, 2**53 + 1])], [1, 2])
    (block,) = sort_rows(big)
    wide = reform(block, KeyForm((pa.float64(),), (False,)), (pa.float64(), pa.int64()))
    assert content(to_rows(wide)) == content(combine([big], (pa.float64(), pa.int64())))
    assert wide.count == 1


def test_a_first_null_changes_the_bytes_and_so_the_places() -> None:
    bare = KeyForm((pa.int64(),), (False,))
    block = next(block for block in sort_rows(INTS, 4, bare) if block.prefix)
    wide = reform(block, KeyForm((pa.int64(),), (True,)), block.types)
    assert (wide.bits, wide.prefix) == (0, 0)
    check(wide)
    assert content(to_rows(wide)) == content(to_rows(block))


def test_untyped_nulls_keep_their_bytes_in_any_type() -> None:
    (block,) = sort_rows(UNTYPED, 4)
    wide = reform(block, KeyForm((pa.string(),), (True,)), (pa.string(), pa.int64()))
    assert wide.run is block.run
    assert (wide.bits, wide.prefix) == (4, block.prefix)
    assert content(to_rows(wide)) == {(None,): (5,)}


def test_values_get_wider_without_touching_keys() -> None:
    layout = Layout(("k",), (("m", "max"),))
    keys = pa.array(["a", "b"])
    ids = np.arange(2)
    ints = Rows(layout, 2, (keys,), (LAWS["max"].lift(pa.array([1, 2]), ids, 2),))
    floats = Rows(layout, 2, (keys,), (LAWS["max"].lift(pa.array([0.5, 2.5]), ids, 2),))
    blocks = [sort_rows(rows, 4) for rows in (ints, floats)]
    merged = [merge_sorted([left, right]) for left, right in zip(*blocks, strict=True)]
    assert together(merged) == content(combine([ints, floats]))


def test_placed_blocks_of_different_forms_are_refused() -> None:
    bare = KeyForm((pa.int64(),), (False,))
    (plain,) = sort_rows(counts([pa.array([1])], [1]), 4, bare)
    with_null = sort_rows(NULLS, 4)
    form = unify_forms(plain.form, with_null[0].form, ["k0"])
    moved = SortedRows(plain.layout, form, with_null[0].run, with_null[0].states, 4, plain.prefix)
    with pytest.raises(ValueError, match="different forms"):
        merge_sorted([plain, moved])
    with pytest.raises(ValueError, match="places"):
        merge_sorted([plain, sort_rows(counts([pa.array([1])], [1]))[0]])
    with pytest.raises(TypeConflict, match="'k0'"):
        merge_sorted([sort_rows(INTS)[0], sort_rows(counts([pa.array(["a"])], [1]))[0]])


@given(tables(1), tables(1))
@settings(deadline=None, max_examples=60)
def test_any_two_blocks_merge_as_their_rows_do(left: Rows, right: Rows) -> None:
    if len(left.keys) != len(right.keys) or not left.count or not right.count:
        return
    try:
        wanted = content(combine([left, right]))
    except TypeConflict:
        with pytest.raises(TypeConflict):
            merge_sorted([*sort_rows(left), *sort_rows(right)])
        return
    assert content(to_rows(merge_sorted([*sort_rows(left), *sort_rows(right)]))) == wanted
