"""Distinct (group, value) pairs in one hash table, with a count each, for distinct, collect and frequent.

Owns the table, and the encoding of a value as key bytes with the order of the values. Does not depend on the
use of the pairs.

Paper: ELF 2.2.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import byte_layout, from_int64, is_bytes, to_int64
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.keys import TABLE_SEED, KeyForm, KeyTooLong, decode, encode

VALUE_BYTES_MAX = 32_768
"""Longest string or binary value that is stored."""


class ValueTooLong(KeyTooLong):
    """Some rows have a value longer than VALUE_BYTES_MAX. Nothing was inserted."""

    def __init__(self, rows: np.ndarray, kind: str, name: str) -> None:
        super().__init__(rows)
        self.message = f"{kind} {name!r} got {len(rows)} values longer than {VALUE_BYTES_MAX} bytes"
        self.hint = "Aggregate a shorter one, for example SUBSTRING(x, 1, 1000)."


def check_lengths(values: pa.Array, kind: str, name: str) -> None:
    """Check the lengths of values.

    Raises:
        ValueTooLong: Values are too long; the error has their rows.
    """
    if is_bytes(values.type):
        long = np.flatnonzero(np.diff(byte_layout(values)[0]) > VALUE_BYTES_MAX)
        if len(long):
            raise ValueTooLong(long, kind, name)


class Pairs:
    """Distinct pairs of a group and a value that is not null.

    Args:
        data_type: canonical type of the values.
        counted: whether each pair has a count.
    """

    def __init__(self, data_type: pa.DataType, *, counted: bool) -> None:
        self.type = data_type
        self._float = pa.types.is_floating(data_type)
        self._form = KeyForm((pa.int64(), pa.int64() if self._float else data_type), (False, False))
        self._table = kernel.active.table(TABLE_SEED)
        self._counts = Growing() if counted else None

    def add(self, values: pa.Array, ids: np.ndarray, counts: np.ndarray | None = None) -> None:
        """Add pairs, once each or with counts. Cost: an upsert per pair."""
        if self._float:
            values = from_int64(float_rank(to_int64(values)[0]), None, pa.int64())
        owners = from_int64(ids, None, pa.int64())
        found = self._table.upsert(encode((owners, values), self._form, len(ids)))
        if self._counts is None:
            return
        totals = self._counts.reach(self._table.rows)
        if counts is None:
            kernel.active.count(found, totals)
        else:
            kernel.active.add(found, counts, totals)

    def sorted(self) -> tuple[np.ndarray, pa.Array, np.ndarray]:
        """Return int64 groups, values, int64 counts (1 if not counted), by group and value. Cost: a sort."""
        order, _ = self._table.order(0)
        owners, values = decode(self._table.keys(), self._form)
        values = values.take(pa.array(order))
        if self._float:
            values = from_int64(float_rank(to_int64(values)[0]), None, pa.float64())
        rows = self._table.rows
        counts = np.ones(rows, np.int64) if self._counts is None else self._counts.head(rows)[order]
        return to_int64(owners)[0][order], values, counts

    def clear(self) -> None:
        self._table.clear()
        if self._counts is not None:
            self._counts.clear()

    @property
    def rows(self) -> int:
        return self._table.rows

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + (0 if self._counts is None else self._counts.nbytes)
