"""Headers and chunks from outside are rows or an error, in the memory that the header says at most."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt.codec.codec import (
    PLACE_BITS_MAX,
    PackedHeader,
    StateHeader,
    pack,
    unpack,
    unpacked_bytes,
)
from elfmesh.cbt.codec.column_codec import NUMBERS, Column
from elfmesh.cbt.sorted_rows import to_rows
from elfmesh.errors import ProtocolError
from tests.cbt.packing import DECODE, mixed, reopened, sample
from tests.cbt.tables import content
from tests.hostile.memory import peak_bytes

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
    def refused() -> None:
        with pytest.raises(ProtocolError, match="damaged block"):
            unpack(header, CHUNKS, trusted=False)

    unpack(HEADER, CHUNKS, trusted=False)
    assert peak_bytes(refused, 4 << 20) < 4 << 20


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


def test_unpacking_takes_memory_in_proportion_to_the_size_in_the_header() -> None:
    header, chunks = reopened(pack(sample(30_000)))
    limit = 2 * unpacked_bytes(header)
    assert peak_bytes(lambda: unpack(header, chunks, trusted=True), limit) < limit


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


SMALL = reopened(pack(mixed()))
