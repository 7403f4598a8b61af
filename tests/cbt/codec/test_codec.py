"""Packed blocks: equal rows come back, and short values stay short."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import kernel
from elfmesh.cbt.codec.codec import Packed, column_sizes, pack, pack_parts, unpack
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sums import limbs_of
from elfmesh.cbt.rows import Layout, Rows
from elfmesh.cbt.sorted_rows import SortedRows, partition_sorted, sort_rows, to_rows
from elfmesh.cbt.sums.floatsum import exact
from tests.cbt.packing import reopened, sample
from tests.cbt.sketched import taken
from tests.cbt.tables import content, tables


def split(whole: SortedRows, bits: int) -> list[Packed]:
    """As a member of a tree packs what it pushes down."""
    runs, order = kernel.active.partition_run(whole.run, whole.bits, bits)
    cuts = np.cumsum([0, *(run.rows for run in runs)])
    return pack_parts(
        whole.layout, whole.form, runs, whole.states, order, cuts, whole.bits + bits, whole.prefix << bits
    )


@given(tables())
@settings(deadline=None, max_examples=40)
def test_packing_parts_is_packing_each(rows: Rows) -> None:
    for whole in sort_rows(rows, 4):
        blocks = [block for block in partition_sorted(whole, 4) if block.count]
        for block, packed in zip(blocks, split(whole, 4), strict=True):
            back = unpack(*reopened(packed), trusted=False)
            assert (back.bits, back.prefix, back.types) == (block.bits, block.prefix, block.types)
            assert content(to_rows(back)) == content(to_rows(block))


def test_parts_of_one_table_share_what_is_found_out() -> None:
    whole = sample(3_000)
    packed = split(whole, 4)
    assert {one.header.states[1].sums for one in packed} == {pack(whole).header.states[1].sums}
    for block, one in zip(partition_sorted(whole, 4), packed, strict=True):
        assert one.header.states is packed[0].header.states
        assert one.header.states[1].columns[0].coding == "same"
        assert column_sizes(one.header) == [len(chunk) for chunk in one.chunks[1:]]
        assert content(to_rows(unpack(*reopened(one), trusted=False))) == content(to_rows(block))


@given(tables(), st.sampled_from([0, 4]))
@settings(deadline=None, max_examples=60)
def test_rows_come_back(rows: Rows, bits: int) -> None:
    for block in sort_rows(rows, bits):
        header, chunks = reopened(pack(block))
        for trusted in (True, False):
            back = unpack(header, chunks, trusted=trusted)
            assert (back.bits, back.prefix, back.form, back.types) == (
                block.bits,
                block.prefix,
                block.form,
                block.types,
            )
            assert back.layout == block.layout
            assert back.run.data.tobytes() == block.run.data.tobytes()
            assert content(to_rows(back)) == content(to_rows(block))


@pytest.mark.parametrize("digits", [1, 2, 6, None])
def test_float_sums_come_back_to_the_last_bit(digits: int | None) -> None:
    block = sample(700, digits=digits)
    packed = pack(block)
    assert packed.header.states[1].sums is not None
    back = unpack(*reopened(packed), trusted=False)
    assert content(to_rows(back)) == content(to_rows(block))
    for row in range(block.count):
        assert exact(limbs_of(back.states[1]), row) == exact(limbs_of(block.states[1]), row)


def test_an_equal_column_is_written_once() -> None:
    packed = pack(sample(700))
    rows, values = packed.header.states[0].columns[0], packed.header.states[1].columns[0]
    assert (rows.coding, values.coding, values.extra) == ("ints", "same", 1)
    assert len(packed.chunks[2]) == 0


def compressed_bytes(packed: Packed) -> int:
    parameters = zstandard.ZstdCompressionParameters(
        strategy=zstandard.STRATEGY_FAST, min_match=7, hash_log=12, window_log=18
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    return sum(len(compressor.compress(bytes(chunk))) for chunk in packed.chunks)


def test_four_aggregates_of_cents_are_small() -> None:
    # The keys here take about 3 bytes each; the limbs alone would be 12 more.
    block = sample(20_000)
    assert compressed_bytes(pack(block)) < 10 * block.count


@pytest.mark.parametrize("kind", [*LAWS, "collect:2", "kll:100"])
def test_states_of_every_kind_come_back(kind: str) -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 200, 2_000)
    values = pa.array(np.round(rng.normal(50, 9, 2_000), 2), mask=rng.random(2_000) < 0.1)
    inputs = taken(kind, values)
    inputs = (values, pa.array(rng.integers(0, 99, 2_000))) if LAWS[kind].inputs == 2 else inputs
    state = LAWS[kind].lift(inputs, ids, 200)
    rows = Rows(Layout(("k",), (("x", kind),)), 200, (pa.array(range(200)),), (state,))
    (block,) = sort_rows(rows)
    back = unpack(*reopened(pack(block)), trusted=False)
    (again,) = back.states
    assert (again.kind, again.type) == (kind, state.type)
    assert LAWS[kind].finish(again, 200).equals(LAWS[kind].finish(block.states[0], 200))
