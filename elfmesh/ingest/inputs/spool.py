"""Spool: input from the network or a pipe is first written to disk, and then read like any other log.

A stream's segments are `spool.log`, which grows, and rotated ones (`spool.log.00000001`, ...). The ordinary
follower reads them. When `append` returns, the data is durable and consists of complete lines. An incomplete
last line was not acknowledged, and the next start removes it. The newest rotated segment is kept, so that the
last line always exists. Calls are synchronous and must not overlap.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.inputs.files import sync_directory
from elfmesh.ingest.inputs.positions import Positions, SenderMark, check_journal
from elfmesh.ingest.sources.position import READING, FilePosition
from elfmesh.storage.results.segment import write_all

FILE_NAME = "spool.log"
NEXT_NAME = "next.log"
SEGMENT_BYTES = 64 << 20
SEGMENTS_MIN = 4
"""Minimum number of segments of a spool, so that a part of it can be deleted."""

TAIL_BYTES = 1 << 16
_ROTATED = re.compile(re.escape(FILE_NAME) + r"\.(\d{8,})")


class SpoolFull(RuntimeFailure):
    """The spool has no room: its lines were not read yet, or the disk is full."""


class Spool:
    """Segments of one stream, in a directory of their own; `positions` is None without producers."""

    def __init__(self, directory: Path, limit_bytes: int, *, positioned: bool = False) -> None:
        self.path = directory / FILE_NAME
        self._directory = directory
        self._limit = limit_bytes
        self._segment_bytes = min(SEGMENT_BYTES, limit_bytes // SEGMENTS_MIN)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = self._cut_torn_line()
        self._rotated = self._list()
        self.positions = self._open_positions() if positioned else None
        sync_directory(directory)

    @property
    def nbytes(self) -> int:
        return self._size + sum(size for _, size in self._rotated)

    @property
    def end(self) -> tuple[int, int]:
        """Return where the next line is written: inode and length of the current file."""
        return os.fstat(self._fd).st_ino, self._size

    @property
    def over(self) -> bool:
        """Return whether an old segment must be deleted before the next line."""
        return self.nbytes >= self._limit

    def append(self, data: bytes, marks: Sequence[SenderMark] = ()) -> None:
        """Write complete lines, with the new positions of their producers; durable on return.

        Raises SpoolFull if there is no room; nothing was written then, and `give_up_read` may make room.
        """
        if self.nbytes + len(data) > self._limit + self._segment_bytes or self.over:
            raise SpoolFull(f"{self.nbytes} bytes wait to be read")
        try:
            if self.positions is not None and marks:
                inode = os.fstat(self._fd).st_ino
                self.positions.intend(marks, inode, self._size, self._size + len(data))
            write_all(self._fd, data)
            os.fdatasync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise SpoolFull(error.strerror or str(error)) from error
        self._size += len(data)
        if self.positions is not None and marks:
            self.positions.applied(marks)
        if self._size >= self._segment_bytes:
            self._rotate()

    def give_up_read(self, restarts: Iterable[Sequence[FilePosition]]) -> bool:
        """Delete the oldest segments that no job needs, until there is room. Returns whether there is.

        `restarts` has the restart positions of each job.
        """
        needed = min((self._needed_from(places) for places in restarts), default=len(self._rotated))
        spare = min(needed, len(self._rotated) - 1)
        while self.over and spare > 0:
            path, _ = self._rotated.pop(0)
            path.unlink(missing_ok=True)
            spare -= 1
        return not self.over

    def last_line(self) -> bytes:
        return next(reversed(self.last_lines()), b"")

    def last_lines(self) -> list[bytes]:
        """Return some of the last lines, at least one if there is any."""
        for path in (self.path, *(path for path, _ in reversed(self._rotated))):
            if data := _tail(path):
                return data.rstrip(b"\n").split(b"\n")
        return []

    def close(self) -> None:
        os.close(self._fd)
        if self.positions is not None:
            self.positions.close()

    def _needed_from(self, places: Sequence[FilePosition]) -> int:
        """Return the index of the first rotated segment that a job may still read.

        Segments are read in order. Those before the oldest segment with unread bytes were read; the job has
        not seen those after the newest one that it knows.
        """
        ours = [place for place in places if str(Path(place.path).parent) == str(self._directory)]
        if not ours:  # the job reads another stream
            return len(self._rotated)
        by_inode = {place.inode: place for place in ours}
        known = -1
        for number, (path, size) in enumerate(self._rotated):
            try:
                place = by_inode.get(path.stat().st_ino)
            except OSError:
                continue
            if place is None:
                continue
            if place.role == READING and place.offset < size:
                return number
            known = number
        return len(self._rotated) if os.fstat(self._fd).st_ino in by_inode else known + 1

    def _rotate(self) -> None:
        """Start a new file; if that fails, the current one continues to grow."""
        last = self._rotated[-1][0].name if self._rotated else f"{FILE_NAME}.0"
        number = int(last.rpartition(".")[2]) + 1
        rotated = self._directory / f"{FILE_NAME}.{number:08d}"
        fresh = self._directory / NEXT_NAME
        try:
            fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            self.path.rename(rotated)
            fresh.rename(self.path)
        except OSError:
            os.close(fd)
            if rotated.exists():
                rotated.rename(self.path)
            return
        os.close(self._fd)
        self._fd = fd
        self._rotated.append((rotated, self._size))
        self._size = 0
        sync_directory(self._directory)

    def _list(self) -> list[tuple[Path, int]]:
        found = [each for each in self._directory.iterdir() if _ROTATED.fullmatch(each.name)]
        return [
            (each, each.stat().st_size)
            for each in sorted(found, key=lambda each: (len(each.name), each.name))
        ]

    def _open_positions(self) -> Positions:
        def cut(size: int) -> None:
            os.ftruncate(self._fd, size)
            os.fdatasync(self._fd)
            self._size = size

        rotated = {path.stat().st_ino: size for path, size in self._rotated}
        inode = os.fstat(self._fd).st_ino
        check_journal(self._directory, has_lines=bool(self._size or rotated))
        return Positions(self._directory, inode=inode, size=self._size, rotated=rotated, cut=cut)

    def _cut_torn_line(self) -> int:
        size = end = os.fstat(self._fd).st_size
        while end:
            start = max(0, end - TAIL_BYTES)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._fd, end)
            os.fdatasync(self._fd)
        return end


def whole_lines_of(path: Path) -> int:
    """Return the bytes of a segment up to the end of its last complete line. Cost: reads all of it."""
    return path.read_bytes().rfind(b"\n") + 1


def _tail(path: Path) -> bytes:
    """Return the end of a file, with at least one complete line."""
    size = path.stat().st_size
    room = TAIL_BYTES
    with path.open("rb") as file:
        while True:
            file.seek(max(0, size - room))
            data = file.read()
            if room >= size or b"\n" in data.rstrip(b"\n"):
                return data
            room *= 2
