"""Blocks of sorted rows as compressed bytes, alone or in frames that find damage.

A frame stands in a checkpoint of a tree, and wherever a block is kept outside its tree:

    length u32 of all that follows | crc32 u32 of what follows it | body

The body of a block is: length of its head u32 | head | one zstd frame of all chunks. Bytes from outside give
rows or a ProtocolError; no more than the stated budget is allocated.

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
"""A longer frame is not one of ours: compressed, a block is smaller than what it may unfold to."""

_PREFIX = struct.Struct("<II")
_LENGTH = struct.Struct("<I")

# A small table stays in the first cache, and a window beyond the last 256 KiB finds nothing more: sorted,
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


class Head(msgspec.Struct, array_like=True, frozen=True):
    """What must be known before chunks can be read: their sizes, and what they are."""

    sizes: tuple[int, ...]
    rows: PackedHeader


_encode_head = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(Head).decode


def encode_head(packed: Packed) -> bytes:
    return _encode_head(Head(tuple(len(chunk) for chunk in packed.chunks), packed.header))


def decode_head(data: bytes | memoryview) -> Head:
    return _decode_head(data)


class Squeezer:
    """Compresses chunks, one frame after the other; its memory is prepared once. For one thread at a time."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)

    def squeeze(self, data: Chunk) -> bytes:
        """One zstd frame that states its size. Cost: about 1 GB/s."""
        return self._compressor.compress(data)


def unfold(frame: Chunk, sizes: Sequence[int]) -> list[memoryview]:
    """The chunks of a zstd frame that should have these sizes, whose sum the caller has checked."""
    size = sum(sizes)
    if any(part < 0 for part in sizes):
        raise ProtocolError("a block with a chunk of negative size")
    try:
        if zstandard.get_frame_parameters(frame).content_size != size:
            raise ProtocolError("a block does not state the size of its chunks")
        # What is stated is what was allowed, and all that zstd allocates; it stops at the end of it.
        data = _decompress(frame) if size else b""
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a block does not decompress: {error}") from None
    return cut(memoryview(data), sizes)


_IDLE: list[zstandard.ZstdDecompressor] = []
"""Decompressors that no thread uses now: to make one costs more than to decompress a small block. Each serves
one thread at a time, so there are at most as many as there ever were threads reading at once."""


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
    """Whole frames from bytes that were cut anywhere."""
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
    """The inverse of `write_block`, within a budget of memory.

    `trusted` bytes never left our memory: it skips the checks of their values.
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
