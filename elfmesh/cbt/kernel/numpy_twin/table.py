"""Hot table: Arrow numbers the distinct keys of a batch, and a dict maps them to their ids."""

from __future__ import annotations

import sys
from itertools import repeat

import numpy as np
import pyarrow as pa

from elfmesh.cbt.kernel.numpy_twin.order import sort_keys
from elfmesh.cbt.kernel.numpy_twin.runs import front_code
from elfmesh.cbt.kernel.numpy_twin.words import as_array, as_keys
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Keys, Run

_BYTES_MAX = (1 << 31) - 1
_KEY_OBJECT_BYTES = 41
"""Size of a bytes object without its content, rounded up to the allocator's average unit."""
_ID_OBJECT_BYTES = 32


class HotTable:
    """See `protocol.HotTable`. The dict hashes with a key of the process, so the seed is not used."""

    __slots__ = ("_copy", "_ids", "key_bytes")

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._copy: Keys | None = None  # keys from `order`, for the following call of `runs`
        self.key_bytes = 0

    @property
    def rows(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        objects = self.rows * (_KEY_OBJECT_BYTES + _ID_OBJECT_BYTES) + self.key_bytes
        copy = 0 if self._copy is None else self._copy.offsets.nbytes + self._copy.data.nbytes
        return sys.getsizeof(self._ids) + objects + copy

    def upsert(self, keys: Keys) -> np.ndarray:
        """See `protocol.HotTable.upsert`.

        Cost: a hashing of the batch, and a dict access per distinct key.
        """
        if len(keys) == 0:
            return np.zeros(0, np.int64)
        encoded = as_array(keys).dictionary_encode()
        unique = encoded.dictionary
        texts = unique.to_pylist()
        ids = np.fromiter(map(self._ids.get, texts, repeat(-1)), np.int64, len(texts))
        missing = np.flatnonzero(ids < 0)
        if len(missing):
            lengths = np.diff(as_keys(unique).offsets)[missing]
            new = texts if len(missing) == len(texts) else [texts[place] for place in missing.tolist()]
            ids[missing] = self._add(new, lengths)
        rows: np.ndarray = ids[np.asarray(encoded.indices)]
        return rows

    def _add(self, texts: list[bytes], lengths: np.ndarray) -> np.ndarray:
        if lengths.max() > KEY_BYTES_MAX:
            raise ValueError(f"a key of {lengths.max()} bytes is over the limit of {KEY_BYTES_MAX}")
        added = int(lengths.sum(dtype=np.int64))
        if self.key_bytes + added > _BYTES_MAX:
            raise ValueError(f"a table of keys would pass {_BYTES_MAX} bytes")
        first = self.rows
        self._ids.update(zip(texts, range(first, first + len(texts)), strict=True))
        self.key_bytes += added
        self._copy = None
        return np.arange(first, first + len(texts))

    def keys(self) -> Keys:
        return as_keys(pa.array(list(self._ids), pa.binary()))

    def order(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        if self._copy is None:
            self._copy = self.keys()
        return sort_keys(self._copy, bits)

    def runs(self, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
        return front_code(self.keys() if self._copy is None else self._copy, order, cuts)

    def clear(self) -> None:
        self._ids.clear()
        self._copy = None
        self.key_bytes = 0


def table(seed: int) -> HotTable:
    del seed
    return HotTable()
