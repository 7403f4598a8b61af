"""Typed values of winning records: conversion between Arrow columns and the words and bytes of `winners`.

Owns the conversion of each canonical type to ordered words. Does not depend on the aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, decimal_words, from_int64, is_bytes, to_int64, valid_mask
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.laws.winners import Strings, Winners, padded
from elfmesh.errors import DataError

_INT64 = np.iinfo(np.int64)
_STRING_BYTES_MAX = _INT64.max >> 32


class Records:
    """Winning record of each group: the one with the least words, then the least or greatest value.

    Args:
        data_type: canonical type of the values.
        greatest: whether the greatest value wins.
        words: number of int64 words before the value.
        nulls: whether a value may be null; a null loses against any other value with equal words.
    """

    def __init__(
        self, data_type: pa.DataType, greatest: bool, *, words: int = 0, nulls: bool = False
    ) -> None:
        self.type = data_type
        self._greatest = greatest
        self._nulls = nulls
        self._given = words
        own = 2 if pa.types.is_decimal(data_type) else 0 if _is_wordless(data_type) else 1
        self._winners = Winners(words + nulls + own, tail=is_bytes(data_type), invert=greatest)
        self.groups = 0

    def add(self, values: pa.Array, ids: np.ndarray, groups: int, words: Sequence[np.ndarray] = ()) -> None:
        """Let values[n] compete in int64[n] groups, by words[n] first."""
        self.groups = max(self.groups, groups)
        own: list[np.ndarray] = []
        tail: Strings | None = None
        if pa.types.is_decimal(self.type):
            halves = decimal_words(values)
            # The low half is unsigned; with its sign bit flipped it is an int64 of the same order.
            own = [np.ascontiguousarray(halves[:, 1]), halves[:, 0] ^ np.int64(_INT64.min)]
        elif is_bytes(self.type):
            offsets, data = byte_layout(values)
            places = offsets.astype(np.int64)
            tail = padded(places[:-1], np.diff(places), data)
        elif not pa.types.is_null(self.type):
            ranks = to_int64(values)[0]
            own = [float_rank(ranks) if pa.types.is_floating(self.type) else ranks]
        if self._greatest:
            own = [~word for word in own]
        if self._nulls:
            own, tail = self._without_nulls(values, own, tail)
        self._winners.add([*words, *own], tail, ids, groups)

    def column(self, groups: int) -> pa.Array:
        """Return the winners' values; null if the winner is null, or if there is none."""
        found = self.found(groups)
        words = self._winners.words(groups)[self._given :]
        if self._nulls:
            found &= words.pop(0) == 0
        if pa.types.is_null(self.type):
            return pa.nulls(groups)
        if is_bytes(self.type):
            return _strings(self._winners.strings(groups), found, self.type)
        if self._greatest:
            words = [~word for word in words]
        if pa.types.is_decimal(self.type):
            halves = np.stack([words[1] ^ np.int64(_INT64.min), words[0]], axis=1)
            halves[~found] = 0
            buffer = pa.py_buffer(np.ascontiguousarray(halves))
            return pa.Array.from_buffers(self.type, groups, [_bitmap(found), buffer])
        return from_int64(
            float_rank(words[0]) if pa.types.is_floating(self.type) else words[0], found, self.type
        )

    def words(self, groups: int) -> list[np.ndarray]:
        """Return the winners' words before the value; unspecified if there is none."""
        return self._winners.words(groups)[: self._given]

    def found(self, groups: int) -> np.ndarray:
        return self._winners.found(groups)

    def clear(self) -> None:
        self._winners.clear()
        self.groups = 0

    @property
    def nbytes(self) -> int:
        return self._winners.nbytes

    @staticmethod
    def _without_nulls(
        values: pa.Array, own: list[np.ndarray], tail: Strings | None
    ) -> tuple[list[np.ndarray], Strings | None]:
        valid = valid_mask(values)
        if valid is None:
            return [np.zeros(len(values), np.int64), *own], tail
        own = [np.where(valid, word, 0) for word in own]
        if tail is not None:
            tail = Strings(tail.starts, np.where(valid, tail.lengths, 0), tail.data)
        return [(~valid).astype(np.int64), *own], tail


def _is_wordless(data_type: pa.DataType) -> bool:
    return is_bytes(data_type) or pa.types.is_null(data_type)


def _strings(held: Strings, found: np.ndarray, data_type: pa.DataType) -> pa.Array:
    lengths = np.where(found, held.lengths, 0)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _STRING_BYTES_MAX:
        raise DataError("the values of one table take more than 2 GiB", hint="Aggregate shorter ones.")
    data = pa.py_buffer(Strings(held.starts, lengths, held.data).bytes())
    buffers = [_bitmap(found), pa.py_buffer(offsets.astype(np.int32)), data]
    return pa.Array.from_buffers(data_type, len(lengths), buffers)


def _bitmap(valid: np.ndarray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
