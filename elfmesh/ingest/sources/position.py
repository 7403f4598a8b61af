"""Places in files: the words in which sources, jobs and the frame log speak of bytes on disk (D-2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

HEAD_BYTES = 1 << 10
"""How much of a file's beginning tells it from others."""

MARK_BYTES = 64
"""How many bytes before an offset are remembered: in a log, part of a line with its time."""

FileKey: TypeAlias = tuple[int, int, bytes]
"""Device, inode, generation: which file this is, whatever it is called now."""

SourceId: TypeAlias = tuple[int, int]
"""Device and inode: one source of a watermark, through all generations."""

READING, FINISHED, FOREIGN = range(3)
"""What a stored position is for: to go on from; to see growth of a file that was read and closed; to know a
copy, a compressed form or a file from before the job, which is not read."""


class FilePosition(msgspec.Struct, frozen=True, array_like=True):
    """A place in one file (D-2).

    Attributes:
        path: what the file was called when it was last seen; only for people, and to know where to look.
        generation: hash of the first `head` bytes, which tells a reused inode or a truncated file apart.
        head: how many bytes `generation` covers: the first KiB, or what there was when it was first read.
        offset: bytes from the beginning, always at a line's beginning.
        mark: hash of the (at most) MARK_BYTES before `offset`; b"" where it is not known.
        role: READING, FINISHED or FOREIGN.
        stream: which stream it is in, where several are read for one job; else "".
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


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a source that were never read: one loss (D-1's source_gap); `nbytes` None: unknown."""

    path: str
    why: str
    nbytes: int | None = None

    def __str__(self) -> str:
        what = "lines may be lost" if self.nbytes is None else f"{self.nbytes} bytes are lost"
        return f"{self.path}: {what}: {self.why}"


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is known of one source after a poll; no `generations` where those of open files are unknown."""

    id: SourceId
    at_end: bool
    generations: tuple[bytes, ...] = ()


def digest(data: bytes) -> bytes:
    """Eight bytes that name some content."""
    return hashlib.blake2b(data, digest_size=8).digest()


def mark_of(before: bytes) -> bytes:
    """The mark of an offset with these bytes before it; b"" at the beginning of a file."""
    return digest(before[-MARK_BYTES:]) if before else b""


def replay_ends(boundaries: Iterable[FilePosition]) -> dict[FileKey, int]:
    ends: dict[FileKey, int] = {}
    for place in boundaries:
        ends[place.key] = max(place.offset, ends.get(place.key, 0))
    return ends
