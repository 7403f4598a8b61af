"""Packed blocks: equal rows come back, bytes from outside are rows or an error, short values stay short."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt.codec import (
    PLACE_BITS_MAX,
    Chunk,
    Packed,
    PackedHeader,
    StateHeader,
    pack,
    pack_all,
    unpack,
    unpacked_bytes,
)
from elfmesh.cbt.column_codec import (
    NUMBERS,
    Column,
    as_decimals,
    lay_array,
    lay_numbers,
    read_array,
    read_numbers,
    write_column,
)
from elfmesh.cbt.floatsum import exact
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.sums import limbs_of
from elfmesh.cbt.rows import Layout, Rows
from elfmesh.cbt.sorted_rows import SortedRows, empty_sorted, partition_sorted, sort_rows, to_rows
from elfmesh.errors import ProtocolError
from tests.cbt.tables import columns, content, tables

DECODE = msgspec.msgpack.Decoder(PackedHeader).decode


def reopened(packed: Packed) -> tuple[PackedHeader, list[Chunk]]:
    """As it arrives elsewhere."""
    return DECODE(msgspec.msgpack.encode(packed.header)), [bytes(chunk) for chunk in packed.chunks]


def write_numbers(values: np.ndarray) -> tuple[Column, bytes]:
    return write_column(lay_numbers("x", values), (0, len(values)))[0]


def write_array(array: pa.Array) -> tuple[Column, bytes]:
    return write_column(lay_array("x", array), (0, len(array)))[0]


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
    found = as_decimals(values)
    assert found is not None
    scaled, places = found
    assert (scaled / 10.0**places).tobytes() == values.tobytes()
    column, _ = write_array(pa.array(values))
    assert column.coding == "scaled"


@pytest.mark.parametrize("odd", [np.pi, np.inf, np.nan, -0.0, 1e300, 2.0**60])
def test_other_floats_are_their_bits(odd: float) -> None:
    values = np.array([1.25] * 300 + [odd])
    assert as_decimals(values) is None
    column, chunk = write_array(pa.array(values))
    back = read_array(column, memoryview(chunk), 301, trusted=True)
    assert back.to_numpy().tobytes() == values.tobytes()


# -- blocks --------------------------------------------------------------------------------------------------


@given(columns(9), st.lists(st.integers(1, 8), max_size=3, unique=True))
def test_a_column_cut_into_blocks_comes_back(array: pa.Array, inner: list[int]) -> None:
    cuts = [0, *sorted(inner), 9]
    written = write_column(lay_array("x", array), cuts)
    parts = [
        read_array(column, memoryview(chunk), stop - start, trusted=False)
        for (column, chunk), (start, stop) in zip(written, pairwise(cuts), strict=True)
    ]
    whole = write_column(lay_array("x", pa.concat_arrays(parts)), (0, 9))
    assert whole == write_column(lay_array("x", array), (0, 9))


@given(tables())
@settings(deadline=None, max_examples=40)
def test_packing_many_blocks_is_packing_each(rows: Rows) -> None:
    blocks = sort_rows(rows, 4)
    for block, packed in zip(blocks, pack_all(blocks), strict=True):
        back = unpack(*reopened(packed), trusted=False)
        assert (back.bits, back.prefix, back.types) == (block.bits, block.prefix, block.types)
        assert content(to_rows(back)) == content(to_rows(block))


def test_blocks_of_one_table_share_what_is_found_out() -> None:
    whole = sample(3_000)
    blocks = partition_sorted(whole, 4)
    packed = pack_all(blocks)
    assert {one.header.states[1].sums for one in packed} == {pack(whole).header.states[1].sums}
    for block, one in zip(blocks, packed, strict=True):
        assert one.header.states[1].columns[0].coding == "same"
        assert content(to_rows(unpack(*reopened(one), trusted=False))) == content(to_rows(block))
    nothing = empty_sorted(blocks[0].layout, blocks[0].form, blocks[0].types, 4, blocks[0].prefix)
    assert [one.header.rows for one in pack_all([blocks[0], nothing, blocks[1]])] == [
        blocks[0].count,
        0,
        blocks[1].count,
    ]


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


# -- from outside --------------------------------------------------------------------------------------------


def replaced(header: PackedHeader, **changes: Any) -> PackedHeader:
    return msgspec.structs.replace(header, **changes)


def with_state(header: PackedHeader, place: int, **changes: Any) -> PackedHeader:
    states = list(header.states)
    states[place] = msgspec.structs.replace(states[place], **changes)
    return replaced(header, states=tuple(states))


def with_column(header: PackedHeader, place: int, number: int, **changes: Any) -> PackedHeader:
    old = list(header.states[place].columns)
    old[number] = msgspec.structs.replace(old[number], **changes)
    return with_state(header, place, columns=tuple(old))


HEADER, CHUNKS = reopened(pack(sample(300)))

HOSTILE: dict[str, PackedHeader] = {
    "no rows": replaced(HEADER, rows=-1),
    "more rows": replaced(HEADER, rows=HEADER.rows + 1),
    "fewer rows": replaced(HEADER, rows=HEADER.rows - 1),
    "very many rows": replaced(HEADER, rows=1 << 50),
    "no columns": replaced(HEADER, keys=(), states=()),
    "no keys": replaced(HEADER, keys=()),
    "other key bytes": replaced(HEADER, key_bytes=HEADER.key_bytes + 1),
    "huge key bytes": replaced(HEADER, key_bytes=1 << 60),
    "negative key bytes": replaced(HEADER, key_bytes=-1),
    "wide": replaced(HEADER, wide=True),
    "a place they are not in": replaced(HEADER, bits=4, prefix=3),
    "odd bits": replaced(HEADER, bits=3, prefix=0),
    "too many bits": replaced(HEADER, bits=PLACE_BITS_MAX + 4, prefix=0),
    "negative bits": replaced(HEADER, bits=-4),
    "a prefix too long": replaced(HEADER, bits=4, prefix=16),
    "a negative prefix": replaced(HEADER, bits=4, prefix=-1),
    "keys of another type": replaced(HEADER, keys=(msgspec.structs.replace(HEADER.keys[0], type="int64"),)),
    "keys of no type": replaced(HEADER, keys=(msgspec.structs.replace(HEADER.keys[0], type="list"),)),
    "keys with markers": replaced(HEADER, keys=(msgspec.structs.replace(HEADER.keys[0], nullable=True),)),
    "a name twice": with_state(HEADER, 0, name="k"),
    "no such kind": with_state(HEADER, 0, kind="median"),
    "another kind": with_state(HEADER, 0, kind="sum"),
    "another type": with_state(HEADER, 2, type="string"),
    "no columns of a state": with_state(HEADER, 0, columns=()),
    "limbs as they are not": with_state(HEADER, 1, sums=None),
    "limbs where there are none": with_state(HEADER, 0, sums=(2, -59)),
    "a unit that no sum has": with_state(HEADER, 1, sums=(2, -5000)),
    "many digits": with_state(HEADER, 1, sums=(7, -59)),
    "bits that are no floats": with_column(
        with_state(HEADER, 1, sums=(-1, -59)), 1, 1, width=0, base=2047 << 52
    ),
    "limbs too far up": with_state(HEADER, 1, sums=(2, 1300)),
    "like itself": with_column(HEADER, 1, 0, extra=2),
    "like none": with_column(HEADER, 1, 0, extra=99),
    "like the keys": with_column(HEADER, 1, 0, extra=0),
    "wider integers": with_column(HEADER, 0, 0, width=9),
    "negative width": with_column(HEADER, 0, 0, width=-1),
    "narrower integers": with_column(HEADER, 2, 0, width=1),
    "a base beyond 64 bits": with_column(HEADER, 0, 0, base=1 << 63),
    "nulls in integers": with_column(HEADER, 0, 0, nulls=True),
    "nulls": with_column(HEADER, 2, 0, nulls=True),
    "no such coding": with_column(HEADER, 2, 0, coding="lz4"),
    "text of numbers": with_column(HEADER, 2, 0, coding="text"),
    "numbers of text": with_column(HEADER, 2, 0, type="string"),
    "floats of 300 digits": with_column(HEADER, 2, 0, extra=300),
    "negative digits": with_column(HEADER, 2, 0, extra=-1),
    "two columns of one name": with_state(HEADER, 2, columns=HEADER.states[2].columns * 2),
    "a column of plain numbers as values": with_column(HEADER, 2, 0, type=NUMBERS),
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_header_that_lies_is_refused_in_little_memory(header: PackedHeader) -> None:
    unpack(HEADER, CHUNKS, trusted=False)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="damaged block"):
            unpack(header, CHUNKS, trusted=False)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("place", range(len(CHUNKS)))
def test_chunks_of_other_lengths_are_refused(place: int) -> None:
    for chunk in (bytes(CHUNKS[place]) + b"\0", bytes(CHUNKS[place])[:-1], b""):
        if chunk != CHUNKS[place]:
            with pytest.raises(ProtocolError):
                unpack(HEADER, [*CHUNKS[:place], chunk, *CHUNKS[place + 1 :]], trusted=False)
    with pytest.raises(ProtocolError, match="chunks"):
        unpack(HEADER, CHUNKS[:place], trusted=False)


def test_columns_without_bytes_are_counted_before_they_are_made() -> None:
    # A constant column takes nothing on the wire, and a run of one empty key two bytes: rows must have keys.
    constant = Column("rows", NUMBERS, "ints", base=1)
    states = (StateHeader("n", "count", "int64", (constant,)),)
    bomb = PackedHeader(1 << 40, 0, False, 0, 0, (), states)
    with pytest.raises(ProtocolError, match="unfolds"):
        unpack(bomb, [b"", b""], trusted=False)
    with pytest.raises(ProtocolError, match="run"):
        unpack(msgspec.structs.replace(bomb, rows=1 << 20), [b"", b""], trusted=False)
    one = msgspec.structs.replace(bomb, rows=1)
    assert content(to_rows(unpack(one, [b"\0\0", b""], trusted=False))) == {(): (1,)}


def test_the_budget_is_kept_to_the_byte() -> None:
    need = unpacked_bytes(HEADER)
    assert need > sum(map(len, CHUNKS))
    unpack(HEADER, CHUNKS, trusted=False, budget_bytes=need)
    with pytest.raises(ProtocolError, match="unfolds"):
        unpack(HEADER, CHUNKS, trusted=False, budget_bytes=need - 1)


def test_memory_is_what_the_header_says_at_most() -> None:
    header, chunks = reopened(pack(sample(30_000)))
    tracemalloc.start()
    try:
        unpack(header, chunks, trusted=True)
        assert tracemalloc.get_traced_memory()[1] < 2 * unpacked_bytes(header)
    finally:
        tracemalloc.stop()


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_flipped_bits_are_rows_or_an_error(data: st.DataObject) -> None:
    chunks = [bytes(chunk) for chunk in SMALL[1]]
    place = data.draw(st.sampled_from([number for number, chunk in enumerate(chunks) if chunk]))
    raw = bytearray(chunks[place])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    chunks[place] = bytes(raw)
    try:
        block = unpack(SMALL[0], chunks, trusted=False)
    except ProtocolError:
        return
    content(to_rows(block))


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_changed_headers_are_rows_or_an_error(data: st.DataObject) -> None:
    raw = bytearray(msgspec.msgpack.encode(SMALL[0]))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        block = unpack(DECODE(bytes(raw)), SMALL[1], trusted=False)
    except (ProtocolError, msgspec.DecodeError, UnicodeDecodeError):
        return
    content(to_rows(block))


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


SMALL = reopened(pack(mixed()))


@pytest.mark.parametrize("kind", [*LAWS, "collect:2", "kll:100"])
def test_states_of_every_kind_come_back(kind: str) -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 200, 2_000)
    values = pa.array(np.round(rng.normal(50, 9, 2_000), 2), mask=rng.random(2_000) < 0.1)
    inputs = (values, pa.array(rng.integers(0, 99, 2_000))) if LAWS[kind].inputs == 2 else values
    state = LAWS[kind].lift(inputs, ids, 200)
    rows = Rows(Layout(("k",), (("x", kind),)), 200, (pa.array(range(200)),), (state,))
    (block,) = sort_rows(rows)
    back = unpack(*reopened(pack(block)), trusted=False)
    (again,) = back.states
    assert (again.kind, again.type) == (kind, state.type)
    assert LAWS[kind].finish(again, 200).equals(LAWS[kind].finish(block.states[0], 200))
