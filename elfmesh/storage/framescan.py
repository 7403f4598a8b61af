"""The byte format of frames, and the search for frames in a file that may be damaged.

  frame = mark (4) | u32 length of the body | u32 CRC-32 of mark and length | u32 CRC-32 of the body | body

The header has a checksum of its own, so that the search for the next valid frame reads each byte once and
holds at most one frame.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from elfmesh.safeguards import safeguard
from elfmesh.storage.storage import AppendFile

MARK = b"\xe1\xf0\x4c\x68"
HEAD = struct.Struct(">4sIII")
FRAME_BYTES_MAX = 256 << 20
"""Size of a frame of 8 intervals in 2 partitions at the data limit of a message."""

WINDOW_BYTES = 1 << 20
SECTOR = 512
"""Unit of disk writes: a part of a file that was never written contains at least this many zeros."""


@dataclass(frozen=True, slots=True)
class FileStretch:
    """A range of a file: a frame with a valid checksum, or (without a body) bytes that contain no frame."""

    offset: int
    size: int
    body: bytes | None


@safeguard("frame-checksum")
def checksum(data: bytes) -> int:
    return zlib.crc32(data)


def pack(body: bytes) -> bytes:
    length = struct.pack(">4sI", MARK, len(body))
    return HEAD.pack(MARK, len(body), checksum(length), checksum(body)) + body


def unpack(file: AppendFile, at: int, end: int) -> bytes | None:
    """Return the body of the frame at an offset, or None if there is no valid frame."""
    if end - at < HEAD.size:
        return None
    head = file.read(at, HEAD.size)
    if len(head) < HEAD.size:
        return None
    mark, length, head_sum, body_sum = HEAD.unpack(head)
    if mark != MARK or head_sum != checksum(head[:8]) or length > FRAME_BYTES_MAX:
        return None
    if at + HEAD.size + length > end:
        return None
    body = file.read(at + HEAD.size, length)
    return body if len(body) == length and checksum(body) == body_sum else None


def is_cut_short(file: AppendFile, at: int, end: int) -> bool:
    """Whether the file ends within the frame at an offset: within its header, or by its length."""
    head = file.read(at, min(HEAD.size, end - at))
    if len(head) < HEAD.size:
        return True
    mark, length, head_sum, _ = HEAD.unpack(head)
    return bool(mark == MARK and head_sum == checksum(head[:8]) and at + HEAD.size + length > end)


def is_torn(file: AppendFile, at: int, end: int) -> bool:
    """Whether the invalid end of a file looks like an append that a crash interrupted."""
    if is_cut_short(file, at, end):
        return True
    tail = file.read(at, end - at)
    if tail.endswith(b"\0"):
        return True
    sectors = range(-(-at // SECTOR) * SECTOR, end - SECTOR + 1, SECTOR)
    return any(not any(tail[start - at : start - at + SECTOR]) for start in sectors)


def scan(file: AppendFile, end: int) -> Iterator[FileStretch]:
    """Yield all ranges of a file of `end` bytes in order: frames, and bytes between them."""
    at = 0
    while at < end:
        body = unpack(file, at, end)
        if body is not None:
            size = HEAD.size + len(body)
            yield FileStretch(at, size, body)
            at += size
            continue
        following = _next_good(file, at + 1, end)
        yield FileStretch(at, following - at, None)
        at = following


def _next_good(file: AppendFile, at: int, end: int) -> int:
    """Return the offset of the next frame with a valid checksum; `end` if there is none."""
    while at < end:
        window = file.read(at, WINDOW_BYTES + len(MARK) - 1)
        place = window.find(MARK)
        while place >= 0:
            if unpack(file, at + place, end) is not None:
                return at + place
            place = window.find(MARK, place + 1)
        at += WINDOW_BYTES
    return end
