"""One block of sorted rows as framed bytes: its header, its columns under one zstd frame, a checksum.

    length u32 of all that follows | crc32 u32 of all that follows it | header length u32 | header | zstd frame

The same bytes stand in checkpoints of a tree and wherever a block leaves the memory of its tree; what is sent
to other agents has headers of its own and takes only `squeeze` and `unfold` from here.

Owns: compression, checksums and lengths of blocks.
Refuses to know: what is in the columns (codec.py), files, sockets, trees.

Invariants:
    - `read_block(write_block(rows))` has equal columns.
    - Bytes from outside give rows or a ProtocolError; nothing larger than the stated budget is allocated.

Paper: ELF 2.2 ("storing such data in compressed form").
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
import zstandard

from elfmesh.cbt.codec import PackedHeader, pack, unpack
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.errors import ProtocolError

BLOCK_BYTES_MAX = 1 << 30
"""Uncompressed size that a block from outside may state; ours are a few MB, of 64 KiB keys up to some 100."""

_PREFIX = struct.Struct("<III")
_AFTER_LENGTH = 4
_AFTER_CHECKSUM = 8
# Fast strategy with a small table: sorted, front-coded and shuffled bytes gain little from a longer search,
# and a table that stays in the first cache is what makes this cheap. Windows beyond a block find nothing.
_PARAMETERS = zstandard.ZstdCompressionParameters(
    strategy=zstandard.STRATEGY_FAST,
    min_match=7,
    hash_log=12,
    window_log=18,
    chain_log=6,
    search_log=1,
    target_length=0,
    write_checksum=False,
)


class _Header(msgspec.Struct, array_like=True, frozen=True):
    """What must be known before the zstd frame can be read: sizes of its chunks, and what they are."""

    sizes: tuple[int, ...]
    rows: PackedHeader


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Header).decode


class Squeezer:
    """Compresses chunks, one after the other; keep it for many, since its memory is prepared once.

    Not for two threads at once.
    """

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)

    def squeeze(self, data: bytes) -> bytes:
        """One zstd frame that states its size. Cost: some 500 MB/s."""
        return self._compressor.compress(data)


def squeeze(chunks: Sequence[bytes]) -> bytes:
    """Some chunks as one zstd frame."""
    return Squeezer().squeeze(b"".join(chunks))


def unfold(frame: bytes | memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """The chunks of a frame that `squeeze` made, or that someone says it made.

    Args:
        frame: one zstd frame.
        sizes: of the chunks; the caller has made sure that their sum may be allocated.

    Raises:
        ProtocolError: it is no frame of exactly these sizes.
    """
    size = sum(sizes)
    if any(part < 0 for part in sizes):
        raise ProtocolError("a block with a chunk of negative size")
    try:
        if zstandard.get_frame_parameters(frame).content_size != size:
            raise ProtocolError("a block does not state the size of its chunks")
        # The size is stated and right, so the output is allocated once, and zstd stops at its end.
        data = memoryview(
            zstandard.ZstdDecompressor().decompress(frame, max_output_size=size, allow_extra_data=False)
        )
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a block does not decompress: {error}") from None
    if len(data) != size:
        raise ProtocolError("a block unfolds to another size than it states")
    ends = [0, *accumulate(sizes)]
    return [data[start:stop] for start, stop in zip(ends, ends[1:], strict=False)]


def write_block(rows: SortedRows) -> bytes:
    """Framed bytes of one block. Cost: one pass per column, and the compression."""
    packed = pack(rows)
    header = _encode(_Header(tuple(len(chunk) for chunk in packed.chunks), packed.header))
    body = _PREFIX.pack(0, 0, len(header))[_AFTER_CHECKSUM:] + header + squeeze(packed.chunks)
    return _PREFIX.pack(len(body) + _AFTER_LENGTH, zlib.crc32(body), len(header))[:_AFTER_CHECKSUM] + body


def read_block(
    data: bytes | memoryview, *, trusted: bool = False, budget_bytes: int = BLOCK_BYTES_MAX
) -> SortedRows:
    """The inverse of `write_block`.

    Args:
        data: one whole frame.
        trusted: bytes that never left our memory: skips the checks of their values.
        budget_bytes: what the columns may take.

    Raises:
        ProtocolError: the bytes are damaged, or unfold to more than the budget.
    """
    try:
        length, checksum, header_length = _PREFIX.unpack_from(data)
        body = memoryview(data)[_AFTER_CHECKSUM:]
        if length != len(data) - _AFTER_LENGTH or checksum != zlib.crc32(body):
            raise ProtocolError("a block is cut off or has a wrong checksum")
        start = _PREFIX.size + header_length
        header = _decode(memoryview(data)[_PREFIX.size : start])
        if sum(header.sizes) > budget_bytes:
            raise ProtocolError(f"a block unfolds to over {budget_bytes} bytes")
        chunks = unfold(memoryview(data)[start:], header.sizes)
        return unpack(header.rows, chunks, trusted=trusted)
    except (struct.error, msgspec.DecodeError, ValueError) as error:
        raise ProtocolError(f"malformed block: {error}") from None


def split_frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole frames from bytes that were cut anywhere.

    Raises:
        ProtocolError: they end inside a frame, or a frame states an impossible length.
    """
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= _AFTER_LENGTH:
            end = int.from_bytes(held[:_AFTER_LENGTH], "little") + _AFTER_LENGTH
            if not _PREFIX.size <= end <= BLOCK_BYTES_MAX:
                raise ProtocolError("a frame of an impossible length")
            if len(held) < end:
                break
            yield bytes(held[:end])
            del held[:end]
    if held:
        raise ProtocolError("the bytes end inside a frame")
