"""Content of files that may be compressed, which is recognised by magic bytes, never by the name.

Memory holds one chunk, however large the decompressed file is. A damaged or truncated file raises an error.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from elfmesh.errors import DataError

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
GZIP_CHUNK_BYTES = 256 << 10
ZSTD_CHUNK_BYTES = 512
"""Compressed bytes per step: four bytes may expand to 128 KiB, so a malicious file takes 16 MiB."""

ZSTD_WINDOW_BYTES_MAX = 128 << 20


def compression(head: bytes) -> str:
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if head.startswith(ZSTD_MAGIC) else ""


def decoded(
    file: BinaryIO, path: str, size: int, on_bytes: Callable[[int], None], *, eager: bool = False
) -> Iterator[bytes]:
    """Yield the content of a stream in chunks of `size` bytes; if `eager`, what a pipe has at the time."""
    head = file.read(4)
    kind = compression(head)
    whole = _Prefixed(head, file, on_bytes, eager=eager)
    if kind == "gzip":
        yield from _gunzip(whole, path, size)
    elif kind == "zstd":
        yield from _unzstd(whole, path, size)
    else:
        while chunk := whole.read(size):
            yield chunk


class _Prefixed(io.RawIOBase):
    """Stream whose first bytes were already read, for pipes that cannot be rewound."""

    def __init__(self, head: bytes, file: BinaryIO, on_bytes: Callable[[int], None], *, eager: bool) -> None:
        self._head = head
        self._read = file.read1 if eager and isinstance(file, io.BufferedReader | io.BytesIO) else file.read
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        data = head + self._read(size - len(head)) if head else self._read(size)
        self._on_bytes(len(data))
        return data

    def seekable(self) -> bool:
        return False


def _gunzip(file: _Prefixed, path: str, size: int) -> Iterator[bytes]:
    """Yield all members of a gzip file, at most `size` bytes at a time; zeros between them are padding."""
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    begun = False
    try:
        while chunk := file.read(GZIP_CHUNK_BYTES):
            data = b""
            while chunk or len(data) == size:  # a full buffer may have left output inside
                if not begun:
                    chunk = chunk.lstrip(b"\0")
                    if not chunk:
                        break
                    begun = True
                data = member.decompress(chunk, size)
                chunk = member.unconsumed_tail
                if data:
                    yield data
                if member.eof:
                    chunk, data = member.unused_data, b""
                    member, begun = zlib.decompressobj(GZIP_WINDOW_BITS), False
    except (OSError, zlib.error) as error:
        raise _damaged("gzip", path, error) from None
    if begun:
        raise _cut_off("gzip", path)


def _unzstd(file: _Prefixed, path: str, size: int) -> Iterator[bytes]:
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    frame = context.decompressobj()
    begun = False
    held: list[bytes] = []
    held_bytes = 0
    try:
        while chunk := file.read(ZSTD_CHUNK_BYTES):
            while chunk:
                held.append(frame.decompress(chunk))
                held_bytes += len(held[-1])
                begun = True
                chunk = b""
                if frame.eof:
                    chunk = frame.unused_data
                    frame, begun = context.decompressobj(), False
            if held_bytes >= size:
                whole = b"".join(held)
                for start in range(0, held_bytes - held_bytes % size, size):
                    yield whole[start : start + size]
                held = [whole[held_bytes - held_bytes % size :]]
                held_bytes %= size
    except zstandard.ZstdError as error:
        raise _damaged("zstd", path, error) from None
    if held_bytes:
        yield b"".join(held)
    if begun:
        raise _cut_off("zstd", path)


def _cut_off(kind: str, path: str) -> DataError:
    return DataError(
        f"the {kind} file is cut off",
        where=path,
        hint="Copy the file again; elfmesh returns no result for a part of it.",
    )


def _damaged(kind: str, path: str, error: Exception) -> DataError:
    return DataError(f"the {kind} file is damaged: {error}", where=path, hint="Copy it again.")
