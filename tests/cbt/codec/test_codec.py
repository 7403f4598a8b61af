"""Packed blocks: equal rows come back, and short values stay short."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt import kernel
from elfmesh.cbt.codec.codec import Packed, column_sizes, pack, pack_parts, unpack
from elfmesh.cbt.codec.column_codec import (
    Column,
    chunk_bytes,
    lay_array,
    lay_numbers,
    read_array,
    read_numbers,
    write_column,
)
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sums import limbs_of
from elfmesh.cbt.rows import Layout, Rows
from elfmesh.cbt.sorted_rows import SortedRows, partition_sorted, sort_rows, to_rows
from elfmesh.cbt.sums.floatsum import exact
from tests.cbt.packing import reopened, sample
from tests.cbt.sketched import taken
from tests.cbt.tables import columns, content, tables


def write_numbers(values: np.ndarray) -> tuple[Column, bytes]:
    (column,), (chunk,) = write_column(lay_numbers("x", values), np.array([0, len(values)]))
    return column, chunk


def write_array(array: pa.Array) -> tuple[Column, bytes]:
    (column,), (chunk,) = write_column(lay_array("x", array), np.array([0, len(array)]))
    return column, chunk


# -- columns -------------------------------------------------------------------------------------------------

NUMBER = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300) | st.sampled_from([2**24, 2**40, 2**56 - 1])
)


@given(st.lists(NUMBER, max_size=20), st.integers(-(2**62), 2**62))
@example([-(2**63), 2**63 - 1], 0)
@example([2**63 - 2**56, 2**63 - 1], 0)
@example([0, 2**56 - 1], 0)
@example([5, 5], 0)
def test_numbers_come_back(values: list[int], shift: int) -> None:
    for array in (np.array(values, np.int64), np.array(values, np.int64) // 4 + shift // 2):
        column, chunk = write_numbers(array)
        assert read_numbers(column, memoryview(chunk), len(values)).tolist() == array.tolist()
        if len(set(array.tolist())) <= 1:
            assert chunk == b""


@given(columns(9))
def test_columns_come_back(array: pa.Array) -> None:
    column, chunk = write_array(array)
    back = read_array(column, memoryview(chunk), len(array), trusted=False)
    assert back.type == array.type
    assert back.is_valid().equals(array.is_valid())
    if pa.types.is_floating(array.type):
        array, back = array.view(pa.int64()), back.view(pa.int64())
    assert back.drop_null().equals(array.drop_null())


@given(st.lists(st.tuples(st.integers(-(2**52), 2**52), st.integers(0, 6)), min_size=1, max_size=9))
def test_short_decimals_are_integers(numbers: list[tuple[int, int]]) -> None:
    digits = max(places for _, places in numbers)
    values = np.array(
        [number / 10.0**places for number, places in numbers if abs(number) < 2**52 // 10**digits] or [0.5]
    )
    found = kernel.active.scale_floats(values)
    assert found is not None
    scaled, places = found
    assert (scaled / 10.0**places).tobytes() == values.tobytes()
    column, _ = write_array(pa.array(values))
    assert column.coding == "scaled"


@pytest.mark.parametrize("odd", [np.pi, np.inf, np.nan, -0.0, 1e300, 2.0**60])
def test_other_floats_are_their_bits(odd: float) -> None:
    values = np.array([1.25] * 300 + [odd])
    assert kernel.active.scale_floats(values) is None
    column, chunk = write_array(pa.array(values))
    back = read_array(column, memoryview(chunk), 301, trusted=True)
    assert back.to_numpy().tobytes() == values.tobytes()


# -- blocks --------------------------------------------------------------------------------------------------


@given(columns(9), st.lists(st.integers(1, 8), max_size=3, unique=True))
def test_a_column_cut_into_blocks_comes_back(array: pa.Array, inner: list[int]) -> None:
    cuts = [0, *sorted(inner), 9]
    headers, chunks = write_column(lay_array("x", array), np.array(cuts))
    parts = [
        read_array(column, memoryview(chunk), stop - start, trusted=False)
        for column, chunk, (start, stop) in zip(headers, chunks, pairwise(cuts), strict=True)
    ]
    assert [len(chunk) for chunk in chunks] == [
        chunk_bytes(column, stop - start)
        for column, (start, stop) in zip(headers, pairwise(cuts), strict=True)
    ]
    assert write_array(pa.concat_arrays(parts)) == write_array(array)


@given(columns(9), st.permutations(range(9)), st.integers(0, 9))
def test_a_column_written_in_another_order_comes_back_in_it(
    array: pa.Array, order: list[int], cut: int
) -> None:
    headers, chunks = write_column(lay_array("x", array), np.array([0, cut, 9]), np.array(order))
    parts = [
        read_array(column, memoryview(chunk), rows, trusted=False)
        for column, chunk, rows in zip(headers, chunks, (cut, 9 - cut), strict=True)
    ]
    assert write_array(pa.concat_arrays(parts)) == write_array(array.take(pa.array(order)))


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
