"""A page of results: records with their rows, in messages and in the results log.

Owns the bytes of one framed record (length, checksum, header, rows) and of a sequence of them.

    u32 length of the rest | u32 crc32 of the rest | u32 length of the header | header (msgpack) | rows (IPC)

If the rows are stored as pages, a table of these pages replaces them (see row_pages.py), and the highest bit
of the header's length is set, so that a release without pages refuses the record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import is_paged, table_of
from elfmesh.errors import ProtocolError
from elfmesh.limits import CONTROL_FRAME_BYTES_MAX, DATA_FRAME_BYTES_MAX
from elfmesh.wire import UNREADABLE

HEAD = struct.Struct(">III")
FRAME_BYTES_MAX = CONTROL_FRAME_BYTES_MAX + DATA_FRAME_BYTES_MAX
_PAGED = 1 << 31
"""Added to the length of the header, which agents of earlier releases refuse as damaged."""

_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(ResultRecord)


def encode_frame(record: ResultRecord, rows: bytes) -> bytes:
    """Return one framed record. Cost: one copy of the rows."""
    header = _PACK.encode(record)
    length = len(header) | (_PAGED if is_paged(rows) else 0)
    body = b"".join((length.to_bytes(4), header, rows))
    return b"".join(((len(body)).to_bytes(4), zlib.crc32(body).to_bytes(4), body))


def encode_page(results: Iterable[tuple[ResultRecord, bytes]]) -> bytes:
    return b"".join(encode_frame(record, rows) for record, rows in results)


def decode_page(data: bytes) -> list[tuple[ResultRecord, bytes]]:
    """Return the records of a page and their rows.

    Raises:
        ProtocolError: a length, checksum or header is wrong.
    """
    return [(record, rows) for record, rows, _ in frames(data)]


def count_frames(page: bytes) -> int:
    """Return the number of records in a valid page. Cost: one step per record."""
    count = at = 0
    while at < len(page):
        at += 8 + int.from_bytes(page[at : at + 4])
        count += 1
    return count


def names_pages(page: bytes) -> bool:
    """Return whether a record in a valid page has its rows in pages. Cost: one step per record."""
    at = 0
    while at < len(page):
        length, _, header = HEAD.unpack_from(page, at)
        if header >= _PAGED:
            return True
        at += 8 + length
    return False


def frames(data: bytes, start: int = 0) -> Iterator[tuple[ResultRecord, bytes, int]]:
    """Yield each framed record, its rows, and the offset after it.

    Raises:
        ProtocolError: at the first frame that is cut off or damaged.
    """
    at = start
    while at < len(data):
        if len(data) - at < HEAD.size:
            raise ProtocolError(f"record at byte {at} is cut off")
        length, checksum, header = HEAD.unpack_from(data, at)
        paged, header = header >= _PAGED, header % _PAGED
        end = at + 8 + length
        if length > FRAME_BYTES_MAX or header + 4 > length or end > len(data):
            raise ProtocolError(f"record at byte {at} is cut off or has a wrong length")
        body = memoryview(data)[at + 8 : end]
        if zlib.crc32(body) != checksum:
            raise ProtocolError(f"record at byte {at} has a wrong checksum")
        try:
            record = _UNPACK.decode(body[4 : 4 + header])
        except UNREADABLE as error:
            raise ProtocolError(f"record at byte {at} has a wrong header: {error}") from None
        rows = bytes(body[4 + header :])
        if (table_of(rows) is not None) != paged:
            raise ProtocolError(f"record at byte {at} has a table of pages in a wrong place")
        yield record, rows, end
        at = end
