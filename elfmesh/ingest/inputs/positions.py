"""Positions of producers whose inserts a spool contains: `positions.log`, a journal that is written first.

Each line announces an append to the spool with its range. The append has happened when the spool has reached
the end of the range. After a crash only the last line is in doubt, and the size of the spool decides: a
partial append is cut off. A line whose append never happened is detected because the next line has the same
start.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from elfmesh.errors import RemoteError, StorageError
from elfmesh.ingest.inputs.files import sync_directory
from elfmesh.storage.results.segment import write_all

FILE_NAME = "positions.log"
COMPACT_BYTES = 1 << 20
"""Size at which the journal is rewritten, with one line per producer."""

PRODUCERS_MAX = 1024
"""Maximum number of named producers of one stream. Further ones are refused, because a forgotten producer's
repeats would be stored twice."""

UNNAMED_MAX = 256
"""Maximum number of producers that last as long as a process; the one that was silent longest is
forgotten."""

UNNAMED = "~"
"""First character of the name of a producer that lasts as long as its process."""

SenderMark: TypeAlias = tuple[str, int]
"""A producer and its position."""

_Intent: TypeAlias = tuple[tuple[SenderMark, ...], int, int, int]
"""Positions, inode, start and stop of one append."""


class TooManyProducers(RemoteError):
    """There are too many named producers."""


class Positions:
    """Newest position of each producer of one spool.

    Args:
        inode, size: of the spool's current file, after an incomplete line was cut off.
        rotated: inode -> size of its older segments.
        cut: truncates the spool's file durably, to remove a partial append.
    """

    def __init__(
        self, directory: Path, *, inode: int, size: int, rotated: dict[int, int], cut: Callable[[int], None]
    ) -> None:
        self._path = directory / FILE_NAME
        self._last: OrderedDict[str, int] = OrderedDict()
        self._named = 0
        part = self._restore(inode, size, rotated)
        if part is not None:  # before the journal no longer records the append
            cut(part)
        self._fd = -1
        self._compact()

    def last(self, producer: str) -> int | None:
        """Return the newest position of a producer, None if there is none. Thread-safe."""
        return self._last.get(producer)

    def check_room(self, producer: str) -> None:
        """Raise TooManyProducers if a producer is new and there is no room for it. Thread-safe."""
        new = producer not in self._last and not producer.startswith(UNNAMED)
        if new and self._named >= PRODUCERS_MAX:
            raise TooManyProducers(f"{self._named} producers already have positions here")

    def intend(self, marks: Sequence[SenderMark], inode: int, start: int, stop: int) -> None:
        """Announce an append durably; after an OSError nothing may be appended."""
        size = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, _line((marks, inode, start, stop)))
            os.fdatasync(self._fd)
        except OSError:
            os.ftruncate(self._fd, size)
            raise

    def applied(self, marks: Sequence[SenderMark]) -> None:
        self._take(marks)
        if os.fstat(self._fd).st_size > COMPACT_BYTES:
            with contextlib.suppress(OSError):  # no room: keep the long journal, which is equivalent
                self._compact()

    def close(self) -> None:
        os.close(self._fd)

    def _take(self, marks: Sequence[SenderMark]) -> None:
        for producer, position in marks:
            self._named += producer not in self._last and not producer.startswith(UNNAMED)
            self._last[producer] = max(position, self._last.get(producer, position))
            self._last.move_to_end(producer)
        unnamed = [each for each in self._last if each.startswith(UNNAMED)]
        for producer in unnamed[: max(0, len(unnamed) - UNNAMED_MAX)]:
            del self._last[producer]

    def _restore(self, inode: int, size: int, rotated: dict[int, int]) -> int | None:
        part: int | None = None
        intents = self._read()
        sizes = {**rotated, inode: size}
        for (marks, file, start, stop), after in zip(intents, [*intents, None][1:], strict=True):
            if after is not None:
                done = after[1] != file or after[2] >= stop
            else:
                # A missing segment was read by all jobs, so it was complete.
                done = file not in sizes or sizes[file] >= stop
                if not done and file == inode and size > start:
                    part = start
            if done:
                self._take(marks)
        return part

    def _read(self) -> list[_Intent]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        if bad := damaged_lines(data):
            raise StorageError(
                f"is damaged at byte {bad[0]}",
                where=str(self._path),
                hint="`elf repair` leaves such lines out: what they named may then be taken twice.",
            )
        whole = data[: data.rfind(b"\n") + 1]  # the rest is an incomplete last line
        return [
            msgspec.json.decode(text.partition(b" ")[2], type=_Intent) for text in whole.splitlines() if text
        ]

    def _compact(self) -> None:
        fresh = self._path.with_suffix(".new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, _line((tuple(self._last.items()), 0, 0, 0)))
            os.fsync(fd)
            fresh.rename(self._path)
        except OSError:
            os.close(fd)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        sync_directory(self._path.parent)


def check_journal(directory: Path, *, has_lines: bool) -> None:
    """Check that a spool with lines has a journal with lines. Raises otherwise."""
    path = directory / FILE_NAME
    if has_lines and (not path.exists() or b"\n" not in path.read_bytes()):
        hint = "Without it, what producers insert again counts twice. `elf repair` begins it again."
        raise StorageError("holds no line any more", where=str(path), hint=hint)


def damaged_lines(data: bytes) -> list[int]:
    """Return the offsets of lines with a wrong checksum, without an incomplete last line."""
    found, at = [], 0
    for line in data.splitlines(keepends=True):
        checksum, _, body = line.rstrip(b"\n").partition(b" ")
        if line.endswith(b"\n") and checksum != b"%08x" % zlib.crc32(body):
            found.append(at)
        at += len(line)
    return found


def _line(value: tuple[Sequence[SenderMark], int, int, int]) -> bytes:
    body = msgspec.json.encode(value)
    return b"%08x %s\n" % (zlib.crc32(body), body)


EMPTY = _line(((), 0, 0, 0))
"""Journal without producers."""
