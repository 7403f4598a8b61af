"""Registers: states of one table's groups by number, which can be read, merged and overwritten.

A tree only adds, but a sliding window also restores earlier states of groups. The state of every group
therefore has its own position: fixed widths in growing arrays, others in a pool with positions. A group that
was never put has no state; `take` returns copies.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import from_int64, is_orderable_as_int, to_int64
from elfmesh.cbt.laws import LAWS, State

_POOL_WASTE_MIN = 1 << 14
"""Rows that a pool may contain beyond twice the groups before it is rewritten."""


class Register:
    """States of one aggregate for the groups 0, 1, 2, ..."""

    def __init__(self, kind: str, data_type: pa.DataType) -> None:
        self._kind = kind
        self._type = data_type
        self._ints: dict[str, np.ndarray] = {}
        self._values: dict[str, _Fixed | _Pool] = {}
        self._has = np.zeros(0, np.bool_)

    def reserve(self, groups: int) -> None:
        if groups <= len(self._has):
            return
        room = max(groups, 2 * len(self._has))
        self._has = _grown(self._has, room)
        self._ints = {name: _grown(column, room) for name, column in self._ints.items()}
        for values in self._values.values():
            values.reserve(room)

    def has(self, ids: np.ndarray) -> np.ndarray:
        known: np.ndarray = self._has[ids]
        return known

    def take(self, ids: np.ndarray) -> State:
        parts: dict[str, np.ndarray | pa.Array] = {n: column[ids] for n, column in self._ints.items()}
        parts |= {name: values.take(ids) for name, values in self._values.items()}
        return State(self._kind, self._type, parts)

    def put(self, ids: np.ndarray, state: State) -> None:
        for name, column in state.parts.items():
            if not isinstance(column, np.ndarray):
                if name not in self._values:
                    fixed = is_orderable_as_int(column.type)
                    self._values[name] = (
                        _Fixed(len(self._has), column.type) if fixed else _Pool(len(self._has))
                    )
                self._values[name].put(ids, column)
                continue
            if name not in self._ints:
                self._ints[name] = np.zeros(len(self._has), np.int64)
            self._ints[name][ids] = column
        # A column that the state lacks is zero in it.
        for name in self._ints.keys() - state.parts.keys():
            self._ints[name][ids] = 0
        self._has[ids] = True

    def forget(self, ids: np.ndarray) -> None:
        self._has[ids] = False
        for values in self._values.values():
            values.forget(ids)

    def merge(self, ids: np.ndarray, state: State) -> None:
        """Merge the state at row i into group ids[i]; each group occurs once."""
        known = self._has[ids]
        if not known.any():
            self.put(ids, state)
            return
        places = np.concatenate([np.flatnonzero(known), np.arange(len(ids))])
        self.put(ids, LAWS[self._kind].merge([self.take(ids[known]), state], places, len(ids)))

    def clear(self) -> None:
        self._has[:] = False
        self._values = {}

    def renumber(self, ids: np.ndarray) -> None:
        """Keep only these groups; the one at ids[i] becomes i."""
        self._has = self._has[ids]
        self._ints = {name: column[ids] for name, column in self._ints.items()}
        for values in self._values.values():
            values.renumber(ids)

    @property
    def nbytes(self) -> int:
        ints = sum(column.nbytes for column in self._ints.values())
        return self._has.nbytes + ints + sum(values.nbytes for values in self._values.values())


class _Fixed:
    """Arrow values of a fixed width by group."""

    def __init__(self, groups: int, data_type: pa.DataType) -> None:
        self._type = data_type
        self._raw = np.zeros(groups, np.int64)
        self._valid = np.zeros(groups, np.bool_)

    def reserve(self, groups: int) -> None:
        self._raw, self._valid = _grown(self._raw, groups), _grown(self._valid, groups)

    def take(self, ids: np.ndarray) -> pa.Array:
        return from_int64(self._raw[ids], self._valid[ids], self._type)

    def put(self, ids: np.ndarray, values: pa.Array) -> None:
        self._raw[ids], valid = to_int64(values)
        self._valid[ids] = True if valid is None else valid

    def forget(self, ids: np.ndarray) -> None: ...

    def renumber(self, ids: np.ndarray) -> None:
        self._raw, self._valid = self._raw[ids], self._valid[ids]

    @property
    def nbytes(self) -> int:
        return self._raw.nbytes + self._valid.nbytes


class _Pool:
    """Arrow values by group: `_at[group]` is the row of its value in the concatenated chunks, or -1."""

    def __init__(self, groups: int) -> None:
        self._at = np.full(groups, -1, np.int64)
        self._chunks: list[pa.Array] = []
        self._rows = 0

    def reserve(self, groups: int) -> None:
        at = np.full(groups, -1, np.int64)
        at[: len(self._at)] = self._at
        self._at = at

    def take(self, ids: np.ndarray) -> pa.Array:
        places = self._at[ids]
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(places))
        starts = np.cumsum([0, *(len(chunk) for chunk in self._chunks)])
        source = np.searchsorted(starts, places, side="right") - 1
        order = np.argsort(source, kind="stable")
        cuts = np.searchsorted(source[order], np.arange(len(self._chunks) + 1))
        pieces = [
            chunk.take(pa.array(places[order[cuts[number] : cuts[number + 1]]] - starts[number]))
            for number, chunk in enumerate(self._chunks)
        ]
        back = np.empty(len(ids), np.int64)
        back[order] = np.arange(len(ids))
        return pa.concat_arrays(pieces).take(pa.array(back))

    def put(self, ids: np.ndarray, values: pa.Array) -> None:
        if self._rows > 2 * len(self._at) + _POOL_WASTE_MIN:
            self.renumber(np.arange(len(self._at)))
        self._at[ids] = np.arange(self._rows, self._rows + len(ids))
        self._rows += len(values)
        # As in a binary counter, chunks double in size, so there are few and each value is rarely copied.
        while self._chunks and len(self._chunks[-1]) <= len(values):
            values = pa.concat_arrays([self._chunks.pop(), values])
        self._chunks.append(values)

    def forget(self, ids: np.ndarray) -> None:
        self._at[ids] = -1

    def renumber(self, ids: np.ndarray) -> None:
        places = self._at[ids]
        kept = places >= 0
        values = self.take(ids[kept])
        self._at = np.where(kept, np.cumsum(kept) - 1, -1)
        self._chunks, self._rows = [values], len(values)

    @property
    def nbytes(self) -> int:
        return self._at.nbytes + sum(int(chunk.nbytes) for chunk in self._chunks)


def _grown(column: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size, column.dtype)
    out[: len(column)] = column
    return out
