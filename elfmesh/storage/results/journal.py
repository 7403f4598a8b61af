"""Encoding of records that are durable elsewhere before they are durable in their results log.

Such a record need not be synced in its job's log, because it can be restored from this copy after a power
failure.

  entry = msgpack [job, incarnation, framed record]
  DIR/journal = u32 length of the entry | u32 crc32 of it | entry, ...    of an earlier release

A readable entry contains a complete record. See guarantees D-17.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import msgspec

from elfmesh.control.jobs.pages import encode_frame, frames
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Append
from elfmesh.errors import ProtocolError

FILE_NAME = "journal"
_HEAD_BYTES = 8


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """A record for a results log, framed with its rows as in the log."""

    job: bytes
    incarnation: str
    frame: bytes

    def result(self) -> tuple[ResultRecord, bytes]:
        ((record, rows, _),) = frames(self.frame)
        return record, rows


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(JournalEntry)


def pack(effect: Append) -> bytes:
    return _PACK.encode(
        JournalEntry(effect.job, effect.incarnation, encode_frame(effect.record, effect.rows))
    )


def unpack(data: bytes | memoryview) -> JournalEntry:
    try:
        return _UNPACK.decode(data)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"no record on its way: {error}") from None


def entries(data: bytes) -> Iterator[bytes]:
    """Yield the packed entries of a file of an earlier release, up to the first torn one."""
    at = 0
    while True:
        start = at + _HEAD_BYTES
        length, checksum = int.from_bytes(data[at : at + 4]), int.from_bytes(data[at + 4 : start])
        body = data[start : start + length]
        if len(body) < length or not length or zlib.crc32(body) != checksum:
            return
        yield body
        at = start + length
