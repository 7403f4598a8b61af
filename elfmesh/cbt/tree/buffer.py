"""Compressed buffer: an immutable block of PAO rows, under zstd or in packed bits, in memory or a store.

Keys and states are compressed separately, so that rows with the same keys share the bytes of the keys. A blob
is dropped from its store when the last buffer that needs it has gone.

Paper: ELF 2.2 ("storing such data in compressed form"; "can be externalized to SSD or disk"). Deviation: the
paper appends <hash, size, serializedPAO> tuples. Sorted columns compress better and merge without
deserialising a PAO; the hash (8 bytes, more than the compressed key) is recomputed when needed.
"""

from __future__ import annotations

import numpy as np
import zstandard

from elfmesh.cbt import kernel
from elfmesh.cbt.budget import BlobStore
from elfmesh.cbt.codec.blocks import Squeezer, cut
from elfmesh.cbt.codec.codec import Chunk, Packed, column_sizes, unpack
from elfmesh.cbt.kernel import Run
from elfmesh.cbt.sorted_rows import SortedRows

SPLIT_BYTES_MIN = 1 << 15
"""Minimum size of a run with two frames. Smaller runs are mostly pending, so the time of a second frame
matters more than a tenth of the bytes."""

_IN_BITS = -1
"""Marks keys that are not a zstd frame but a run in packed bits, in the position of the first frame's end."""

SPILL_BYTES_MIN = 1 << 10
"""Minimum size of a piece that is spilled; the record of a smaller one would take as much memory."""

_BYTES_OBJECT = 50
"""Size of a bytes object besides its content, including the allocator's overhead."""
_SPILLED_OBJECT = 120
"""Memory of spilled bytes: handle, number, and the store's own record."""
BUFFER_OBJECT = 244
"""Size of a buffer besides its bytes; its header shares descriptions of columns."""


class Spilled:
    """Bytes in a store, dropped when this object is freed."""

    __slots__ = ("_number", "_store")

    def __init__(self, store: BlobStore, data: bytes) -> None:
        self._store = store
        self._number = store.put(data)

    def read(self) -> bytes:
        return self._store.get(self._number)

    def __del__(self) -> None:
        # A put that failed leaves no number.
        if (number := getattr(self, "_number", None)) is not None:
            self._store.drop(number)


class Press:
    """Compressor and decompressor of buffers, with reusable memory. Not thread-safe."""

    def __init__(self) -> None:
        self._squeezer = Squeezer()
        self._decompressor = zstandard.ZstdDecompressor()

    def squeeze(self, *parts: bytes | memoryview) -> bytes:
        frames = [self._squeezer.squeeze(part) for part in parts]
        # Copy, because zstd's own result is truncated from the worst case, which fragments the heap.
        return b"".join(frames) if len(frames) > 1 else bytes(memoryview(frames[0]))

    def unfold(self, frames: bytes, stops: tuple[int, ...]) -> bytes:
        decompress = self._decompressor.decompress
        if len(stops) == 1:
            return decompress(frames)
        start, parts, view = 0, [], memoryview(frames)
        for stop in stops:
            parts.append(decompress(view[start:stop]))
            start = stop
        return b"".join(parts)


class CompressedBuffer:
    """Immutable block; a `twin` with the same keys shares its compressed keys."""

    __slots__ = ("_header", "_keys", "_keys_end", "_states", "raw_bytes")

    def __init__(self, packed: Packed, press: Press, *, twin: CompressedBuffer | None = None) -> None:
        self._header = packed.header
        _, *columns = packed.chunks
        states = columns[0] if len(columns) == 1 else b"".join(columns)
        self.raw_bytes = len(packed.chunks[0]) + len(states)
        self._states: bytes | Spilled = press.squeeze(states) if states else b""
        self._keys: bytes | Spilled
        self._keys_end: int
        if twin is not None:
            self._keys, self._keys_end = twin._keys, twin._keys_end
        else:
            self._keys, self._keys_end = _squeeze_keys(packed, press)

    @property
    def rows(self) -> int:
        return self._header.rows

    @property
    def nbytes(self) -> int:
        return BUFFER_OBJECT + _held(self._keys) + _held(self._states)

    @property
    def is_spilled(self) -> bool:
        return isinstance(self._states, Spilled) or isinstance(self._keys, Spilled)

    def unpack(self, press: Press) -> SortedRows:
        packed = self.open(press)
        return unpack(packed.header, packed.chunks, trusted=True)

    def open(self, press: Press) -> Packed:
        """Return the packed rows. Cost: one decompression, and a read from the store if they are there."""
        keys, states = self._keys, self._states
        if isinstance(states, Spilled):
            states = states.read()
        if isinstance(keys, Spilled):
            keys = keys.read()
        if self._keys_end == _IN_BITS:
            run = kernel.active.unpack_bits(self._header.rows, keys)
        else:
            run = press.unfold(keys, (self._keys_end, len(keys)) if self._keys_end else (len(keys),))
        chunks: list[Chunk] = [memoryview(run)]
        sizes = column_sizes(self._header)
        if sizes:
            chunks += cut(memoryview(press.unfold(states, (len(states),)) if states else b""), sizes)
        return Packed(self._header, chunks)

    def spill(self, store: BlobStore) -> None:
        """Move the bytes to a store; if the store fails, they stay in memory."""
        if isinstance(self._keys, bytes) and len(self._keys) >= SPILL_BYTES_MIN:
            self._keys = Spilled(store, self._keys)
        if isinstance(self._states, bytes) and len(self._states) >= SPILL_BYTES_MIN:
            self._states = Spilled(store, self._states)


def _squeeze_keys(packed: Packed, press: Press) -> tuple[bytes, int]:
    """Return the compressed run, and the end of its first frame if there are two.

    Lengths and text have different statistics, so separate frames take a twentieth less. Small runs are
    packed into bits, because an entropy coder would gain little for its time.
    """
    header, run = packed.header, memoryview(packed.chunks[0])
    lengths = header.rows * (4 if header.wide else 2)
    if len(run) < SPLIT_BYTES_MIN:
        own = Run(header.rows, header.key_bytes, header.wide, np.frombuffer(run, np.uint8))
        bits = kernel.active.pack_bits(own)
        return (press.squeeze(run), 0) if bits is None else (bits, _IN_BITS)
    first = press.squeeze(run[:lengths])
    return first + press.squeeze(run[lengths:]), len(first)


def _held(part: bytes | Spilled) -> int:
    return _SPILLED_OBJECT if isinstance(part, Spilled) else len(part) + _BYTES_OBJECT
