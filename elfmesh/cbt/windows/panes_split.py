"""Splitting of a batch by pane without grouping, and checks of its keys; rows of a pane keep their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, is_bytes
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX
from elfmesh.cbt.keys import KeyForm, encode

FEW_PANES_MAX = 8
"""Maximum number of panes of a batch for which it is split by a mask per pane; beyond, it is sorted."""

_TOGETHER_BYTES_MAX = KEY_BYTES_MAX // 16
"""Bytes of all strings of a column below which their lengths need not be checked one by one."""

_FIXED_BYTES_MAX = 17
"""Widest key column that is not a string, with its marker."""

Columns = Mapping[str, pa.Array]


def split_by_pane(
    columns: Columns, indices: np.ndarray, runs: Mapping[int, int] | None = None
) -> list[tuple[int, Columns, int]]:
    """Return (pane, its columns, its rows), panes ascending; `runs` if rows are known to be in that order.

    Cost: nothing for one pane, slices if panes ascend; a filter per pane for few; else a stable sort.
    """
    if indices.strides == (0,):  # a broadcast array has one pane
        return [(int(indices[0]), columns, len(indices))]
    if runs is not None:
        return _cut(columns, list(runs), [0, *accumulate(runs.values())])
    steps = np.diff(indices)
    if not steps.any():
        return [(int(indices[0]), columns, len(indices))]
    if (steps >= 0).all():
        return _sliced(columns, indices, steps)
    panes = np.unique(indices)
    if len(panes) <= FEW_PANES_MAX:
        return [_filtered(columns, indices, int(pane)) for pane in panes]
    order = np.argsort(indices, kind="stable")
    places, ordered = pa.array(order), indices[order]
    return _sliced({name: column.take(places) for name, column in columns.items()}, ordered, np.diff(ordered))


def _filtered(columns: Columns, indices: np.ndarray, pane: int) -> tuple[int, Columns, int]:
    inside = indices == pane
    mask = pa.array(inside)
    return pane, {name: column.filter(mask) for name, column in columns.items()}, int(inside.sum())


def _sliced(columns: Columns, indices: np.ndarray, steps: np.ndarray) -> list[tuple[int, Columns, int]]:
    cuts = [0, *(np.flatnonzero(steps) + 1).tolist(), len(indices)]
    return _cut(columns, indices[cuts[:-1]].tolist(), cuts)


def _cut(columns: Columns, panes: Sequence[int], cuts: Sequence[int]) -> list[tuple[int, Columns, int]]:
    return [
        (pane, {name: column.slice(start, stop - start) for name, column in columns.items()}, stop - start)
        for pane, (start, stop) in zip(panes, pairwise(cuts), strict=True)
    ]


def check_key_lengths(columns: Sequence[pa.Array], rows: int) -> None:
    """Raise KeyTooLong for keys that are too long in their longest form, with markers for null."""
    longest = 0
    for place, column in enumerate(columns):
        if not is_bytes(column.type):
            longest += _FIXED_BYTES_MAX
            continue
        offsets = byte_layout(column)[0]
        most = int(offsets[-1]) - int(offsets[0])  # of all together, which is often sufficient
        if most > _TOGETHER_BYTES_MAX:
            most = int(np.diff(offsets).max())
        # In all columns except the last, each byte may take two, and a terminator of two follows.
        longest += 1 + (most if place == len(columns) - 1 else 2 * most + 2)
    if longest > KEY_BYTES_MAX:
        form = KeyForm(tuple(column.type for column in columns), (True,) * len(columns))
        encode(columns, form, rows)
