"""The file format of savepoints: the text of a job, its next interval, and its results so far.

  FILE = "ELFSAVE" | u8 format | parts;  part = u32 length | u32 CRC-32 of the body | body (zstd)
  first part: `SavepointHeader` (msgpack); then blocks of results, a JSON line each; last an empty block

The module owns the format and knows no agents. A file is written under another name and renamed when it is
durable. A file that is truncated, changed, or in a newer format is refused.

Paper: none. See ADR 0027.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from elfmesh.api.line_parts import ends
from elfmesh.errors import DataError, StorageError
from elfmesh.storage.results.segment import private_file

MARK, FORMAT = b"ELFSAVE", 1
BLOCK_BYTES = 1 << 20
PART_BYTES_MAX = 64 << 20
"""Maximum size of a part, compressed or not: a block, or a line that is longer than a block."""

_PART = struct.Struct(">II")
_LEVEL = 3


class SavepointHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a savepoint.

    Attributes:
        elf: release that wrote it.
        job: qualified name of the job.
        creator: creator of the job.
        text: ELF-QL text of the job.
        signed: envelope of its signatures, "" if it has none.
        version: version of the text, for display.
        incarnation: incarnation of the results in the file.
        size, slide: size and slide of the windows, for display.
        first: interval with which the job continues; all results in the file are of earlier intervals.
        agents: names of the agents that took part, sorted.
        made_us: time of creation in microseconds, for display.
    """

    elf: str
    job: str
    creator: str
    text: str
    signed: str = ""
    version: int
    incarnation: str
    size: str
    slide: str
    first: int
    agents: tuple[str, ...]
    made_us: int


def write(path: Path, head: SavepointHeader, lines: Iterable[bytes]) -> int:
    """Write a savepoint durably with mode 0600, and return its number of results.

    Args:
        path: file, which is replaced if it exists.
        head: description of the job.
        lines: results in ascending order, each as a JSON object, or as one object for each part of a result.

    Raises:
        StorageError: the file cannot be written; an existing file is unchanged.
    """
    count, block = 0, bytearray()
    try:
        with private_file(path) as file:
            file.write(MARK + bytes([FORMAT]))
            file.write(_packed(msgspec.msgpack.encode(head)))
            for line in lines:
                block += line + b"\n"
                count += ends(msgspec.json.decode(line))
                if len(block) >= BLOCK_BYTES:
                    file.write(_packed(bytes(block)))
                    block.clear()
            file.write((_packed(bytes(block)) if block else b"") + _packed(b""))
    except OSError as error:
        raise StorageError(f"cannot write it: {error.strerror}", where=str(path)) from None
    return count


def read_head(path: Path) -> SavepointHeader:
    """Check the whole file and return its description.

    Raises:
        DataError: the file is not a complete savepoint in a known format.
        StorageError: the file cannot be read.
    """
    parts = _parts(path)
    try:
        head = msgspec.msgpack.decode(next(parts, b""), type=SavepointHeader)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from None
    for _ in parts:
        pass
    return head


def read_results(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the results of a savepoint: number of the interval and JSON line.

    Raises:
        DataError, StorageError: as `read_head`, at the damaged part.
    """
    parts = _parts(path)
    next(parts, b"")
    for block in parts:
        for line in block.splitlines():
            try:
                reported: dict[str, Any] = msgspec.json.decode(line)
                yield int(reported["interval"]["index"]), line
            except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
                raise _damaged(path, "it contains a line that is not a result") from None


def _parts(path: Path) -> Iterator[bytes]:
    """Yield the decompressed and checked parts, without the empty one at the end."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(MARK) + 1)
            if len(begin) <= len(MARK) or not begin.startswith(MARK):
                raise DataError("is not a savepoint", where=str(path))
            if begin[-1] != FORMAT:
                raise DataError(
                    f"is a savepoint of format {begin[-1]}; this release reads {FORMAT}",
                    where=str(path),
                    hint="Restore it with the release that wrote it, or a newer one.",
                )
            while part := _part(file, path):
                yield part
            if file.read(1):
                raise _damaged(path, "there is data after its end")
    except OSError as error:
        raise StorageError(f"cannot read it: {error.strerror}", where=str(path)) from None


def _part(file: BinaryIO, path: Path) -> bytes:
    begin = file.read(_PART.size)
    if len(begin) < _PART.size:
        raise _damaged(path, "it is truncated")
    length, checksum = _PART.unpack(begin)
    if length > PART_BYTES_MAX:
        raise _damaged(path, f"a part of it has {length} bytes")
    body = file.read(length)
    if len(body) < length:
        raise _damaged(path, "it is truncated")
    if zlib.crc32(body) != checksum:
        raise _damaged(path, "a checksum is wrong")
    try:
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= PART_BYTES_MAX:
            raise _damaged(path, "one of its parts has no valid size")
        return b"" if not size else zstandard.ZstdDecompressor().decompress(body)
    except zstandard.ZstdError as error:
        raise _damaged(path, str(error)) from None


def _packed(data: bytes) -> bytes:
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
    return _PART.pack(len(body), zlib.crc32(body)) + body


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"is not a complete savepoint: {why}", where=str(path), hint="Nothing was changed.")
