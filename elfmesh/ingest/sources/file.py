"""Open file of a stream: its position, and the check that its content has not been replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from elfmesh.ingest.sources.blocks import Block, LineCutter, read_whole_lines
from elfmesh.ingest.sources.contents import READ_ONLY, Inflated, head_of, is_compressed
from elfmesh.ingest.sources.position import (
    HEAD_BYTES,
    MARK_BYTES,
    FilePosition,
    SourceId,
    digest,
    mark_of,
)
from elfmesh.storage.starving import opened

SETTLED_S = 1.0
"""Modification times are coarse: a file that changed more recently than this may have changed again."""


class OpenFile:
    """Open file of a stream; `offset` is the start of its next record, never after an unfinished line.

    `identity` is the device and inode by which it is recorded; for a copy, those of the original. `inflated`
    decompresses it, if it is compressed, from the beginning.
    """

    def __init__(
        self,
        path: str,
        fd: int,
        identity: SourceId,
        new_cutter: Callable[[], LineCutter],
        inflated: Inflated | None = None,
    ) -> None:
        self.path = path
        self.fd = fd
        self.id = identity
        self.head = b""
        self.generation = digest(b"")
        self.at_end = False
        self.attached = True
        self.silent_since: float | None = None
        self.inflated = inflated
        self.grown_at = 0.0
        self._new_cutter = new_cutter
        self._changed_ns = -1
        self._changed_at = 0.0
        self._before = b""
        self.start_at(0)

    @property
    def offset(self) -> int:
        return self._base + self.cutter.taken

    @property
    def pending(self) -> int:
        return self.cutter.pending

    @property
    def position(self) -> FilePosition:
        mark = mark_of(self._before)
        return FilePosition(self.path, *self.id, self.generation, len(self.head), self.offset, mark)

    @property
    def bytes_before(self) -> bytes:
        return self._before

    def start_at(self, offset: int) -> None:
        """Continue at an offset, which is the beginning of a line; in a compressed file only forward."""
        self._base = offset
        self.cutter = self._new_cutter()
        if self.inflated is not None:
            self._before = self.inflated.skip(offset)[1]
        else:
            self._before = self._bytes_before(offset)

    def pass_over(self, offset: int) -> None:
        """Continue at an offset, which is the beginning of a line; of a compressed file, its end."""
        if self.inflated is None:
            self.start_at(offset)
        else:
            self._base, self.cutter, self._before = offset, self._new_cutter(), b""
            self.inflated.finished = True

    def has(self, marks: Iterable[tuple[int, bytes]]) -> bool:
        """Return whether a plain file has the bytes before some offsets that their marks state."""
        return all(mark_of(self._bytes_before(offset)) == mark for offset, mark in marks)

    def learn_head(self, length: int = HEAD_BYTES) -> None:
        self.head = os.pread(self.fd, length, 0) if self.inflated is None else head_of(self.path, length)
        self.generation = digest(self.head)

    def resume(self, place: FilePosition) -> None:
        """Take the identity of the file of a stored position, and continue there. Raises as `start_at`."""
        if self.inflated is None:
            self.head = os.pread(self.fd, place.head, 0)
        else:
            self.head = head_of(self.path, place.head)
        self.generation = place.generation
        self.start_at(place.offset)

    def size(self) -> int:
        """Return the size.

        For a compressed file at least one byte more than was read, until its end is reached.
        """
        if self.inflated is None:
            return os.fstat(self.fd).st_size
        return self.offset + self.pending + (0 if self.inflated.finished else 1 << 30)

    def replaced(self, now: float) -> bool:
        """Return whether the content that was read is gone: the file was truncated, or rewritten in place."""
        if self.inflated is not None:
            return False
        status = os.fstat(self.fd)
        at = self.offset + self.pending
        if status.st_size < at:
            return True
        if status.st_mtime_ns != self._changed_ns:
            self._changed_ns, self._changed_at = status.st_mtime_ns, now
        elif now - self._changed_at > SETTLED_S:
            return False
        if self.head and os.pread(self.fd, len(self.head), 0) != self.head:
            return True
        return self._bytes_before(self.offset) != self._before

    def read(self, room: int) -> tuple[Block | None, int]:
        """Return the complete lines of the next `room` bytes, if any, and the number of bytes read."""
        before = self.position
        inflated = self.inflated
        at = self.offset + self.pending
        chunk = read_whole_lines(self.fd, at, room) if inflated is None else inflated.read(room)
        return self._block(before, self.cutter.push(chunk), chunk), len(chunk)

    def close_record(self) -> Block | None:
        """Return the record that was kept back because it could continue; None if there is none."""
        before = self.position
        return self._block(before, self.cutter.flush(), b"", cut=True)

    def _block(self, before: FilePosition, data: bytes, chunk: bytes, *, cut: bool = False) -> Block | None:
        if self.offset > before.offset:
            end = len(chunk) - self.pending
            if end >= MARK_BYTES:
                self._before = chunk[end - MARK_BYTES : end]
            else:  # unknown for a compressed file
                self._before = self._bytes_before(self.offset) if self.inflated is None else b""
        overlong, beginning = self.cutter.take_overlong()
        if not data and not overlong:
            return None
        head = self.head if before.offset else None
        mark = mark_of(self._before)
        return Block(data, self.path, before, self.offset, overlong, beginning, head, mark, cut=cut)

    def _bytes_before(self, offset: int) -> bytes:
        start = max(0, offset - MARK_BYTES)
        return os.pread(self.fd, offset - start, start) if offset else b""

    def close(self) -> None:
        if self.inflated is not None:
            self.inflated.close()
        else:
            os.close(self.fd)


def open_file(path: str, identity: SourceId, new_cutter: Callable[[], LineCutter]) -> OpenFile:
    if is_compressed(path):
        inflated = Inflated(path)
        return OpenFile(path, inflated.fd, identity, new_cutter, inflated)
    return OpenFile(path, opened(path, READ_ONLY), identity, new_cutter)
