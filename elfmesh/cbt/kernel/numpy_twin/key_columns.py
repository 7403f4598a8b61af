"""Encoding of typed columns as key bytes, and decoding, column by column over all rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elfmesh.cbt.kernel.numpy_twin.words import bounds, gather, scatter
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, KeyColumn, KeyOverflow, Keys

WIDTHS = (0, 1, 4, 8, 16)
_BYTES_MAX = (1 << 31) - 1
_SIGN = {1: 0, 4: 0x80, 8: 0x80, 16: 0x80}
_TYPES = {1: ">u1", 4: ">i4", 8: ">i8"}


def encode_keys(columns: Sequence[KeyColumn], rows: int) -> Keys:
    present = [
        None if column.valid is None or not column.nullable else np.flatnonzero(column.valid)
        for column in columns
    ]
    bodies = [
        _body(column, some, last=place == len(columns) - 1)
        for place, (column, some) in enumerate(zip(columns, present, strict=True))
    ]
    lengths = np.zeros(rows, np.int64)
    for column, some, (sizes, _) in zip(columns, present, bodies, strict=True):
        lengths += int(column.nullable)
        if some is None:
            lengths += sizes
        else:
            lengths[some] += sizes
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if rows else 0
    long = np.flatnonzero(lengths > KEY_BYTES_MAX)
    if len(long) or total > _BYTES_MAX:
        raise KeyOverflow(long)

    data = np.zeros(total, np.uint8)
    cursor = ends - lengths
    for column, some, (sizes, body) in zip(columns, present, bodies, strict=True):
        if column.nullable:
            marked = cursor if some is None else cursor[some]
            data[marked] = 0 if column.width == 0 else 1
            cursor = cursor + 1
        _put(data, cursor if some is None else cursor[some], sizes, body)
        if some is None:
            cursor = cursor + sizes
        else:
            cursor[some] += sizes
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1:] = ends
    return Keys(offsets, data)


def _body(
    column: KeyColumn, some: np.ndarray | None, *, last: bool
) -> tuple[np.ndarray | int, np.ndarray | None]:
    """Return the bytes of the rows with a value: their lengths (or the common one), and the bytes."""
    if column.width == 0:
        return 0, None
    if column.width > 0:
        assert column.values is not None
        values = column.values if some is None else column.values[some]
        return column.width, _to_big_endian(values, column.width)
    assert column.strings is not None
    starts, lengths = bounds(column.strings)
    if some is not None:
        starts, lengths = starts[some], lengths[some]
    text = gather(column.strings.data, starts, lengths)
    return (lengths, text) if last else _escape(lengths, text)


def _put(data: np.ndarray, places: np.ndarray, sizes: np.ndarray | int, body: np.ndarray | None) -> None:
    if body is None or len(body) == 0:
        return
    if isinstance(sizes, int):
        for byte in range(sizes):
            data[places + byte] = body[:, byte]
        return
    scatter(data, places, sizes, body)


def _to_big_endian(values: np.ndarray, width: int) -> np.ndarray:
    """Return uint8 [n, width] with the order of the values."""
    if width == 16:
        low, high = (values[:, half].astype(">i8").view(np.uint8).reshape(-1, 8) for half in (0, 1))
        out = np.concatenate((high, low), axis=1)
    else:
        out = values.astype(_TYPES[width]).view(np.uint8).reshape(-1, width)
    out[:, 0] ^= _SIGN[width]
    return out


def _from_big_endian(raw: np.ndarray, width: int) -> np.ndarray:
    raw = raw.copy()
    raw[:, 0] ^= _SIGN[width]
    if width == 16:
        halves = raw.reshape(-1, 2, 8)[:, ::-1].copy().view(">i8").reshape(-1, 2)
        return halves.astype(np.int64)
    narrow = {1: np.uint8, 4: np.int32, 8: np.int64}[width]
    return raw.view(_TYPES[width]).reshape(-1).astype(narrow)


def _escape(lengths: np.ndarray, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Escape 0x00 as 0x00 0xFF, and end each string by 0x00 0x00."""
    ends = np.cumsum(lengths)
    zeros = np.flatnonzero(text == 0)
    before = np.searchsorted(zeros, ends)  # zeros up to the end of each string
    escaped = np.insert(text, zeros + 1, 0xFF) if len(zeros) else text
    inner_ends = ends + before
    with_ends = np.insert(escaped, np.repeat(inner_ends, 2), 0)
    return lengths + np.diff(before, prepend=0) + 2, with_ends


def decode_keys(keys: Keys, shape: Sequence[tuple[int, bool]]) -> list[KeyColumn]:
    rows = len(keys)
    cursor, lengths = bounds(keys)
    ends = cursor + lengths
    out = []
    for place, (width, nullable) in enumerate(shape):
        if width not in WIDTHS and width != -1:
            raise ValueError(f"a key column of {width} bytes")
        valid = None
        if nullable:
            if (cursor >= ends).any():
                raise ValueError("a key ends before a column")
            marks = keys.data[cursor]
            if (marks > (width != 0)).any():
                raise ValueError("a key has a wrong marker of nulls")
            cursor = cursor + 1
            valid = marks.astype(np.bool_)
        elif width == 0:
            raise ValueError("a key column without values has no marker of nulls")
        some = np.arange(rows) if valid is None or valid.all() else np.flatnonzero(valid)
        if width >= 0:
            values, after = _read_fixed(keys.data, cursor[some], ends[some], width)
            column = KeyColumn(width, nullable, _spread(values, some, rows), None, _unless_all(valid))
        else:
            last = place == len(shape) - 1
            read = _read_rest if last else _read_escaped
            text, sizes, after = read(keys.data, cursor[some], ends[some])
            column = KeyColumn(-1, nullable, None, _strings(text, sizes, some, rows), _unless_all(valid))
        cursor = cursor.copy()
        cursor[some] = after
        out.append(column)
    if (cursor != ends).any():
        raise ValueError("a key goes on after its last column")
    return out


def _unless_all(valid: np.ndarray | None) -> np.ndarray | None:
    return None if valid is None or bool(valid.all()) else valid


def _read_fixed(
    data: np.ndarray, cursor: np.ndarray, ends: np.ndarray, width: int
) -> tuple[np.ndarray | None, np.ndarray]:
    if width == 0:
        return None, cursor
    if (cursor + width > ends).any():
        raise ValueError("a key ends inside a column")
    raw = np.empty((len(cursor), width), np.uint8)
    for byte in range(width):
        raw[:, byte] = data[cursor + byte]
    return _from_big_endian(raw, width), cursor + width


def _spread(values: np.ndarray | None, some: np.ndarray, rows: int) -> np.ndarray | None:
    if values is None or len(some) == rows:
        return values
    out = np.zeros((rows, *values.shape[1:]), values.dtype)
    out[some] = values
    return out


def _strings(text: np.ndarray, sizes: np.ndarray, some: np.ndarray, rows: int) -> Keys:
    lengths = np.zeros(rows, np.int64)
    lengths[some] = sizes
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return Keys(offsets, text)


def _read_rest(
    data: np.ndarray, cursor: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return gather(data, cursor, ends - cursor), ends - cursor, ends


def _read_escaped(
    data: np.ndarray, cursor: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return text and lengths of strings that end in 0x00 0x00, and the positions after them."""
    pairs = np.flatnonzero((data[:-1] == 0) & (data[1:] == 0))
    nearest = np.searchsorted(pairs, cursor)
    stops = np.concatenate((pairs, [len(data)]))[nearest]
    if (stops + 2 > ends).any():
        raise ValueError("a string of a key has no end")
    sizes = stops - cursor
    text = gather(data, cursor, sizes)
    zeros = np.flatnonzero(text == 0)
    string_ends = np.cumsum(sizes)
    if len(zeros):
        # If a string's last byte is a zero that is followed by 0x00, the terminator is one byte earlier.
        if (text[np.minimum(zeros + 1, len(text) - 1)] != 0xFF).any():
            raise ValueError("a string of a key has a zero that is not escaped")
        sizes = sizes - np.diff(np.searchsorted(zeros, string_ends), prepend=0)
        text = np.delete(text, zeros + 1)
    return text, sizes, stops + 2
