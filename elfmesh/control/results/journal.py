"""The journal before the results logs: one sync makes the records of many jobs durable at once.

    entry = u32 length of the body | u32 crc32 of the body | body (msgpack: job, incarnation, framed record)

A record that is in here need not be synced in its job's log; what a power cut takes from there is put back
from here. Owns one file. Knows no log, and nothing of what a record means.

Invariants: `append` returns when its entries are durable; a torn tail was never answered for, and is cut off;
`clear` is called when the logs are durable themselves.

Paper: none. See guarantees D-17.
"""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from elfmesh.control.results.pages import frames
from elfmesh.control.results.records import ResultRecord
from elfmesh.control.results.segment import sync_file, write_all
from elfmesh.errors import ProtocolError

FILE_NAME = "journal"
_HEAD_BYTES = 8


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One record on its way into a log.

    Attributes:
        job: id of the job.
        incarnation: of its results.
        frame: the record and its rows, as in the log.
    """

    job: bytes
    incarnation: str
    frame: bytes

    def result(self) -> tuple[ResultRecord, bytes]:
        """The record and its rows.

        Raises:
            ProtocolError: the frame is damaged.
        """
        ((record, rows, _),) = frames(self.frame)
        return record, rows


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Entry)


class Journal:
    """One file of entries.

    Args:
        path: of the file, created if need be.

    Raises:
        OSError: the disk refuses; so do all methods, and nothing is changed then.
        StorageError: a sync has failed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._fd)
        self.size = os.fstat(self._fd).st_size

    def entries(self) -> Iterator[Entry]:
        """All whole entries, oldest first; what follows the last one is cut off when they are exhausted."""
        data = b""
        while len(data) < self.size and (more := os.pread(self._fd, self.size - len(data), len(data))):
            data += more
        at = 0
        while (entry := _read(data, at)) is not None:
            yield entry[0]
            at = entry[1]
        if at < self.size:
            os.ftruncate(self._fd, at)
            self.size = at

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries; durable when this returns. Cost: one write and one sync, however many they are."""
        data = b"".join(map(_packed, entries))
        try:
            write_all(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)
        sync_file(self._fd, self._path)

    def clear(self) -> None:
        """Forget all entries."""
        if self.size:
            os.ftruncate(self._fd, 0)
            sync_file(self._fd, self._path)
            self.size = 0


def _packed(entry: Entry) -> bytes:
    body = _PACK.encode(entry)
    return b"".join((len(body).to_bytes(4), zlib.crc32(body).to_bytes(4), body))


def _read(data: bytes, at: int) -> tuple[Entry, int] | None:
    """The entry at `at` and the place behind it; None if there is no whole one."""
    start = at + _HEAD_BYTES
    length, checksum = int.from_bytes(data[at : at + 4]), int.from_bytes(data[at + 4 : start])
    body = memoryview(data)[start : start + length]
    if len(data) < start + length or not length or zlib.crc32(body) != checksum:
        return None
    try:
        entry = _UNPACK.decode(body)
        entry.result()
    except (msgspec.MsgspecError, ProtocolError, ValueError):
        return None
    return entry, start + length
