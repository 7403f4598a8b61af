"""Winning record of each group, compared by words, then by bytes.

Values that do not fit in one ordered integer (strings, decimals, "first by time") are compared as int64
words, the first ones first. A byte string comes last, compared by unsigned bytes. Smaller words win.

Owns the words and bytes of the winners, in place. Does not depend on types, keys, or on which end wins
(callers invert words).

Invariants:
    - The winner does not depend on the order of the records: equal ones are equal in every word and byte.
    - Bytes of former winners are dropped when they are more than half of all.

Paper: ELF 2.2 (PAO).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from elfmesh.cbt import kernel
from elfmesh.cbt.growing import Growing

_INT64 = np.iinfo(np.int64)
_WORD = 8
_SIGN = np.uint64(1 << 63)
_ARENA_BYTES_MIN = 1 << 10


class Strings(Struct, frozen=True):
    """Byte strings: string i is data[starts[i] : starts[i] + lengths[i]].

    Attributes:
        starts: int64[n].
        lengths: int64[n].
        data: uint8, with at least eight bytes after the last string's end.
    """

    starts: np.ndarray
    lengths: np.ndarray
    data: np.ndarray

    def take(self, rows: np.ndarray) -> Strings:
        return Strings(self.starts[rows], self.lengths[rows], self.data)

    def words(self, position: int, invert: bool) -> np.ndarray:
        """Return int64[n] with the order of the eight bytes from `position` on, with zeros after the end."""
        # Overlapping little-endian words at every byte, because numpy gathers from unaligned arrays.
        every = np.ndarray(max(len(self.data) - _WORD + 1, 0), "<u8", self.data, strides=(1,))
        rest = self.lengths - position
        inside = rest > 0
        if len(every) == 0 or not inside.any():
            words = np.zeros(len(rest), np.uint64)
        else:
            words = every[np.where(inside, self.starts + position, 0)].astype(np.uint64, copy=False)
            missing = ((_WORD - np.clip(rest, 0, _WORD)) * 8).astype(np.uint64)
            whole = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.minimum(missing, np.uint64(63))
            words &= np.where(missing == 64, np.uint64(0), whole)
        ordered: np.ndarray = (words.byteswap() ^ _SIGN).view(np.int64)
        return ~ordered if invert else ordered

    def bytes(self) -> np.ndarray:
        total = int(self.lengths.sum())
        ends = np.cumsum(self.lengths)
        places = np.arange(total) + np.repeat(self.starts - (ends - self.lengths), self.lengths)
        held: np.ndarray = self.data[places]
        return held


def padded(starts: np.ndarray, lengths: np.ndarray, data: np.ndarray) -> Strings:
    """Return strings over bytes without spare bytes at the end."""
    if len(lengths) == 0:
        return Strings(starts, lengths, np.zeros(_WORD, np.uint8))
    low, high = int(starts.min()), int((starts + lengths).max())
    room = np.zeros(high - low + _WORD, np.uint8)
    room[: high - low] = data[low:high]
    return Strings(starts - low, lengths, room)


class Winners:
    """Least record of each group.

    Args:
        words: number of int64 words of a record, the first one deciding.
        invert: whether the greatest byte string wins instead of the least.
        tail: whether a record ends in a byte string.
    """

    def __init__(self, words: int, *, tail: bool, invert: bool) -> None:
        self._words = [Growing(_INT64.max) for _ in range(words + tail)]
        self._tail = tail
        self._invert = invert
        self._found = Growing()
        self._starts, self._lengths = Growing(), Growing()
        self._arena = np.zeros(0, np.uint8)
        self._arena_used = 0
        self._arena_live = 0
        # Zero everywhere between two calls; numbers the records of a batch by group.
        self._scratch = Growing()

    def add(self, words: Sequence[np.ndarray], tail: Strings | None, ids: np.ndarray, groups: int) -> None:
        """Let records compete: int64[n] per word, n strings if there is a tail, int64[n] groups.

        Cost: one look at the first word; more only for records that are not worse than the winner by it.
        """
        words = list(words)
        if tail is not None:
            words.append(tail.words(0, self._invert))
        found = self._found.reach(groups)
        hopeful = np.flatnonzero(words[0] <= self._words[0].reach(groups)[ids])
        if len(hopeful) == 0:
            return
        ids, words = ids[hopeful], [word[hopeful] for word in words]
        tail = None if tail is None else tail.take(hopeful)
        best = self._best_of_each(words, tail, ids, groups)
        if best is not None:
            ids, words = ids[best], [word[best] for word in words]
            tail = None if tail is None else tail.take(best)
        wins = self._beats(words, tail, ids, groups) | (found[ids] == 0)
        rows = np.flatnonzero(wins)
        self._crown(rows, words, tail, ids, groups)

    def words(self, groups: int) -> list[np.ndarray]:
        """Return copies of the winners' words, without the byte string's."""
        return [column.head(groups).copy() for column in self._words[: len(self._words) - self._tail]]

    def found(self, groups: int) -> np.ndarray:
        """Return bool[groups]: which groups have a record."""
        found: np.ndarray = self._found.head(groups) != 0
        return found

    def strings(self, groups: int) -> Strings:
        """Return the winners' byte strings, empty if there is none; valid until the next change."""
        return Strings(self._starts.head(groups), self._lengths.head(groups), self._padded_arena())

    def clear(self) -> None:
        for column in (*self._words, self._found, self._starts, self._lengths):
            column.clear()
        self._arena_used = self._arena_live = 0

    @property
    def nbytes(self) -> int:
        columns = (*self._words, self._found, self._starts, self._lengths, self._scratch)
        return int(self._arena.nbytes) + sum(column.nbytes for column in columns)

    def _best_of_each(
        self, words: list[np.ndarray], tail: Strings | None, ids: np.ndarray, groups: int
    ) -> np.ndarray | None:
        """Return one row per group with a least record; None if no group has two."""
        scratch = self._scratch.reach(groups)
        rows = np.arange(len(ids))
        scratch[ids] = rows
        last = scratch[ids] == rows
        if last.all():
            scratch[ids] = 0
            return None
        for word in words:
            rows = self._least_rows(word[rows], rows, ids, scratch)
        if tail is not None:
            position = _WORD
            while len(rows) and (tail.lengths[rows] > position).any():
                rows = self._least_rows(tail.take(rows).words(position, self._invert), rows, ids, scratch)
                position += _WORD
            lengths = tail.lengths[rows]
            rows = self._least_rows(-lengths if self._invert else lengths, rows, ids, scratch)
        scratch[ids[rows]] = rows
        one_each: np.ndarray = rows[scratch[ids[rows]] == rows]
        scratch[ids] = 0
        return one_each

    @staticmethod
    def _least_rows(word: np.ndarray, rows: np.ndarray, ids: np.ndarray, scratch: np.ndarray) -> np.ndarray:
        of_rows = ids[rows]
        scratch[of_rows] = _INT64.max
        kernel.active.least(of_rows, word, scratch)
        least: np.ndarray = rows[word == scratch[of_rows]]
        return least

    def _beats(
        self, words: list[np.ndarray], tail: Strings | None, ids: np.ndarray, groups: int
    ) -> np.ndarray:
        less, open_ = np.zeros(len(ids), np.bool_), np.arange(len(ids))
        for word, column in zip(words, self._words, strict=True):
            mine, theirs = word[open_], column.reach(groups)[ids[open_]]
            less[open_[mine < theirs]] = True
            open_ = open_[mine == theirs]
        if tail is None:
            return less
        starts, lengths = self._starts.reach(groups), self._lengths.reach(groups)
        current = Strings(starts[ids], lengths[ids], self._padded_arena())
        position = _WORD
        while len(open_):
            ours, held = tail.take(open_), current.take(open_)
            longer = np.maximum(ours.lengths, held.lengths) > position
            if not longer.any():
                shorter = ours.lengths > held.lengths if self._invert else ours.lengths < held.lengths
                less[open_[shorter]] = True
                break
            mine, theirs = ours.words(position, self._invert), held.words(position, self._invert)
            less[open_[mine < theirs]] = True
            open_ = open_[mine == theirs]
            position += _WORD
        return less

    def _crown(
        self, rows: np.ndarray, words: list[np.ndarray], tail: Strings | None, ids: np.ndarray, groups: int
    ) -> None:
        winners = ids[rows]
        for word, column in zip(words, self._words, strict=True):
            column.reach(groups)[winners] = word[rows]
        self._found.reach(groups)[winners] = 1
        if tail is None or len(rows) == 0:
            return
        new = tail.take(rows)
        lengths, starts = self._lengths.reach(groups), self._starts.reach(groups)
        self._arena_live += int(new.lengths.sum()) - int(lengths[winners].sum())
        text = new.bytes()
        self._reserve(len(text))
        at = self._arena_used
        self._arena[at : at + len(text)] = text
        self._arena_used += len(text)
        starts[winners] = at + np.cumsum(new.lengths) - new.lengths
        lengths[winners] = new.lengths
        if self._arena_used > 2 * self._arena_live + _ARENA_BYTES_MIN:
            self._compact(groups)

    def _reserve(self, more: int) -> None:
        need = self._arena_used + more + _WORD
        if need > len(self._arena):
            grown = np.zeros(max(need, len(self._arena) + len(self._arena) // 2), np.uint8)
            grown[: self._arena_used] = self._arena[: self._arena_used]
            self._arena = grown

    def _compact(self, groups: int) -> None:
        """Drop the bytes of former winners. Cost: O(groups), once per as many bytes written."""
        held = self.strings(groups)
        text = held.bytes()
        self._starts.reach(groups)[:groups] = np.cumsum(held.lengths) - held.lengths
        self._arena = np.zeros(len(text) + _WORD, np.uint8)
        self._arena[: len(text)] = text
        self._arena_used = self._arena_live = len(text)

    def _padded_arena(self) -> np.ndarray:
        return self._arena if len(self._arena) else np.zeros(_WORD, np.uint8)
