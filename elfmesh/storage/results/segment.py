"""The files of a results log: segments of consecutive framed records, and the description of the log.

  meta, meta.copy = msgpack map of `Meta`, whose last entry is the CRC-32 of all bytes before its value

Files of earlier releases have neither this entry nor a copy, and remain readable. See guarantees D-17.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import table_of
from elfmesh.errors import ProtocolError, StorageError
from elfmesh.storage.starving import content, opened
from elfmesh.sums import packed_checked, packed_with_sum
from elfmesh.wire import UNREADABLE


class Meta(msgspec.Struct, frozen=True):
    """Description of a log.

    Attributes:
        incarnation: incarnation of the results.
        schema: unified schema of all rows; Arrow IPC.
        expired: last index that was deleted because of its age.
        partials: unified schema of all partial aggregates that are kept; Arrow IPC.
        first: index of the first record that the job ever had, whether it is still in the log or not.
        job: "namespace/name", "" without a record.
        begins: first index that was ever in the log, None without a record.
        seq: increases with each write; of two copies that differ, the one with the higher number is newer.
    """

    incarnation: str
    schema: bytes = b""
    expired: int | None = None
    partials: bytes = b""
    first: int | None = None
    job: str = ""
    begins: int | None = None
    seq: int = 0


@dataclass(slots=True)
class ResultSegment:
    """A segment file: the indices of its records, and where each starts and ends.

    `end` is the size of the file. `dirty` states that it contains bytes that are not a record. `lost`
    contains the intervals that its records declare lost. `pages` contains the sizes of the row pages of its
    records, by digest.
    """

    path: Path
    indices: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    end: int = 0
    dirty: bool = False
    lost: list[tuple[int, int]] = field(default_factory=list)
    pages: dict[bytes, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.end

    @property
    def kept(self) -> int:
        return self.size + sum(self.pages.values())

    def add(self, record: ResultRecord, start: int, end: int, rows: bytes) -> None:
        self.indices.append(record.index)
        self.starts.append(start)
        self.ends.append(end)
        self.end = max(self.end, end)
        if record.lost:
            self.lost.append((record.first, record.index))
        if (table := table_of(rows)) is not None:
            self.pages |= {page.digest: page.nbytes for page in table.all}

    def span(self, position: int) -> tuple[int, int]:
        start = self.starts[position]
        return start, self.ends[position] - start


META, META_COPY = "meta", "meta.copy"


def unpack_meta(data: bytes) -> Meta:
    """Decode a description; earlier releases wrote no checksum. ProtocolError: it is damaged."""
    try:
        return msgspec.msgpack.decode(packed_checked(data), type=Meta)
    except UNREADABLE as error:
        raise ProtocolError(str(error)) from None


def read_meta(directory: Path, damaged: Callable[[Path, str], None]) -> list[tuple[Path, Meta]]:
    """Return the readable copies of a log's description, the newest first; two if there is no damage."""
    found: list[tuple[Path, Meta]] = []
    for name in (META, META_COPY):
        path = directory / name
        if path.exists():
            try:
                found.append((path, unpack_meta(content(path))))
            except ProtocolError as error:
                damaged(path, f"the description of the log cannot be read: {error}")
    return sorted(found, key=lambda each: -each[1].seq)


def write_meta(directory: Path, meta: Meta) -> None:
    """Replace both copies of the description durably. After an OSError the old description is valid."""
    data = packed_with_sum(msgspec.structs.asdict(meta))
    for name in (META, META_COPY):
        replace_file(directory / name, data)
    sync_directory(directory)


def private(path: Path, flags: int) -> int:
    """Open a file that only its owner can read, and create it if it is missing. Does not follow links.

    Raises:
        OSError: the file cannot be opened, or the name is a link.
    """
    return opened(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file by a synced one. The name is durable when its directory is synced.

    After an OSError the old file is unchanged.
    """
    beside = path.with_name(path.name + ".new")
    with os.fdopen(private(beside, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno(), path)
    beside.replace(path)


@contextlib.contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that only its owner can read, which gets its name when it is complete and durable.

    If the block fails, the new content is deleted, and the name keeps its old content. A StorageError means
    that the file has its name, but this may not be durable.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = opened(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
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
    """Truncate a file to `size` bytes; delete it if `size` is 0."""
    if not size:
        path.unlink(missing_ok=True)
        return
    handle = opened(path, os.O_RDWR)
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write all bytes. After an OSError a part of them may be written."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync_file(handle: int, path: Path) -> None:
    """Make the content of an open file durable. After a StorageError its content is unknown."""
    try:
        os.fsync(handle)
    except OSError as error:
        raise StorageError(f"cannot sync: {error.strerror}", where=str(path)) from None


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises StorageError as `sync_file`."""
    handle = opened(directory, os.O_RDONLY)
    try:
        sync_file(handle, directory)
    finally:
        os.close(handle)
