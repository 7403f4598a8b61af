"""Stores blobs of trees that do not fit into memory in unnamed, append-only files.

The segment files are unlinked as soon as they are open, so no file is left however the process ends. Nothing
is synced. A put that fails changes nothing. A full segment without live blobs is closed. While more than half
of all bytes are dead, the emptiest segment is compacted, so the files take at most about twice the live bytes
plus two segments. The store is thread-safe.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from elfmesh.errors import StorageError
from elfmesh.storage.starving import off_the_loop

SEGMENT_BYTES = 64 << 20
"""Size from which a segment is full; space is freed in this unit."""

REMEDY = "Make room there, or raise limits.memory."
"""Remedy in error messages, for the operator of an agent."""


class _Segment(Struct):
    """A segment file. `live` is the total size of its blobs that were not dropped."""

    fd: int
    end: int = 0
    live: int = 0


class _Place(Struct, frozen=True):
    """Position of a blob, and its checksum."""

    segment: _Segment
    offset: int
    size: int
    crc: int


class SpillStore:
    """A `BlobStore` in unlinked files.

    Args:
        directory: created with the first blob; None: the system's directory for temporary files.
        limit_bytes: maximum disk space; None: no limit.
        segment_bytes: size of a segment.
        remedy: remedy in the error message of a failed write.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        limit_bytes: int | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        remedy: str = REMEDY,
    ) -> None:
        self.directory = directory
        self._remedy = remedy
        self.limit_bytes = limit_bytes
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._dropped: deque[int] = deque()
        self._segments: list[_Segment] = []
        self._places: dict[int, _Place] = {}
        self._next = 0
        self._closed = False

    @property
    def nbytes(self) -> int:
        with self._swept():
            return self._live_bytes()

    @property
    def disk_bytes(self) -> int:
        """Size of the files, including dropped blobs."""
        with self._swept():
            return self._disk_bytes()

    @property
    def _where(self) -> str:
        return "temporary files" if self.directory is None else str(self.directory)

    def put(self, blob: bytes, /) -> int:
        """Write a blob and return its number. StorageError: no space, or the store is closed."""
        with self._swept():
            self._check_open()
            place = self._append(blob)
            self._next += 1
            self._places[self._next] = place
            return self._next

    def get(self, number: int, /) -> bytes:
        """Read a blob. Raises StorageError if it is damaged, or the store is closed."""
        with self._swept():
            self._check_open()
            return self._read(self._places[number])

    def drop(self, number: int, /) -> None:
        """Drop a blob. Occasionally closes or compacts files that have become empty.

        The garbage collector may call this during any other call, so it never waits. The next call does what
        it could not do at once.
        """
        self._dropped.append(number)
        if self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close all files. Afterwards blobs may still be dropped; all other calls fail."""
        with self._swept():
            self._closed = True
            for segment in self._segments:
                os.close(segment.fd)
            self._segments, self._places = [], {}

    @contextlib.contextmanager
    def _swept(self) -> Iterator[None]:
        """Hold the lock after processing all dropped blobs."""
        with self._lock:
            self._sweep()
            yield

    def _sweep(self) -> None:
        while self._dropped:
            place = self._places.pop(self._dropped.popleft(), None)
            if place is None:
                continue  # the store was closed
            place.segment.live -= place.size
            if not place.segment.live:
                self._give_back(place.segment)
            self._tidy()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(
                "the store for state that does not fit into memory is closed", where=self._where
            )

    def _live_bytes(self) -> int:
        return sum(segment.live for segment in self._segments)

    def _disk_bytes(self) -> int:
        return sum(segment.end for segment in self._segments)

    def _append(self, blob: bytes) -> _Place:
        self._check_limit(len(blob))
        if not self._segments or self._segments[-1].end >= self._segment_bytes:
            self._segments.append(self._open())
        segment = self._segments[-1]
        try:
            _write(segment.fd, blob, segment.end)
        except OSError as error:
            with contextlib.suppress(OSError):  # removes a partly written blob
                os.ftruncate(segment.fd, segment.end)
            raise self._cannot(error) from None
        place = _Place(segment, segment.end, len(blob), zlib.crc32(blob))
        segment.end += len(blob)
        segment.live += len(blob)
        return place

    def _check_limit(self, more: int) -> None:
        if self.limit_bytes is not None and self._disk_bytes() + more > self.limit_bytes:
            raise StorageError(
                f"the limit of {self.limit_bytes} bytes for state that does not fit into memory is reached",
                where=self._where,
                hint="Raise limits.spill or limits.memory, or group by fewer keys.",
            )

    def _read(self, place: _Place) -> bytes:
        try:
            blob = os.pread(place.segment.fd, place.size, place.offset)
        except OSError as error:
            raise StorageError(f"cannot read it: {error.strerror}", where=self._where) from None
        if len(blob) != place.size or zlib.crc32(blob) != place.crc:
            raise StorageError("the data read from it is damaged", where=self._where, hint="Check the disk.")
        return blob

    def _open(self) -> _Segment:
        try:
            if self.directory is None:
                self.directory = Path(tempfile.gettempdir())
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd, name = off_the_loop(
                lambda: tempfile.mkstemp(prefix="elf-spill-", dir=self.directory), "spilling"
            )
            Path(name).unlink()
        except OSError as error:
            raise self._cannot(error) from None
        return _Segment(fd)

    def _give_back(self, segment: _Segment) -> None:
        if segment is self._segments[-1]:
            os.ftruncate(segment.fd, 0)
            segment.end = 0
        else:
            os.close(segment.fd)
            self._segments.remove(segment)

    def _tidy(self) -> None:
        full = self._segments[:-1]
        dead = sum(segment.end - segment.live for segment in full)
        if not full or dead <= self._live_bytes() + self._segment_bytes:
            return
        emptiest = min(full, key=lambda segment: segment.live)
        moving = [(number, place) for number, place in self._places.items() if place.segment is emptiest]
        for number, place in moving:
            try:
                moved = self._append(self._read(place))
            except StorageError:
                return  # there is no space to move the blob, so it stays
            self._places[number] = moved
            emptiest.live -= place.size
        self._give_back(emptiest)

    def _cannot(self, error: OSError) -> StorageError:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return StorageError(
            "the disk is full" if full else f"cannot write: {error.strerror}",
            where=self._where,
            hint=f"It contains state that does not fit into memory. {self._remedy}",
        )


def _write(fd: int, blob: bytes, offset: int) -> None:
    view = memoryview(blob)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
