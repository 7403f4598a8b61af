"""A compressed buffer: an immutable block of PAO rows, columnar, under zstd.

Owns: compression inside the tree. Refuses to know: where in the tree a buffer hangs, what is on the wire.

Paper: ELF 2.2 ("storing such data in compressed form"). Deviation: the paper appends <hash, size,
serializedPAO> tuples; columns compress better and merge without deserialising a single PAO, and the hash is
recomputed when needed (8 bytes of hash per key would be more than the compressed key).
"""

from __future__ import annotations

import sys

import zstandard

from elfmesh.cbt.rows_codec import BlockHeader, BlockReader, write_rows
from elfmesh.cbt.rows import Rows

COMPRESSION_LEVEL = 1
"""zstd level: the shuffled columns gain little from more, and pushing down is on the insert path."""

_HEADER_BYTES = 600
"""Python objects of one header and buffer (measured on three columns)."""


class CompressedBuffer:
    """One immutable block.

    Attributes:
        rows: number of PAO rows in it.
        raw_bytes: size before compression.
        nbytes: memory it takes.
    """

    __slots__ = ("_data", "_header", "nbytes", "raw_bytes", "rows")

    def __init__(self, rows: Rows) -> None:
        chunks: list[bytes] = []
        self._header: BlockHeader = write_rows(rows, chunks)
        raw = b"".join(chunks)
        self._data = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(raw)
        self.rows = rows.count
        self.raw_bytes = len(raw)
        self.nbytes = sys.getsizeof(self._data) + _HEADER_BYTES

    def unpack(self) -> Rows:
        """The rows again. Cost: one decompression."""
        raw = zstandard.ZstdDecompressor().decompress(self._data) if self.raw_bytes else b""
        return BlockReader(raw, sys.maxsize, trusted=True).read_rows(self._header)
