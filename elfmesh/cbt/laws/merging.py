"""Merging of finished sketches: hll, theta and kll bytes of another job, column or program.

A value is an Apache DataSketches sketch. The state is that of the law that makes such sketches, with
additional columns for merging. If a value is not such a sketch, its group is null, because without the value
the result would be incomplete. The bound below which the hashes of a theta are complete is part of the state,
because a sketch may have dropped more than its entries show.

Owns the conversion from bytes to states. Does not depend on the format of the bytes (`sketches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import to_int64, type_name
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.blobs import unpack_values
from elfmesh.cbt.laws.hll import HyperLogLog
from elfmesh.cbt.laws.kll import K_DEFAULT, Kll
from elfmesh.cbt.laws.sketches import KllHeld, SketchError, hll_held, kll_held, theta_held
from elfmesh.cbt.laws.theta import ENTRIES_DEFAULT, EVERYTHING, Theta, theta_bytes
from elfmesh.errors import DataError

TORN = "torn"
"""Column with the number of values of a group that were not sketches."""
BOUND = "bound"

Parts = dict[str, np.ndarray | pa.Array]


class Merging(Law):
    """Union of sketches, in Apache DataSketches' format; null for groups with other values.

    Args:
        kind: name of the law.
        inner: the law whose sketches are merged.
        data_type: type of that law's states.
        read: reads one sketch; raises SketchError.
        parts: converts the result to that law's columns, and others with one number per group.
        least: names of those other columns whose least value is used.
    """

    def __init__(
        self,
        kind: str,
        inner: Law,
        data_type: pa.DataType,
        read: Callable[[bytes], Any],
        parts: Callable[[Sequence[Any]], Parts],
        least: tuple[str, ...] = (),
    ) -> None:
        self.kind, self.inner, self.inner_type = kind, inner, data_type
        self.read, self.parts, self.least = read, parts, least

    def value_type(self, values: Values, name: str) -> pa.DataType:
        data_type = one_column(values).type
        if data_type in (pa.null(), pa.binary()):
            return pa.binary()
        raise DataError(
            f"{self.kind} {name!r} is over {type_name(data_type)} values, which are not sketches",
            hint="Sketches are binary: unbase64(x) or unhex(x) makes them of text.",
        )

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        return MergingAccumulator(self)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return sketches in Apache DataSketches' format, binary; null for groups with invalid values."""
        merged = self.united(state, rows).to_pylist()
        torn = np.asarray(state.parts[TORN]).tolist()
        return pa.array(
            [None if bad else held for bad, held in zip(torn, merged, strict=True)],
            pa.binary(),
        )

    def united(self, state: State, rows: int) -> pa.Array:
        """Return the sketches of all groups, ignoring invalid values."""
        return self.inner.finish(self.inside(state), rows)

    def inside(self, state: State) -> State:
        others = (TORN, *self.least)
        parts = {name: column for name, column in state.parts.items() if name not in others}
        return State(self.inner.kind, self.inner_type, parts)

    def check(self, state: State, rows: int) -> None:
        for name, lowest in ((TORN, 0), *((name, 1) for name in self.least)):
            column = state.parts.get(name)
            if not isinstance(column, np.ndarray) or (column < lowest).any():
                raise ValueError(f"the {name} of a {self.kind} is not such a number")
        if state.type != pa.binary():
            raise ValueError(f"a {self.kind} is over binary values")
        self.inner.check(self.inside(state), rows)


class MergingAccumulator(Accumulator):
    """Accumulator of the law whose sketches are merged, with the additional columns."""

    def __init__(self, law: Merging) -> None:
        self.type = pa.binary()
        self._law = law
        self._inner = law.inner.accumulator(law.inner_type)
        self._torn = Growing()
        self._least = {name: Growing(EVERYTHING) for name in law.least}

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Read each sketch, then merge. Cost: a call per sketch."""
        held, owners, torn = [], [], []
        for value, owner in zip(one_column(values).to_pylist(), ids.tolist(), strict=True):
            if value is None:
                continue
            try:
                held.append(self._law.read(value))
                owners.append(owner)
            except SketchError:
                torn.append(owner)
        if torn:
            kernel.active.count(np.array(torn, np.int64), self._torn.reach(groups))
        if held:
            self._unite(self._law.parts(held), np.array(owners, np.int64), groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        kernel.active.add(ids, state.parts[TORN], self._torn.reach(groups))
        self._unite(state.parts, ids, groups)

    def _unite(self, parts: Parts, ids: np.ndarray, groups: int) -> None:
        for name, column in self._least.items():
            kernel.active.least(ids, parts[name], column.reach(groups))
        law = self._law
        self._inner.merge(law.inside(State(law.kind, self.type, parts)), ids, groups)

    def freeze(self, groups: int) -> State:
        parts = dict(self._inner.freeze(groups).parts)
        parts |= {name: column.head(groups).copy() for name, column in self._least.items()}
        parts[TORN] = self._torn.head(groups).copy()
        return State(self._law.kind, self.type, parts)

    def clear(self) -> None:
        self._inner.clear()
        for column in (self._torn, *self._least.values()):
            column.clear()

    def promote(self, data_type: pa.DataType) -> None: ...

    @property
    def nbytes(self) -> int:
        """Return the bytes of the other law's accumulator, plus eight per number."""
        others = (self._torn, *self._least.values())
        return self._inner.nbytes + sum(column.nbytes for column in others)


class HllMerge(Merging):
    """Union of hll sketches with 4,096 registers, of the type HLL_8 if they have registers."""

    def __init__(self) -> None:
        super().__init__(
            "hllmerge",
            HyperLogLog(),
            pa.binary(),
            hll_held,
            lambda held: {"sketch": pa.array(held, pa.binary())},
        )


class ThetaMerge(Merging):
    """Union of theta sketches.

    Args:
        entries: k of the union, a power of two.
    """

    def __init__(self, entries: int = ENTRIES_DEFAULT) -> None:
        inner = Theta(entries)
        self.entries = entries
        super().__init__(
            inner.kind.replace("theta", "thetamerge"), inner, pa.binary(), theta_held, _theta_parts, (BOUND,)
        )

    def united(self, state: State, rows: int) -> pa.Array:
        """Return the least hashes below the least bound of all."""
        column, owners = unpack_values(state.parts["items"], pa.int64())
        hashes = to_int64(column)[0]
        cuts = np.searchsorted(owners, np.arange(rows + 1)).tolist()
        bounds = np.asarray(state.parts[BOUND]).tolist()
        made = []
        for bound, (start, stop) in zip(bounds, pairwise(cuts), strict=True):
            kept = hashes[start:stop]
            kept = kept[kept < bound]
            theta = int(kept[self.entries]) if len(kept) > self.entries else bound
            made.append(theta_bytes(kept[: self.entries], theta))
        return pa.array(made, pa.binary())


class KllMerge(Merging):
    """Union of kll sketches of doubles.

    Args:
        k: accuracy of the union; the ranks are as accurate as the coarsest input.
    """

    def __init__(self, k: int = K_DEFAULT) -> None:
        inner = Kll(k)
        super().__init__(inner.kind.replace("kll", "kllmerge"), inner, pa.float64(), kll_held, _kll_parts)


def _theta_parts(held: Sequence[tuple[np.ndarray, int]]) -> Parts:
    items = pa.array([hashes.tobytes() for hashes, _ in held], pa.binary())
    return {"items": items, BOUND: np.array([bound for _, bound in held], np.int64)}


def _kll_parts(held: Sequence[KllHeld]) -> Parts:
    ends = np.array([[one.least, one.greatest] for one in held], "<f8") + 0.0
    return {
        "n": np.array([one.count for one in held], np.int64),
        "least": float_rank(ends[:, 0].copy().view("<i8")),
        "greatest": float_rank(ends[:, 1].copy().view("<i8")),
        "levels": pa.array([one.levels.tobytes() for one in held], pa.binary()),
        "items": pa.array([(one.values + 0.0).tobytes() for one in held], pa.binary()),
    }
