"""Conversion of sorted rows to a header and chunks of bytes, for compression, disk and wire.

Chunk 0 is the run of keys; one chunk per column of a state follows. The chunks are not compressed, but laid
out for compression (column_codec.py, nearsum.py). For untrusted chunks, the reader allocates no more than the
budget and checks that the keys ascend, are valid and match the header, and that every state is valid for its
law.

Paper: ELF 2.2 ("storing such data in compressed form").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt import kernel
from elfmesh.cbt.codec import nearsum
from elfmesh.cbt.codec.column_codec import (
    NUMBERS,
    Column,
    Laid,
    chunk_bytes,
    column_bytes,
    lay_array,
    lay_numbers,
    read_array,
    read_numbers,
    write_column,
)
from elfmesh.cbt.columns import type_from_name, type_name
from elfmesh.cbt.kernel import Run, ShortSums
from elfmesh.cbt.keys import KeyForm, decode
from elfmesh.cbt.laws import State
from elfmesh.cbt.rows import Layout, checked_state
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.errors import ProtocolError

UNPACKED_BYTES_MAX = 1 << 30
"""Maximum memory of an unpacked block from outside. Our own blocks take a few MB, or about 100 with keys of
64 KiB."""

PLACE_BITS_MAX = 64
SHORT_ROWS = 128
"""Rows below which sums are written limb by limb, because finding their short form costs more than it
saves."""

_KEY_BYTES_EACH = 16
"""Memory of a key besides its bytes while keys are checked: offsets, hashes."""
_LIMB = "limb"

Chunk: TypeAlias = bytes | memoryview


class KeyHeader(msgspec.Struct, array_like=True, frozen=True):
    """Header of one key column: its name, canonical type, and whether it has a marker for nulls."""

    name: str
    type: str
    nullable: bool


class StateHeader(msgspec.Struct, array_like=True, frozen=True):
    """Header of one aggregate: its name, kind, value type and columns, one per chunk.

    `sums` describes how the last two columns, `near` and `rest`, encode the limbs of float sums: digits and
    unit. None if there are no such columns.
    """

    name: str
    kind: str
    type: str
    columns: tuple[Column, ...]
    sums: tuple[int, int] | None = None


class PackedHeader(msgspec.Struct, array_like=True, frozen=True):
    """Header of a block, needed to read its chunks; see `Run` and `SortedRows`."""

    rows: int
    key_bytes: int
    wide: bool
    bits: int
    prefix: int
    keys: tuple[KeyHeader, ...]
    states: tuple[StateHeader, ...]


class Packed(Struct, frozen=True):
    """Header and chunks of a block."""

    header: PackedHeader
    chunks: list[Chunk]


def pack(rows: SortedRows) -> Packed:
    """Encode a block. Cost: two passes per column, about ten for float sums; keys are not copied."""
    laid = [lay_out(state) for state in rows.states]
    return pack_laid(rows.layout, rows.form, rows.run, laid, rows.bits, rows.prefix)


def pack_laid(
    layout: Layout, form: KeyForm, run: Run, laid: Sequence[LaidState], bits: int, prefix: int
) -> Packed:
    (states,), chunks = _write_all(layout, laid, np.array([0, run.rows]), None)
    return _packed(run, _key_headers(layout, form), states, bits, prefix, [column for (column,) in chunks])


def pack_parts(
    layout: Layout,
    form: KeyForm,
    runs: Sequence[Run],
    states: Sequence[State],
    order: np.ndarray | None,
    cuts: np.ndarray,
    bits: int,
    first: int = 0,
) -> list[Packed]:
    """Encode rows that are split into parts by `bits` bits of the placement hash; empty parts are omitted.

    `runs` are the keys of each part. `order` (int64; None: unchanged) has the rows of the states, part by
    part; `cuts` has the starts of the parts in it. Cost: columns are analysed once for all parts; per part
    and column a microsecond.
    """
    headers, chunks = _write_all(layout, [lay_out(state) for state in states], cuts, order)
    keys = _key_headers(layout, form)
    return [
        _packed(run, keys, own, bits, first + part, columns)
        for part, (run, own, *columns) in enumerate(zip(runs, headers, *chunks, strict=True))
        if run.rows
    ]


class LaidState(Struct, frozen=True):
    """Layout of one aggregate; see `StateHeader`."""

    kind: str
    type: pa.DataType
    columns: list[Laid]
    sums: tuple[int, int] | None = None


def lay_out(state: State) -> LaidState:
    parts, sums = state.parts, None
    if pa.types.is_floating(state.type) and (near := _near(parts)) is not None:
        parts = {part: column for part, column in parts.items() if not part.startswith(_LIMB)}
        parts |= {"near": near.near, "rest": near.rest}
        sums = (near.digits, near.unit)
    laid = [
        lay_numbers(part, column) if isinstance(column, np.ndarray) else lay_array(part, column)
        for part, column in parts.items()
    ]
    return LaidState(state.kind, state.type, laid, sums)


def _near(parts: dict[str, np.ndarray | pa.Array]) -> ShortSums | None:
    limbs = {int(part[len(_LIMB) :]): column for part, column in parts.items() if part.startswith(_LIMB)}
    if not limbs or len(next(iter(limbs.values()))) < SHORT_ROWS:
        return None
    return nearsum.gather(limbs)


def _write_all(
    layout: Layout, laid: Sequence[LaidState], cuts: np.ndarray, order: np.ndarray | None
) -> tuple[Sequence[tuple[StateHeader, ...]], list[list[bytes]]]:
    parts = len(cuts) - 1
    seen: list[tuple[np.ndarray, int]] = []
    chunks: list[list[bytes]] = []
    headers: list[list[StateHeader]] = []
    alike = True
    for (name, _), state in zip(layout.aggregates, laid, strict=True):
        columns = []
        for column in state.columns:
            own, written = _write(column, cuts, order, seen, 1 + len(chunks))
            columns.append(own)
            chunks.append(written)
        kind = type_name(state.type)
        alike = alike and all(column.coding != "text" for column, *_ in columns)
        headers.append(
            [
                StateHeader(name, state.kind, kind, own, state.sums)
                for own in zip(*(column[: 1 if alike else parts] for column in columns), strict=True)
            ]
        )
    if alike:
        return [_shared(tuple(own for own, *_ in headers))] * parts, chunks
    whole = [own if len(own) == parts else own * parts for own in headers]
    return list(zip(*whole, strict=True)), chunks


@lru_cache(maxsize=1 << 10)
def _shared(headers: tuple[StateHeader, ...]) -> tuple[StateHeader, ...]:
    return headers


def _write(
    laid: Laid, cuts: np.ndarray, order: np.ndarray | None, seen: list[tuple[np.ndarray, int]], chunk: int
) -> tuple[list[Column], list[bytes]]:
    if laid.column.type != NUMBERS:
        return write_column(laid, cuts, order)
    values = laid.values
    assert values is not None
    for other, place in seen:
        # The numbers of rows of the groups are often equal to the numbers of values of their sums.
        ends = len(values) and values[0] == other[0] and values[-1] == other[-1]
        if other is values or (ends and np.array_equal(other, values)):
            parts = len(cuts) - 1
            return [Column(laid.column.name, NUMBERS, "same", extra=place)] * parts, [b""] * parts
    seen.append((values, chunk))
    return write_column(laid, cuts, order)


def _packed(
    run: Run,
    keys: tuple[KeyHeader, ...],
    states: tuple[StateHeader, ...],
    bits: int,
    prefix: int,
    columns: list[bytes],
) -> Packed:
    header = PackedHeader(run.rows, run.key_bytes, run.wide, bits, prefix, keys, states)
    return Packed(header, [np.ascontiguousarray(run.data).data, *columns])


@lru_cache(maxsize=1 << 8)
def _key_headers(layout: Layout, form: KeyForm) -> tuple[KeyHeader, ...]:
    columns = zip(layout.keys, form.types, form.nullable, strict=True)
    return tuple(KeyHeader(name, type_name(data_type), null) for name, data_type, null in columns)


def column_sizes(header: PackedHeader) -> list[int]:
    """Return the lengths of the chunks after the keys, from the header alone."""
    return [chunk_bytes(column, header.rows) for state in header.states for column in state.columns]


def unpacked_bytes(header: PackedHeader) -> int:
    """Return the memory for unpacking a block, from the header alone.

    A reader subtracts it from its budget.
    """
    size = header.key_bytes + header.rows * _KEY_BYTES_EACH
    for state in header.states:
        for column in state.columns:
            size += column_bytes(column, header.rows)
        if state.sums is not None:
            size += nearsum.SPREAD_LIMBS_MAX * 8 * header.rows
    return size


def unpack(
    header: PackedHeader,
    chunks: Sequence[Chunk],
    *,
    trusted: bool,
    budget_bytes: int = UNPACKED_BYTES_MAX,
) -> SortedRows:
    """Decode rows; they keep the chunk of keys alive.

    `trusted` bytes never left this process's memory, so their values are not checked. Cost: one or two passes
    per column; for untrusted bytes also a decoding and hashing of all keys.
    """
    try:
        if not trusted:
            _check_sizes(header, budget_bytes)
        if len(chunks) != 1 + sum(len(state.columns) for state in header.states):
            raise ValueError(f"{len(chunks)} chunks")
        types = tuple(type_from_name(key.type) for key in header.keys)
        form = KeyForm(types, tuple(key.nullable for key in header.keys))
        run = _read_run(header, form, chunks[0], trusted=trusted)
        reader = _Reader(header.rows, chunks, trusted)
        states = tuple(reader.state(state) for state in header.states)
    except (ValueError, pa.ArrowException, OverflowError) as error:
        raise ProtocolError(f"damaged block of partial aggregates: {error}") from None
    layout = Layout(
        tuple(key.name for key in header.keys), tuple((state.name, state.kind) for state in header.states)
    )
    return SortedRows(layout, form, run, states, header.bits, header.prefix)


def _check_sizes(header: PackedHeader, budget_bytes: int) -> None:
    if header.rows < 0 or header.key_bytes < 0 or not (header.keys or header.states):
        raise ValueError("a block without rows or columns")
    names = [key.name for key in header.keys] + [state.name for state in header.states]
    if len(set(names)) != len(names):
        raise ValueError("a name is used twice")
    if unpacked_bytes(header) > budget_bytes:
        raise ValueError(f"it unfolds to more than {budget_bytes} bytes")
    if not 0 <= header.bits <= PLACE_BITS_MAX or header.bits % 4 or header.prefix >> header.bits:
        raise ValueError(f"a place of {header.bits} bits: {header.prefix}")


def _read_run(header: PackedHeader, form: KeyForm, chunk: Chunk, *, trusted: bool) -> Run:
    data = np.frombuffer(chunk, np.uint8)
    if trusted:
        return Run(header.rows, header.key_bytes, header.wide, data)
    run = kernel.active.check_run(header.rows, header.wide, data, header.key_bytes)
    if run.key_bytes != header.key_bytes:
        raise ValueError("the length of all keys")
    keys = kernel.active.decode_run(run)
    decode(keys, form, trusted=False)
    if header.bits:
        places = kernel.active.hash_keys(keys) >> np.uint64(64 - header.bits)
        if (places != np.uint64(header.prefix)).any():
            raise ValueError("keys that are not in the place of their block")
    return run


class _Reader:
    """Reader of the states, chunk by chunk."""

    def __init__(self, rows: int, chunks: Sequence[Chunk], trusted: bool) -> None:
        self._rows = rows
        self._chunks = chunks
        self._trusted = trusted
        self._next = 1
        self._numbers: dict[int, np.ndarray] = {}

    def state(self, header: StateHeader) -> State:
        parts = {column.name: self._column(column) for column in header.columns}
        if len(parts) != len(header.columns):
            raise ValueError(f"columns of {header.name!r} with one name")
        if header.sums is not None:
            near, rest = parts.pop("near", None), parts.pop("rest", None)
            if not isinstance(near, np.ndarray) or not isinstance(rest, np.ndarray):
                raise ValueError(f"a sum {header.name!r} without its columns")
            digits, unit = header.sums
            limbs = nearsum.spread(ShortSums(near, digits, rest, unit))
            if any(part.startswith(_LIMB) for part in parts):
                raise ValueError(f"a sum {header.name!r} with limbs of both kinds")
            parts |= {f"{_LIMB}{number:+d}": column for number, column in limbs.items()}
        if self._trusted:
            return State(header.kind, type_from_name(header.type), parts)
        return checked_state(header.kind, header.type, parts, self._rows)

    def _column(self, column: Column) -> np.ndarray | pa.Array:
        place = self._next
        self._next += 1
        chunk = memoryview(self._chunks[place])
        if column.type != NUMBERS:
            return read_array(column, chunk, self._rows, trusted=self._trusted)
        if column.coding == "same":
            if len(chunk) or column.extra not in self._numbers:
                raise ValueError(f"column {column.name!r} is like none before it")
            return self._numbers[column.extra]
        values = self._numbers[place] = read_numbers(column, chunk, self._rows)
        return values
