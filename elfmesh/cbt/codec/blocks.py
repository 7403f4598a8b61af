"""Compressed blocks of sorted rows, alone or in frames with checksums.

A frame is used in a checkpoint of a tree, and wherever a block is stored outside its tree:

    length u32 of all that follows | crc32 u32 of what follows it | body

The body of a block is: length of its head u32 | head | one zstd frame of all chunks. Decoding bytes from
outside gives rows or raises ProtocolError, and allocates no more than the given budget.

Paper: ELF 2.2 ("storing such data in compressed form").
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec
import zstandard

from elfmesh.cbt.codec.codec import UNPACKED_BYTES_MAX, Chunk, Packed, PackedHeader, pack, unpack
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.errors import ProtocolError
from elfmesh.wire import UNREADABLE

FRAME_BYTES_MAX = UNPACKED_BYTES_MAX
"""Longest valid frame, because a compressed block is smaller than its greatest unpacked size."""

_PREFIX = struct.Struct("<II")
_LENGTH = struct.Struct("<I")

# A small table fits into the first-level cache, and a window beyond 256 KiB finds no more matches, because
# sorted, front-coded and shuffled bytes gain little from a longer search.
# front-coded and shuffled bytes gain little from a longer search.
_PARAMETERS = zstandard.ZstdCompressionParameters(
    strategy=zstandard.STRATEGY_FAST,
    min_match=7,
    hash_log=12,
    window_log=18,
    chain_log=6,
    search_log=1,
    target_length=0,
)


class BlockHeader(msgspec.Struct, array_like=True, frozen=True):
    """Head of a block: the sizes of its chunks, and the header of its rows, which a reader needs first."""

    sizes: tuple[int, ...]
    rows: PackedHeader


_encode_head = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(BlockHeader).decode


def encode_head(packed: Packed) -> bytes:
    return _encode_head(BlockHeader(tuple(len(chunk) for chunk in packed.chunks), packed.header))


def decode_head(data: bytes | memoryview) -> BlockHeader:
    return _decode_head(data)


class Squeezer:
    """Compressor of chunks, one frame after the other, with reusable memory. Not thread-safe."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)

    def squeeze(self, data: Chunk) -> bytes:
        """Return one zstd frame that declares its size. Cost: about 1 GB/s."""
        return self._compressor.compress(data)


def unfold(frame: Chunk, sizes: Sequence[int]) -> list[memoryview]:
    """Decompress the chunks of a zstd frame; the caller has checked the sum of the expected sizes."""
    size = sum(sizes)
    if any(part < 0 for part in sizes):
        raise ProtocolError("a block with a chunk of negative size")
    try:
        if zstandard.get_frame_parameters(frame).content_size != size:
            raise ProtocolError("a block does not state the size of its chunks")
        # The declared size is what was allowed; zstd allocates no more and stops there.
        data = _decompress(frame) if size else b""
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a block does not decompress: {error}") from None
    return cut(memoryview(data), sizes)


_IDLE: list[zstandard.ZstdDecompressor] = []
"""Idle decompressors, because making one costs more than decompressing a small block. There are at most as
many as threads that ever read at once."""


def _decompress(frame: Chunk) -> bytes:
    try:
        decompressor = _IDLE.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        return decompressor.decompress(frame, allow_extra_data=False)
    finally:
        _IDLE.append(decompressor)


def cut(data: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    return [data[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


def frame(body: bytes) -> bytes:
    return _PREFIX.pack(len(body) + _LENGTH.size, zlib.crc32(body)) + body


def unframe(data: Chunk) -> memoryview:
    if len(data) < _PREFIX.size:
        raise ProtocolError("a frame is cut off")
    length, checksum = _PREFIX.unpack_from(data)
    body = memoryview(data)[_PREFIX.size :]
    if length != len(data) - _LENGTH.size or checksum != zlib.crc32(body):
        raise ProtocolError("a frame is cut off or has a wrong checksum")
    return body


def split_frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield whole frames from bytes that were cut anywhere."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        start = 0
        while len(held) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(held, start)[0]
            if not _PREFIX.size <= end - start <= FRAME_BYTES_MAX:
                raise ProtocolError("a frame of an impossible length")
            if len(held) < end:
                break
            yield bytes(held[start:end])
            start = end
        del held[:start]
    if held:
        raise ProtocolError("the bytes end inside a frame")


def write_block(rows: SortedRows) -> bytes:
    packed = pack(rows)
    head = encode_head(packed)
    return frame(b"".join((_LENGTH.pack(len(head)), head, Squeezer().squeeze(b"".join(packed.chunks)))))


def read_block(data: Chunk, *, trusted: bool = False, budget_bytes: int = UNPACKED_BYTES_MAX) -> SortedRows:
    """Decode a block from `write_block`, within a memory budget.

    `trusted` bytes never left this process's memory, so their values are not checked. Raises ProtocolError.
    """
    body = unframe(data)
    try:
        start = _LENGTH.size + _LENGTH.unpack_from(body)[0]
        head = decode_head(body[_LENGTH.size : start])
    except (struct.error, *UNREADABLE) as error:
        raise ProtocolError(f"malformed block: {error}") from None
    if sum(head.sizes) > budget_bytes:
        raise ProtocolError(f"a block unfolds to over {budget_bytes} bytes")
    chunks = unfold(body[start:], head.sizes)
    return unpack(head.rows, chunks, trusted=trusted, budget_bytes=budget_bytes)
