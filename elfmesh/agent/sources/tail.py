"""Follow the files behind a path or glob while they grow, rotate, shrink and vanish (D-2).

Owns file identity and offsets. Refuses to know formats, jobs and time zones. `poll` is synchronous and
cheap: the pump calls it in a thread. Rules:

- A file is (device, inode, generation); generation is a hash of its first KiB, as long as it was when first
  read.
- Only newline-terminated lines are records; a block always ends at a line's end, so every offset is a
  line's beginning.
- Rename rotation is exact: the old file is finished through its open descriptor, before the new one, and
  closed after it has been silent for `grace_s` (a writer may go on for a while before it reopens).
- Truncation (copytruncate) is at most once across the cut: reading starts anew at 0 and `gaps` counts it.
- A stored offset is used only if the generation matches and the file is that long; otherwise the file is
  read from 0 and `gaps` counts it. A stored file that was renamed meanwhile is looked for in its directory.
- Compressed files are never followed: they are copies of what was read before they were compressed.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from elfmesh.agent.sources.blocks import (
    BLOCK_BYTES,
    Block,
    FileKey,
    FilePosition,
    LineCutter,
    compression,
    read_whole_lines,
)
from elfmesh.limits import LINE_BYTES_MAX

HEAD_BYTES = 1 << 10
GRACE_S = 5.0
COMPRESSED = "compressed files are not followed"
NOT_A_FILE = "not a regular file"
POLL_BYTES = 2 * BLOCK_BYTES
SourceId: TypeAlias = tuple[int, int]
"""Device and inode: one source of a watermark, through all generations."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the watermark needs to know of one file: has everything in it been read?"""

    id: SourceId
    at_end: bool


class _File:
    """One open file. `offset` is the beginning of its next record and never passes an unfinished line."""

    __slots__ = (
        "at_end",
        "attached",
        "base",
        "cutter",
        "fd",
        "generation",
        "head",
        "id",
        "path",
        "silent_since",
    )

    def __init__(self, path: str, fd: int, identity: SourceId, limit: int) -> None:
        self.path = path
        self.fd = fd
        self.id = identity
        self.head = b""
        self.generation = digest(b"")
        self.cutter = LineCutter(limit)
        self.base = 0
        self.at_end = False
        self.attached = True
        self.silent_since: float | None = None

    @property
    def offset(self) -> int:
        return self.base + self.cutter.taken

    @property
    def position(self) -> FilePosition:
        return FilePosition(self.path, *self.id, self.generation, len(self.head), self.offset)

    def start_at(self, offset: int, limit: int) -> None:
        self.base = offset
        self.cutter = LineCutter(limit)

    def learn_head(self, length: int = HEAD_BYTES) -> None:
        self.head = os.pread(self.fd, length, 0)
        self.generation = digest(self.head)


def digest(head: bytes) -> bytes:
    """The generation of a file that begins with `head`."""
    return hashlib.blake2b(head, digest_size=8).digest()


class Tail:
    """A follower of one path or glob.

    Args:
        pattern: a path, or a glob as in the shell (`**` for any directories).
        positions: where to resume; files not named there are read by `read_from`.
        read_from: where to begin files that are there at the first poll; later ones are always read from 0.
        boundaries: offsets that no block may reach across (the worker's `replay_until`).
        heads: length of the first bytes that name a file's generation, for files that another follower has
            open: the two must agree on what they call it.
        block_bytes: size of a block, more or less.
        line_bytes_max: longer lines are left out and counted.
        grace_s: how long a rotated or deleted file is kept open after its last growth.
        clock: monotonic seconds.

    Attributes:
        gaps: how often bytes may have gone unread (truncation, a stored file gone): D-1's source_gap.
        torn: closed files whose last line had no newline; that line was no record.
        problems: path -> why it cannot be read, for `describe`.
        heads: see the argument; may be replaced between polls.
    """

    def __init__(
        self,
        pattern: str,
        *,
        positions: Iterable[FilePosition] = (),
        read_from: Literal["beginning", "end"] = "beginning",
        boundaries: Iterable[FilePosition] = (),
        heads: Mapping[SourceId, int] | None = None,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pattern = pattern
        self.gaps = 0
        self.torn = 0
        self.problems: dict[str, str] = {}
        self._resume = {(p.device, p.inode): p for p in positions}
        self.heads = dict(heads or {})
        self._from_end = read_from == "end"
        self._boundaries: dict[FileKey, set[int]] = {}
        for stop in boundaries:
            self._boundaries.setdefault(stop.key, set()).add(stop.offset)
        self._block_bytes = block_bytes
        self._limit = line_bytes_max
        self._grace_s = grace_s
        self._clock = clock
        self._files: dict[SourceId, _File] = {}
        self._ignored: dict[SourceId, int] = {}
        self._first = True

    @property
    def at_end(self) -> bool:
        """Whether everything that was there at the last poll has been read."""
        return all(file.at_end for file in self._files.values())

    def sources(self) -> list[SourceState]:
        """The open files and whether each is read to its end."""
        return [SourceState(file.id, file.at_end) for file in self._files.values()]

    def positions(self) -> tuple[FilePosition, ...]:
        """Where reading would go on, for every open file; one that was empty so far has `head` 0."""
        return tuple(file.position for file in self._files.values())

    def detached(self) -> frozenset[FileKey]:
        """Open files that the pattern no longer leads to and that are read to their end."""
        return frozenset(f.position.key for f in self._files.values() if not f.attached and f.at_end)

    def stop_also_at(self, other: Tail) -> None:
        """Take over the boundaries of another follower that stands at the same place."""
        for key, stops in other._boundaries.items():
            self._boundaries.setdefault(key, set()).update(stops)

    def close(self) -> None:
        """Close all descriptors."""
        for file in self._files.values():
            os.close(file.fd)
        self._files.clear()

    def poll(self, bytes_max: int = POLL_BYTES, limits: Mapping[FileKey, int] | None = None) -> list[Block]:
        """Read what has been added, until `bytes_max` or the end of all files.

        Rotated files come first, one after the other; then the others take turns, a block each.

        Args:
            bytes_max: about how much to return at most.
            limits: offsets per file that must not be passed; files not named are free.
        """
        self.discover()
        blocks: list[Block] = []
        attached: list[_File] = []
        for file in self._files.values():
            if file.attached:
                attached.append(file)
            while not file.attached and bytes_max > 0:
                taken = self._read(file, blocks, limits or {})
                bytes_max -= taken
                if not taken:
                    break
        while attached and bytes_max > 0:
            still: list[_File] = []
            for file in attached:
                taken = self._read(file, blocks, limits or {})
                bytes_max -= taken
                if taken:
                    still.append(file)
            attached = still
        self._retire()
        return blocks

    def discover(self) -> None:
        """Look which files the pattern leads to now; open the new ones."""
        seen: set[SourceId] = set()
        fresh: list[tuple[float, str, SourceId]] = []
        self.problems.clear()
        found = glob.glob(self.pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        paths = sorted(found) or [self.pattern]
        for path in paths:
            try:
                status = Path(path).stat()
            except OSError as error:
                self.problems[path] = error.strerror or str(error)
                continue
            identity = (status.st_dev, status.st_ino)
            if stat.S_ISDIR(status.st_mode) or identity in seen:
                continue
            if not stat.S_ISREG(status.st_mode):
                self.problems[path] = NOT_A_FILE
                continue
            seen.add(identity)
            if identity in self._files:
                self._files[identity].path = path
            elif self._ignored.get(identity, -1) == status.st_size:
                self.problems[path] = COMPRESSED
            else:
                fresh.append((status.st_mtime, path, identity))
        for identity, file in self._files.items():
            file.attached = identity in seen
        if self._first:
            self._find_renamed(seen)
        for _, path, identity in sorted(fresh):
            self._open(path, identity)
        self._first = False

    def _open(self, path: str, identity: SourceId, *, attached: bool = True) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self.problems[path] = error.strerror or str(error)
            return
        try:
            if not self._begin(path, fd, attached):
                os.close(fd)
        except OSError as error:
            self.problems[path] = error.strerror or str(error)
            os.close(fd)

    def _begin(self, path: str, fd: int, attached: bool) -> bool:
        """Take an open file in at its place; False if it is none of ours."""
        status = os.fstat(fd)
        identity = (status.st_dev, status.st_ino)
        if identity in self._files:
            return False
        if compression(os.pread(fd, 4, 0)):
            self._ignored[identity] = status.st_size
            self.problems[path] = COMPRESSED
            return False
        file = _File(path, fd, identity, self._limit)
        file.attached = attached
        stored = self._resume.get(identity)
        if stored is not None:
            file.learn_head(stored.head)
            if file.generation == stored.generation and status.st_size >= stored.offset:
                file.start_at(stored.offset, self._limit)
            elif not attached:
                return False  # another file under the inode of one that is gone
            else:
                self.gaps += 1
                file.learn_head(0)
            del self._resume[identity]
        elif self._first and self._from_end:
            file.start_at(_last_line_start(fd, status.st_size), self._limit)
        if not file.head:
            file.learn_head(self.heads.get(identity, HEAD_BYTES))
        self._files[identity] = file
        return True

    def _find_renamed(self, seen: set[SourceId]) -> None:
        """Stored files that the pattern does not lead to: rotated while nobody watched."""
        for identity, stored in list(self._resume.items()):
            if identity in seen:
                continue
            for path in _same_file(Path(stored.path).parent, identity):
                self._open(str(path), identity, attached=False)
        for identity in [identity for identity in self._resume if identity not in seen]:
            del self._resume[identity]
            self.gaps += 1

    def _read(self, file: _File, blocks: list[Block], limits: Mapping[FileKey, int]) -> int:
        """One block of one file; returns the bytes read, 0 when there is nothing (more) to read.

        A file that fails stays open and unfinished: its lines are not passed over, and people learn why.
        """
        try:
            return self._read_block(file, blocks, limits)
        except OSError as error:
            self.problems[file.path] = error.strerror or str(error)
            file.at_end = False
            return 0

    def _read_block(self, file: _File, blocks: list[Block], limits: Mapping[FileKey, int]) -> int:
        size = os.fstat(file.fd).st_size
        at = file.offset + file.cutter.pending
        if size < at or (size > at and file.head and os.pread(file.fd, len(file.head), 0) != file.head):
            self.gaps += 1
            file.start_at(0, self._limit)
            file.learn_head(0)
            at = 0
        file.at_end = size <= at
        if file.at_end:
            return 0
        if not file.head:
            file.learn_head(self.heads.get(file.id, HEAD_BYTES))
        before = file.position
        room = min(self._block_bytes, size - at)
        room = min(room, limits.get(before.key, size) - at)
        for stop in self._boundaries.get(before.key, ()):
            if at < stop:
                room = min(room, stop - at)
        if room <= 0:
            return 0
        chunk = read_whole_lines(file.fd, at, room)
        data = file.cutter.push(chunk)
        overlong, beginning = file.cutter.take_overlong()
        if data or overlong:
            blocks.append(
                Block(
                    data,
                    file.path,
                    before,
                    file.offset,
                    overlong,
                    beginning,
                    file.head if before.offset else None,
                )
            )
        file.at_end = at + len(chunk) >= os.fstat(file.fd).st_size
        return len(chunk)

    def _retire(self) -> None:
        """Close files that nothing leads to any more and that have been silent long enough."""
        now = self._clock()
        for identity, file in list(self._files.items()):
            if file.attached or not file.at_end:
                file.silent_since = None
            elif file.silent_since is None:
                file.silent_since = now
            elif now - file.silent_since >= self._grace_s:
                self.torn += file.cutter.pending > 0
                os.close(file.fd)
                del self._files[identity]


def _same_file(directory: Path, identity: SourceId) -> list[Path]:
    """What a file is called now, if it is still in its directory."""
    try:
        with os.scandir(directory) as entries:
            found = [entry.path for entry in entries if entry.inode() == identity[1]]
        return [Path(path) for path in found if Path(path).stat().st_dev == identity[0]][:1]
    except OSError:
        return []


def _last_line_start(fd: int, size: int) -> int:
    """The offset behind the last newline, looked for within the longest line there may be."""
    start = max(0, size - LINE_BYTES_MAX)
    newline = os.pread(fd, size - start, start).rfind(b"\n")
    return start + newline + 1 if newline >= 0 else start
