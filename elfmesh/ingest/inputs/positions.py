"""Which insert of which producer a spool holds: `positions.log`, a journal beside it, written before it.

Each line says what is about to be appended to the spool and where; it is true once the spool has grown to the
end it names. After a crash only the last line is in doubt, and the spool's size decides: a partial append is
cut off again. A line whose append never happened is recognised by the next one, which begins where it had
begun.
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
"""The journal is rewritten when it is so long: it then has one line per producer."""

PRODUCERS_MAX = 1024
"""Named producers of one stream; one more is refused, as forgetting one would let its repetition in."""

UNNAMED_MAX = 256
"""Producers that live as long as a process; the one that was silent longest is forgotten."""

UNNAMED = "~"
"""What the name of a producer begins with that lives as long as its process."""

SenderMark: TypeAlias = tuple[str, int]
"""A producer and its position."""

_Intent: TypeAlias = tuple[tuple[SenderMark, ...], int, int, int]
"""Marks, inode, start and stop of one append."""


class TooManyProducers(RemoteError):
    """There is no room for another named producer."""


class Positions:
    """The newest position of each producer of one spool.

    Args:
        inode, size: of the file that the spool is writing, whose torn line has been cut.
        rotated: inode -> size of its older segments.
        cut: cuts the spool's file to a size, durably: the last insert had reached it in part.
    """

    def __init__(
        self, directory: Path, *, inode: int, size: int, rotated: dict[int, int], cut: Callable[[int], None]
    ) -> None:
        self._path = directory / FILE_NAME
        self._last: OrderedDict[str, int] = OrderedDict()
        self._named = 0
        part = self._restore(inode, size, rotated)
        if part is not None:  # before the journal forgets that it was intended
            cut(part)
        self._fd = -1
        self._compact()

    def last(self, producer: str) -> int | None:
        """The newest position of a producer, None if it has none here. Any thread."""
        return self._last.get(producer)

    def check_room(self, producer: str) -> None:
        """Raise TooManyProducers if a producer is new and no place is left for it. Any thread."""
        new = producer not in self._last and not producer.startswith(UNNAMED)
        if new and self._named >= PRODUCERS_MAX:
            raise TooManyProducers(f"{self._named} producers already have positions here")

    def intend(self, marks: Sequence[SenderMark], inode: int, start: int, stop: int) -> None:
        """Say durably what is about to be appended; after an OSError nothing may be appended."""
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
            with contextlib.suppress(OSError):  # no room: the long one says the same
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
                # A segment that is gone was read, so it was whole.
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
        whole = data[: data.rfind(b"\n") + 1]  # what is behind was torn in the write: nothing follows it
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
    """Every insert has its line here: a spool with lines has a journal with lines."""
    path = directory / FILE_NAME
    if has_lines and (not path.exists() or b"\n" not in path.read_bytes()):
        hint = "Without it, what producers insert again counts twice. `elf repair` begins it again."
        raise StorageError("holds no line any more", where=str(path), hint=hint)


def damaged_lines(data: bytes) -> list[int]:
    """The offsets of lines of a journal whose checksum is wrong; a torn last line is none of them."""
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
"""A journal of no producer."""
