"""Positions in files, as sources, jobs and the frame log store them (D-2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
from msgspec import Struct

HEAD_BYTES = 1 << 10
"""Bytes at the beginning of a file that identify it."""

MARK_BYTES = 64
"""Bytes before an offset whose hash is stored; in a log, part of a line with its time."""

FileKey: TypeAlias = tuple[int, int, bytes]
"""Device, inode, generation: identifies a file independently of its name."""

SourceId: TypeAlias = tuple[int, int]
"""Device and inode: one source of a watermark, through all generations."""

READING, FINISHED, FOREIGN = range(3)
"""Role of a stored position: continue reading there; detect growth of a file that was read and closed;
recognise a copy, a compressed form or a file from before the job, which is not read."""


class FilePosition(msgspec.Struct, frozen=True, array_like=True):
    """Position in one file (D-2).

    Attributes:
        path: last known name of the file; only for display, and to find its directory.
        generation: hash of the first `head` bytes, which distinguishes a reused inode or a truncated file.
        head: number of bytes in `generation`: the first KiB, or less if the file was shorter when first read.
        offset: bytes from the beginning, always at the beginning of a line.
        mark: hash of up to MARK_BYTES before `offset`; b"" if unknown.
        role: READING, FINISHED or FOREIGN.
        stream: stream of the file, if a job reads several; else "".
    """

    path: str
    device: int
    inode: int
    generation: bytes
    head: int
    offset: int
    mark: bytes = b""
    role: int = READING
    stream: str = ""

    @property
    def key(self) -> FileKey:
        return self.device, self.inode, self.generation

    @property
    def id(self) -> SourceId:
        return self.device, self.inode

    def at(self, offset: int, mark: bytes = b"") -> FilePosition:
        return msgspec.structs.replace(self, offset=offset, mark=mark, role=READING)


class Gap(Struct, frozen=True):
    """Bytes of a source that were never read: one loss (D-1's source_gap); `nbytes` None: unknown."""

    path: str
    why: str
    nbytes: int | None = None

    def __str__(self) -> str:
        what = "lines may be lost" if self.nbytes is None else f"{self.nbytes} bytes are lost"
        return f"{self.path}: {what}: {self.why}"


class SourceState(Struct, frozen=True):
    """State of one source after a poll; no `generations` if those of open files are unknown."""

    id: SourceId
    at_end: bool
    generations: tuple[bytes, ...] = ()


def digest(data: bytes) -> bytes:
    """Return an eight-byte hash of some content."""
    return hashlib.blake2b(data, digest_size=8).digest()


def mark_of(before: bytes) -> bytes:
    """Return the mark of an offset from the bytes before it; b"" at the beginning of a file."""
    return digest(before[-MARK_BYTES:]) if before else b""


def replay_ends(boundaries: Iterable[FilePosition]) -> dict[FileKey, int]:
    ends: dict[FileKey, int] = {}
    for place in boundaries:
        ends[place.key] = max(place.offset, ends.get(place.key, 0))
    return ends
