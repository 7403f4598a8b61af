"""The file of a savepoint: a job's text, where it goes on, and the results it had until then.

    FILE = "ELFSAVE" | u8 format | parts;  part = u32 length | u32 CRC-32 of the body | body (zstd)
    first part: `Head` (msgpack); then blocks of results, a JSON line each; last an empty block

Owns the format. Knows no agent. A file is written beside and put in its place when it is durable; it is read
part by part, and one that was cut off, changed, or is of a newer format is refused.

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
"""Of one part, packed or not: a block, or a line that is longer."""

_PART = struct.Struct(">II")
_LEVEL = 3


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a savepoint is of.

    Attributes:
        elf: release that wrote it.
        job: qualified name.
        creator: whose job it is.
        text: its ELF-QL.
        signed: the envelope of its signatures, "" if it has none.
        version: of the text, for people.
        incarnation: of the results in the file.
        size, slide: of its windows, for people.
        first: the interval it goes on from; all results in the file are of earlier ones.
        agents: names of those that took part, sorted.
        made_us: wall clock, for people.
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


def write(path: Path, head: Head, lines: Iterable[bytes]) -> int:
    """Write a savepoint, mode 0600, durably; returns how many results it has.

    Args:
        path: replaced if it is there.
        head: of the job.
        lines: its results, ascending; a JSON object each, or one for each part of a result.

    Raises:
        StorageError: the disk refuses; an earlier file is as it was.
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


def read_head(path: Path) -> Head:
    """What a savepoint is of, once all of the file was found to be right.

    Raises:
        DataError: it is not a complete savepoint of a format that is known.
        StorageError: it cannot be read.
    """
    parts = _parts(path)
    try:
        head = msgspec.msgpack.decode(next(parts, b""), type=Head)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from None
    for _ in parts:
        pass
    return head


def read_results(path: Path) -> Iterator[tuple[int, bytes]]:
    """The results of a savepoint: number of the interval and JSON line.

    Raises:
        DataError, StorageError: as `read_head`, at the part that is wrong.
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
    """The unpacked parts, each checked, without the empty one at the end."""
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
