"""Join of two finished tables in memory: pairs of rows with equal keys.

Equal values of all key columns have one code, so strings are compared once. If there are too many pairs, the
join raises before it makes one. Null equals nothing unless the key is null-safe; NaN equals NaN, 0.0 equals
-0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt.sort_bytes import sortable
from elfmesh.ql.values.columns import float_values, null_mask
from elfmesh.ql.values.types import DOUBLE, VOID

Ints = npt.NDArray[np.int64]


def row_codes(columns: Sequence[pa.Array], null_safe: Sequence[bool], rows: int) -> Ints:
    """Return one code per row, equal for equal key columns; -1 if a column that is not null-safe is null.

    Cost: a hash of each column and a sort of the rows for each column after the first.
    """
    codes = np.zeros(rows, dtype=np.int64)
    lost = np.zeros(rows, dtype=np.bool_)
    for at, (column, safe) in enumerate(zip(columns, null_safe, strict=True)):
        own = _codes(column)
        if not safe:
            lost |= own < 0
        if at == 0:
            codes = own + 1
        else:
            _, codes = np.unique(codes * (own.max(initial=-1) + 2) + own + 1, return_inverse=True)
            codes = codes.astype(np.int64, copy=False)
    return np.where(lost, -1, codes)


def _codes(column: pa.Array) -> Ints:
    """Return a code per distinct value, -1 for null."""
    if column.type == VOID:
        return np.full(len(column), -1, dtype=np.int64)
    plain = sortable(column)
    if column.type == DOUBLE:
        values = float_values(column) + 0.0
        values[np.isnan(values)] = np.nan
        plain = pa.array(values.view(np.int64), pa.int64(), mask=null_mask(column))
    indices = pc.dictionary_encode(plain).indices
    return np.asarray(pc.fill_null(pc.cast(indices, pa.int64()), -1).to_numpy(), dtype=np.int64)


def pair_count(left: Ints, right: Ints) -> int:
    return int(_partners(left, np.sort(right[right >= 0]))[1].sum())


def pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the left and right rows of every pair with equal codes, in the order of the left side."""
    places = np.flatnonzero(right >= 0)
    places = places[np.argsort(right[places], kind="stable")]
    first, counts = _partners(left, right[places])
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    within = np.arange(total, dtype=np.int64) - np.repeat(before, counts)
    return np.repeat(np.arange(len(left), dtype=np.int64), counts), places[np.repeat(first, counts) + within]


def nearest(
    codes: tuple[Ints, Ints], ranks: tuple[Ints, Ints], order: Ints, compare: str
) -> tuple[Ints, Ints]:
    """Return the left rows that have a right row with an equal code, each with the one of the nearest rank.

    Args:
        codes: of the left and the right rows; -1 equals nothing.
        ranks: of their values; -1 is no value, and is never near.
        order: position of each right row among all; of several nearest rows, the first is taken.
        compare: >=, >, <= or <: the relation of the left value to the right one.

    Cost: a sort of the right rows and a search for each left row.
    """
    usable = np.flatnonzero((codes[1] >= 0) & (ranks[1] >= 0))
    usable = usable[np.lexsort((order[usable], ranks[1][usable], codes[1][usable]))]
    width = max(ranks[0].max(initial=-1), ranks[1].max(initial=-1)) + 1
    ordered = codes[1][usable] * width + ranks[1][usable]
    wanted = codes[0] * width + ranks[0]
    at = np.searchsorted(ordered, wanted, "right" if compare in (">=", "<") else "left")
    at -= compare in (">=", ">")
    inside = (at >= 0) & (at < len(usable)) & (codes[0] >= 0) & (ranks[0] >= 0)
    left = np.flatnonzero(inside)
    first = np.searchsorted(ordered, ordered[at[left]], "left")
    right = usable[first]
    same = codes[1][right] == codes[0][left]
    return left[same], right[same]


def value_ranks(values: pa.Array) -> Ints:
    """Return the rank of each value among the distinct ones, -1 for null; NaN is the greatest."""
    codes = _codes(values)
    if codes.max(initial=-1) < 0:
        return codes
    distinct = np.unique(codes[codes >= 0], return_index=True)[1]
    places = np.flatnonzero(codes >= 0)[distinct]
    ordered = pc.sort_indices(values.take(pa.array(places))).to_numpy().astype(np.int64)
    ranks = np.empty(len(places) + 1, dtype=np.int64)
    ranks[ordered] = np.arange(len(places))
    ranks[-1] = -1  # of the code -1
    return ranks[codes]


def canonical_order(columns: Sequence[pa.Array], rows: int) -> Ints:
    """Return the position of each row in the order of its columns, nulls first."""
    ranks = [value_ranks(sortable(column)) for column in columns]
    order = np.empty(rows, dtype=np.int64)
    order[np.lexsort(tuple(reversed(ranks))) if ranks else np.arange(rows)] = np.arange(rows)
    return order


def near_codes(left: Ints, right: Ints, times: tuple[Ints, Ints], width: int) -> tuple[Ints, Ints]:
    """Return codes that are equal for the candidates of rows with equal codes less than `width` apart.

    Each right row occurs three times in a row: row i is at 3 i, 3 i + 1 and 3 i + 2. Its times are
    those of its own slot of this width and of both beside it, so a left row meets it once at most. Cost: a
    sort of the slots.
    """
    slots = times[0] // width
    around = (times[1] // width)[:, None] + np.arange(-1, 2)
    known, numbers = np.unique(np.concatenate([slots, around.ravel()]), return_inverse=True)
    codes = np.concatenate([left, np.repeat(right, 3)])
    found = np.where(codes < 0, -1, codes * len(known) + numbers.reshape(-1))
    return found[: len(left)], found[len(left) :]


def of_interval(
    found: tuple[Ints, Ints], times: tuple[Ints, Ints], width: int, bounds: tuple[int, int]
) -> tuple[Ints, Ints]:
    """Return the rows of a join WITHIN a time that belong to an interval.

    A pair belongs to that of its later row. A left row without a match (-1) belongs to the one that contains
    the last time at which a row could still have matched it.
    """
    left, right = found
    own, start, end = times[0][left], *bounds
    at = np.where(right < 0, own + width - 1, own)
    paired = right >= 0
    at[paired] = np.maximum(own[paired], times[1][right[paired]])
    inside = (at >= start) & (at < end)
    return left[inside], right[inside]


def _partners(left: Ints, ordered: Ints) -> tuple[Ints, Ints]:
    first = np.searchsorted(ordered, left, "left")
    counts = np.searchsorted(ordered, left, "right") - first
    return first, np.where(left >= 0, counts, 0)


def completed(kind: str, found: tuple[Ints, Ints], rows: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return the rows of a join from its pairs and row counts; -1 stands for the nulls of an outer join."""
    left, right = found
    alone = [
        np.flatnonzero(np.bincount(side, minlength=count) == 0)
        for side, count in zip(found, rows, strict=True)
    ]
    if kind == "semi":
        chosen = np.unique(left)
        return chosen, chosen
    if kind == "anti":
        return alone[0], alone[0]
    if kind in ("left", "full"):
        left = np.concatenate([left, alone[0]])
        right = np.concatenate([right, np.full(len(alone[0]), -1)])
    if kind in ("right", "full"):
        left = np.concatenate([left, np.full(len(alone[1]), -1)])
        right = np.concatenate([right, alone[1]])
    return left, right


def taken(column: pa.Array, places: Ints) -> pa.Array:
    """Return the values at these positions; null where the position is -1."""
    missing = places < 0
    return column.take(pa.array(places, mask=missing if missing.any() else None))
