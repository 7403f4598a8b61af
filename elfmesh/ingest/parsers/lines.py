"""Lines of a block of bytes: their positions, and the extraction of columns from all lines at once.

`data` is valid UTF-8. `starts` and `ends` are ascending and exclude line terminators and blank lines (only
spaces and tabs). `buffer` is `data` with trailing zero bytes, so that a position slightly after a line's end
needs no bounds check. Invalid UTF-8 never costs a line, because vulnerability scanners write arbitrary bytes
into the logs of web servers: each malformed sequence becomes U+FFFD, and `replaced` counts such lines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.ingest.parsers import scanner
from elfmesh.ingest.parsers.cells import spans

Positions = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
MARGIN = 64
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NEWLINE, RETURN, SPACE, TAB = 10, 13, 32, 9


class Lines:
    """Non-blank lines of one block of complete lines; the last may lack its newline."""

    __slots__ = ("_buffer", "data", "ends", "replaced", "scan", "starts")

    def __init__(self, block: bytes) -> None:
        self._buffer: Bytes | None = None
        self.scan = scanner.for_block(block)
        """The C module if it can read this block, else None."""
        self.data, self.replaced = valid_utf8(block.removeprefix(BYTE_ORDER_MARK), self.scan)
        starts, ends = self._split() if self.scan is None else self._scan_split()
        self.starts: Positions = starts
        self.ends: Positions = ends

    @property
    def buffer(self) -> Bytes:
        """`data` with trailing zero bytes; made at its first use."""
        if self._buffer is None:
            self._buffer = np.frombuffer(self.data + bytes(MARGIN), np.uint8)
        return self._buffer

    def _scan_split(self) -> tuple[Positions, Positions]:
        room = self.scan.newlines(self.data) + 1
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = self.scan.split(self.data, starts, ends)
        return starts[:count], ends[:count]

    def _split(self) -> tuple[Positions, Positions]:
        body = self.buffer[: len(self.data)]
        ends = np.flatnonzero(body == NEWLINE)
        if len(self.data) and self.data[-1] != NEWLINE:
            ends = np.append(ends, len(self.data))
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        if b"\r" in self.data:
            ends = ends - ((ends > starts) & (self.buffer[ends - 1] == RETURN))
        keep = ends > starts
        first = self.buffer[starts]
        for row in np.flatnonzero(keep & ((first == SPACE) | (first == TAB))):
            keep[row] = bool(self.data[starts[row] : ends[row]].strip(b" \t"))
        return (starts, ends) if keep.all() else (starts[keep], ends[keep])

    def part(self, starts: Positions, ends: Positions) -> Lines:
        other = Lines.__new__(Lines)
        other._buffer, other.scan, other.data, other.replaced = (
            self._buffer,
            self.scan,
            self.data,
            self.replaced,
        )
        other.starts, other.ends = starts, ends
        return other

    def __len__(self) -> int:
        return len(self.starts)

    def bytes(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]]

    def text(self, row: int) -> str:
        return self.bytes(row).decode()

    def numbered(self, rows: Iterable[int]) -> Iterator[tuple[int, str]]:
        return ((row, self.text(row)) for row in rows)

    def texts(self) -> list[str]:
        data = self.data
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [data[start:end].decode() for start, end in pairs]

    def cut(self, starts: Positions, ends: Positions) -> pa.Array:
        """Return a string column: one slice `[start, end)` of the block per row."""
        if self.scan is not None:
            return spans(self.scan, self.data, starts, ends)
        return _cut()(self.buffer, starts, ends)

    def raw(self) -> pa.Array:
        return self.cut(self.starts, self.ends)


def valid_utf8(block: bytes, scan: Any = None) -> tuple[bytes, int]:
    """Replace malformed sequences by U+FFFD. Returns the block and the number of affected lines."""
    if scan.valid(block) if scan is not None else block.isascii():
        return block, 0
    try:
        block.decode()
    except UnicodeDecodeError:
        repaired: list[bytes] = []
        touched = 0
        for line in block.split(b"\n"):
            fixed = line.decode("utf-8", "replace").encode()
            touched += fixed != line
            repaired.append(fixed)
        return b"\n".join(repaired), touched
    return block, 0


INLINE_BYTES_MAX = 12
"""Longest string whose bytes a string view contains."""


def cut_by_views(buffer: Bytes, starts: Positions, ends: Positions) -> pa.Array:
    """Return slices of a buffer as strings, by Arrow string views that Arrow then copies row by row."""
    lengths = ends - starts
    views = np.empty((len(starts), 4), np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(buffer, INLINE_BYTES_MAX)
    views.view(np.uint8)[:, 4:] = windows[starts]
    views[:, 0] = lengths
    far = lengths > INLINE_BYTES_MAX
    views[far, 2] = 0
    views[far, 3] = starts[far]
    buffers = [None, pa.py_buffer(views), pa.py_buffer(buffer)]
    return pa.Array.from_buffers(pa.string_view(), len(starts), buffers).cast(pa.string())


def cut_by_index(buffer: Bytes, starts: Positions, ends: Positions) -> pa.Array:
    """As `cut_by_views`, by indexing every byte, for versions of Arrow that cannot cast string views."""
    lengths = ends - starts
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    index = np.repeat(starts - offsets[:-1], lengths)
    index += np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer[index])]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


@functools.cache
def _cut() -> Callable[[Bytes, Positions, Positions], pa.Array]:
    try:
        pa.array(["a"], pa.string_view()).cast(pa.string())
    except (AttributeError, pa.ArrowException):
        return cut_by_index
    return cut_by_views
