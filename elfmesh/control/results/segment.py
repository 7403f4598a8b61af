"""The files of a results log: segments of framed records one behind the other, and the description of them.

Owns how a segment is read when its log is opened, and how files are made durable. Knows no order of segments.

Invariant: only the end of the last segment may be torn, and is cut off; damage elsewhere is an error.

Paper: none. See guarantees D-17.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from elfmesh.control.results.pages import frames
from elfmesh.errors import ProtocolError, StorageError
from elfmesh.wire import UNREADABLE


class Meta(msgspec.Struct, frozen=True):
    """What a log says of itself.

    Attributes:
        incarnation: of its results.
        schema: unified, of all rows; Arrow IPC.
        expired: last index that was dropped for its age.
        partials: unified, of all partial aggregates that are kept; Arrow IPC.
    """

    incarnation: str
    schema: bytes = b""
    expired: int | None = None
    partials: bytes = b""


@dataclass(slots=True)
class Segment:
    """One file: the indices of its records and where each ends."""

    path: Path
    indices: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return self.ends[-1] if self.ends else 0

    def span(self, position: int) -> tuple[int, int]:
        """Offset and length of a record."""
        start = self.ends[position - 1] if position else 0
        return start, self.ends[position] - start


def scan(path: Path, *, cut: bool) -> Segment:
    """The records of a segment; a torn tail is cut off if this is the last segment.

    Raises:
        StorageError: it is damaged, and not to be cut.
    """
    segment, data = Segment(path), path.read_bytes()
    try:
        for record, _, end in frames(data):
            if segment.indices and record.index <= segment.indices[-1]:
                raise ProtocolError(f"interval {record.index} stands behind {segment.indices[-1]}")
            segment.indices.append(record.index)
            segment.ends.append(end)
    except ProtocolError as error:
        if not cut:
            raise StorageError(f"the results log is damaged: {error}", where=str(path)) from None
        with path.open("r+b") as file:
            file.truncate(segment.size)
            os.fsync(file.fileno())
    return segment


def read_meta(directory: Path) -> Meta:
    """The description of the log in a directory.

    Raises:
        StorageError: it is damaged.
    """
    path = directory / "meta"
    if not path.exists():
        return Meta("")
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Meta)
    except UNREADABLE as error:
        raise StorageError(f"the results log's description is damaged: {error}", where=str(path)) from None


def write_meta(directory: Path, meta: Meta) -> None:
    """Replace the description, durably.

    Raises:
        OSError: the disk refuses; the old one is in force.
        StorageError: a sync has failed.
    """
    path = directory / "meta"
    temporary = path.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(msgspec.msgpack.encode(meta))
        file.flush()
        sync_file(file.fileno(), path)
    temporary.replace(path)
    sync_directory(directory)


@contextlib.contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that its owner alone may read; whole and durable, it gets its name when the block ends.

    Whatever ends the block early leaves nothing of it, and what had the name before still has it.

    Raises:
        OSError: the disk refuses.
        StorageError: it has the name, and that may not be durable.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            sync_file(file.fileno(), beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.absolute().parent)


def cut(path: Path, size: int) -> None:
    """Leave the first bytes of a file; of none, remove it."""
    if not size:
        path.unlink(missing_ok=True)
        return
    handle = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write all of it; raises OSError where a part of it may be there."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync_file(handle: int, path: Path) -> None:
    """Make what an open file holds durable.

    Raises:
        StorageError: the disk refuses, whatever the reason: nobody knows what is on it now.
    """
    try:
        os.fsync(handle)
    except OSError as error:
        raise StorageError(f"cannot sync: {error.strerror}", where=str(path)) from None


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable.

    Raises:
        StorageError: as `sync_file`.
    """
    handle = os.open(directory, os.O_RDONLY)
    try:
        sync_file(handle, directory)
    finally:
        os.close(handle)
