"""Content of files: decompression, and detection of copies.

A copy is detected by its beginning and by the bytes before an offset, because a hash would require reading
the whole file.
"""

from __future__ import annotations

import io
import os
import stat
import struct
from pathlib import Path

import zstandard

from elfmesh.errors import DataError
from elfmesh.ingest.sources.blocks import BLOCK_BYTES
from elfmesh.ingest.sources.compressed import compression, decoded
from elfmesh.ingest.sources.position import (
    FINISHED,
    HEAD_BYTES,
    MARK_BYTES,
    FilePosition,
    digest,
    mark_of,
)
from elfmesh.storage.starving import opened, opened_file

READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
GZIP_TRAILER_BYTES = 4
ZSTD_HEADER_BYTES = 18
SAMPLE_BYTES = 128 << 10
"""Compressed bytes from which the size of a file is estimated: some milliseconds."""

SAMPLE_STEP_BYTES = 4 << 10
SAMPLE_RATIO_MAX = 256
"""A beginning that unfolds better is not unfolded further."""

TRUSTED_RATIO = 1.5
"""The stated size counts unless the estimate is so many times larger, because the beginning may unfold better
than the rest."""


def is_compressed(path: str) -> bool:
    """Return whether a file is compressed, by its first bytes; False also if it cannot be read."""
    try:
        fd = opened(path, READ_ONLY)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and bool(compression(os.pread(fd, 4, 0)))
    except OSError:
        return False
    finally:
        os.close(fd)


class Inflated:
    """Compressed file that is read forward."""

    def __init__(self, path: str) -> None:
        self._file = opened_file(Path(path), "rb")
        self._chunks = decoded(self._file, path, BLOCK_BYTES, lambda _: None)
        self._rest = b""
        self.finished = False

    @property
    def fd(self) -> int:
        return self._file.fileno()

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; b"" at the end.

        Raises DataError if the file is damaged or (still) incomplete.
        """
        if not self._rest:
            self._rest = next(self._chunks, b"")
            self.finished = not self._rest
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def take(self, size: int) -> bytes:
        """Return exactly `size` bytes, fewer only at the end. Raises as `read`."""
        parts: list[bytes] = []
        while size > 0 and (part := self.read(min(size, BLOCK_BYTES))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> tuple[int, bytes]:
        """Skip `size` bytes.

        Returns how many there were, and the last MARK_BYTES of them. Raises as `read`.
        """
        passed, last = 0, b""
        while passed < size and (part := self.read(min(size - passed, BLOCK_BYTES))):
            passed += len(part)
            last = (last + part)[-MARK_BYTES:]
        return passed, last

    def close(self) -> None:
        self._file.close()


def holds(path: str, place: FilePosition) -> bool:
    """Return whether a file, plain or compressed, begins with everything that was read up to a position.

    Compares the beginning and the bytes before the offset. Cost for a compressed file: decompression up to
    the offset, unless the file ends exactly there.
    """
    try:
        if is_compressed(path):
            return _compressed_holds(path, place)
        fd = opened(path, READ_ONLY)
        try:
            size = os.fstat(fd).st_size
            if size < max(place.offset, place.head):
                return False
            start = max(0, place.offset - MARK_BYTES)
            before = os.pread(fd, place.offset - start, start)
            return digest(os.pread(fd, place.head, 0)) == place.generation and _fits(before, place)
        finally:
            os.close(fd)
    except (OSError, DataError):
        return False


def ends_at(path: str, place: FilePosition) -> bool:
    """Return whether a gzip file declares exactly as many bytes as were read; False if uncertain."""
    try:
        with opened_file(Path(path), "rb") as file:
            if compression(file.read(4)) != "gzip":
                return False
            file.seek(-GZIP_TRAILER_BYTES, os.SEEK_END)
            (size,) = struct.unpack("<I", file.read(GZIP_TRAILER_BYTES))
            return bool(size == place.offset & 0xFFFFFFFF)
    except (OSError, struct.error):
        return False


def stated_size(path: str) -> int:
    """Return how many bytes a compressed file states to have; 0 if it is none, or states nothing.

    A gzip file states the size of its last member, modulo 4 GiB, and a zstd file that of its first frame.
    """
    try:
        with opened_file(Path(path), "rb") as file:
            head = file.read(ZSTD_HEADER_BYTES)
            match compression(head):
                case "gzip":
                    file.seek(-GZIP_TRAILER_BYTES, os.SEEK_END)
                    return int(struct.unpack("<I", file.read(GZIP_TRAILER_BYTES))[0])
                case "zstd":
                    size = zstandard.get_frame_parameters(head).content_size
                    return 0 if size == zstandard.CONTENTSIZE_UNKNOWN else int(size)
                case _:
                    return 0
    except (OSError, struct.error, zstandard.ZstdError):
        return 0


def expected_size(path: str, size: int) -> tuple[int, bool]:
    """Return how many bytes a file of `size` bytes has when it is read, and whether this is an estimate.

    A compressed file of several parts, or beyond 4 GiB, states less than it has. Its beginning tells: if that
    unfolds much better than the stated size, the whole file is expected to unfold like it.
    """
    try:
        with opened_file(Path(path), "rb") as file:
            data = file.read(SAMPLE_BYTES) if compression(file.read(4)) and not file.seek(0) else b""
    except OSError:
        return size, False
    made, ratio = _unfolded(data, path)
    if len(data) >= size and ratio < SAMPLE_RATIO_MAX:
        return max(size, made), False
    stated = max(size, stated_size(path))
    guess = round(ratio * size)
    return (guess, True) if guess > stated * TRUSTED_RATIO else (stated, False)


def _unfolded(data: bytes, path: str) -> tuple[int, float]:
    """Return how many bytes the beginning of a compressed file has, and how many are made of one at best.

    A frame gives its bytes in blocks, so what was read for the next block does not count.
    """
    made, read, ratio = 0, 0, 0.0

    def on_bytes(count: int) -> None:
        nonlocal read
        read += count

    try:
        for part in decoded(io.BytesIO(data), path, SAMPLE_STEP_BYTES, on_bytes):
            made += len(part)
            ratio = max(ratio, made / read)
            if ratio >= SAMPLE_RATIO_MAX:
                break
    except DataError:  # it is cut off
        pass
    return made, ratio


def is_copy(path: str, fd: int) -> bool | None:
    """Return whether a file is a copy or the compressed form of an open one, as far as it can be tested.

    A copy is never longer. The first KiB and, for plain files, the last bytes of the copy are compared. None
    if a compressed file has (still) too little data.
    """
    ours = os.pread(fd, HEAD_BYTES, 0)
    if is_compressed(path):
        try:
            theirs = head_of(path, HEAD_BYTES + 1)
        except DataError:
            return None
        if len(ours) == HEAD_BYTES:
            theirs = theirs[:HEAD_BYTES]
        return bool(theirs) and theirs == ours[: len(theirs)]
    try:
        other = opened(path, READ_ONLY)
    except OSError:
        return False
    try:
        theirs, size = os.pread(other, HEAD_BYTES, 0), os.fstat(other).st_size
        if not theirs or theirs != ours[: len(theirs)] or size > os.fstat(fd).st_size:
            return False
        start = max(0, size - MARK_BYTES)
        return os.pread(other, size - start, start) == os.pread(fd, size - start, start)
    finally:
        os.close(other)


def is_copy_of(path: str, original: str) -> bool | None:
    """As `is_copy`, for an original that is not open; False if it cannot be opened or is compressed."""
    if is_compressed(original):
        return False
    try:
        fd = opened(original, READ_ONLY)
    except OSError:
        return False
    try:
        return is_copy(path, fd)
    finally:
        os.close(fd)


def common_bytes(fd: int, other: int) -> int:
    """Return the length of the common prefix of two open files, found by bisection."""
    ours, theirs = os.pread(fd, HEAD_BYTES, 0), os.pread(other, HEAD_BYTES, 0)
    same = min(len(ours), len(theirs))
    if not same or ours[:same] != theirs[:same]:
        return 0
    above = min(os.fstat(fd).st_size, os.fstat(other).st_size) + 1
    while above - same > 1:
        middle = (same + above) // 2
        start = max(0, middle - MARK_BYTES)
        if os.pread(fd, middle - start, start) == os.pread(other, middle - start, start):
            same = middle
        else:
            above = middle
    return same


def begins_as(path: str, place: FilePosition) -> bool:
    try:
        with opened_file(Path(path), "rb") as file:
            return digest(file.read(place.head)) == place.generation
    except OSError:
        return False


def place_at_end(path: str, fd: int, role: int, line_bytes_max: int) -> FilePosition:
    """Return the position of a file that is recorded without reading.

    For FINISHED, this is after its last complete line.
    """
    status = os.fstat(fd)
    head = os.pread(fd, HEAD_BYTES, 0)
    offset, mark = status.st_size, b""
    if role == FINISHED:
        offset = last_line_start(fd, offset, line_bytes_max)
        start = max(0, offset - MARK_BYTES)
        mark = mark_of(os.pread(fd, offset - start, start))
    return FilePosition(path, status.st_dev, status.st_ino, digest(head), len(head), offset, mark, role)


def head_of(path: str, size: int) -> bytes:
    """Return the first bytes of a file, decompressed.

    Raises DataError if it is damaged or (still) incomplete.
    """
    inflated = Inflated(path)
    try:
        return inflated.take(size)
    finally:
        inflated.close()


def last_line_start(fd: int, size: int, line_bytes_max: int) -> int:
    """Return the offset after the last newline, searched within the longest permitted line."""
    start = max(0, size - line_bytes_max)
    newline = os.pread(fd, size - start, start).rfind(b"\n")
    return start + newline + 1 if newline >= 0 else start


def _compressed_holds(path: str, place: FilePosition) -> bool:
    inflated = Inflated(path)
    try:
        head = inflated.take(place.head)
        if digest(head) != place.generation:
            return False
        if place.head >= MARK_BYTES and ends_at(path, place):
            return True
        passed, last = inflated.skip(max(0, place.offset - len(head)))
        return len(head) + passed >= place.offset and _fits((head + last)[: place.offset], place)
    finally:
        inflated.close()


def _fits(before: bytes, place: FilePosition) -> bool:
    return not place.mark or mark_of(before) == place.mark
