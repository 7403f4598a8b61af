"""Folds over the distinct values of a group, in the last step: sums, percentiles, the most frequent value.

A fold reads a table with one row per group and value, with the value's count if needed. The results are exact
and cost one row per distinct value. Spark's `percentile` holds the same values in a hash map per group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from elfmesh.arrow_kernels import pc
from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.sort_bytes import sortable
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.plan.statement import COUNT_COLUMN, Fold
from elfmesh.ql.values.columns import float_values, int_values
from elfmesh.ql.values.types import BIGINT, DOUBLE, VOID

Ints = npt.NDArray[np.int64]


class _Values(Struct, frozen=True):
    """Distinct values without nulls: their positive counts, and the result row of each."""

    values: pa.Array
    counts: Ints
    owners: Ints
    rows: int


def folded(
    fold: Fold, main: Mapping[str, pa.Array], keys: tuple[str, ...], rows: int, table: pa.Table | None
) -> pa.Array:
    """Return one value per row of the main table; `table` has keys, x and counts (None: no values).

    Cost: one hash aggregation over both tables' keys, and a sort of the values.
    """
    if table is None or table.num_rows == 0 or rows == 0:
        return pa.nulls(rows)
    counted = COUNT_COLUMN in table.column_names
    counts = table.column(COUNT_COLUMN).to_numpy() if counted else np.ones(table.num_rows, np.int64)
    given = _Values(read_column(table.column("x")), counts, owners_of(main, keys, rows, table), rows)
    if given.values.type == VOID:
        return pa.nulls(rows)
    return _FOLDS[fold.how](given, fold.ranks)


def joined_keys(
    main: Mapping[str, pa.Array], keys: tuple[str, ...], table: pa.Table
) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Return the keys of the main table followed by those of the other table, lists by their sort keys."""
    joined: dict[str, pa.ChunkedArray | pa.Array] = {}
    for key in keys:
        ours, theirs = read_column(main[key]), read_column(table.column(key))
        if ours.type != theirs.type:  # a table without rows to count may have a narrower type
            theirs = pc.cast(theirs, ours.type)
        joined[key] = sortable(pa.concat_arrays([ours, theirs]))
    return joined


def owners_of(main: Mapping[str, pa.Array], keys: tuple[str, ...], rows: int, table: pa.Table) -> Ints:
    """Return int64 per row of a table: the row of the main table with the same keys."""
    count = table.num_rows
    if not keys:
        return np.zeros(count, np.int64)
    row = np.concatenate([np.arange(rows), np.full(count, -1)])
    at = np.concatenate([np.full(rows, -1), np.arange(count)])
    joined = joined_keys(main, keys, table)
    groups = pa.table({**joined, "row": row, "at": at}).group_by(list(keys), use_threads=False)
    found = groups.aggregate([("row", "max"), ("at", "list")])
    lists = found.column("at_list").combine_chunks()
    places = lists.flatten().to_numpy()
    of = np.repeat(found.column("row_max").to_numpy(), lists.value_lengths().to_numpy())
    owners = np.zeros(count, np.int64)
    owners[places[places >= 0]] = of[places >= 0]
    return owners


def _sum(given: _Values, _ranks: tuple[float, ...]) -> pa.Array:
    law = LAWS["sum"]
    return law.finish(law.lift(normalise(given.values, "x"), given.owners, given.rows), given.rows)


def _percentiles(
    given: _Values, ranks: tuple[float, ...], place: Callable[[Ints, float], object], falling: bool
) -> list[npt.NDArray[np.float64]]:
    values = float_values(
        given.values if given.values.type == DOUBLE else pc.cast(given.values, DOUBLE, safe=False)
    )
    order = np.lexsort((values, given.owners))
    values, reached = values[order], np.cumsum(given.counts[order])
    totals = np.bincount(given.owners, given.counts, given.rows).astype(np.int64)
    before = np.cumsum(totals) - totals

    def at(places: Ints) -> npt.NDArray[np.float64]:
        if falling:
            places = np.maximum(totals - 1 - places, 0)
        inside = np.minimum(np.searchsorted(reached, before + places, side="right"), len(values) - 1)
        return np.asarray(values[inside])

    out = []
    for rank in ranks:
        position = np.asarray(place(totals, rank), dtype=np.float64)
        low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        least, most = at(np.maximum(low, 0)), at(np.maximum(high, 0))
        with np.errstate(invalid="ignore"):
            between = least + (position - low) * (most - least)
        out.append(np.where((low == high) | (least == most), least, between))
    return out


def _between(totals: Ints, rank: float) -> object:
    return (totals - 1) * rank


def _reached(totals: Ints, rank: float) -> object:
    return np.maximum(np.ceil(totals * rank) - 1, 0)


def _percentile(
    place: Callable[[Ints, float], object], *, several: bool = False, falling: bool = False
) -> Callable[[_Values, tuple[float, ...]], pa.Array]:
    def fold(given: _Values, ranks: tuple[float, ...]) -> pa.Array:
        missing = np.bincount(given.owners, minlength=given.rows) == 0
        columns = _percentiles(given, ranks, place, falling)
        if not several:
            return pa.array(columns[0], DOUBLE, mask=missing)
        flat = pa.array(np.stack(columns, axis=1).reshape(-1), DOUBLE)
        cuts = pa.array(np.arange(given.rows + 1, dtype=np.int32) * len(ranks))
        lists = pa.ListArray.from_arrays(cuts, flat)
        return pc.if_else(pa.array(missing), pa.scalar(None, lists.type), lists) if missing.any() else lists

    return fold


def _mode(given: _Values, _ranks: tuple[float, ...]) -> pa.Array:
    ranked = pa.table({"owner": given.owners, "count": given.counts, "value": sortable(given.values)})
    ways = [("owner", "ascending"), ("count", "descending"), ("value", "ascending")]
    order = pc.sort_indices(ranked, sort_keys=ways).to_numpy()
    owners = given.owners[order]
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    place = np.full(given.rows, -1, np.int64)
    place[owners[firsts]] = order[firsts]
    return given.values.take(pa.array(place, mask=place < 0))


def _bits(step: np.ufunc, *, odd: bool = False) -> Callable[[_Values, tuple[float, ...]], pa.Array]:
    """Combine the bits of all values; if `odd`, of those with an odd count."""

    def fold(given: _Values, _ranks: tuple[float, ...]) -> pa.Array:
        found = np.full(given.rows, -1 if step is np.bitwise_and else 0, np.int64)
        chosen = given.counts % 2 == 1 if odd else np.ones(len(given.owners), bool)
        step.at(found, given.owners[chosen], int_values(given.values)[chosen])
        return pa.array(found, BIGINT, mask=np.bincount(given.owners, minlength=given.rows) == 0)

    return fold


_FOLDS: dict[str, Callable[[_Values, tuple[float, ...]], pa.Array]] = {
    "sum": _sum, "mode": _mode,
    **{
        f"{name}{distinct}": _bits(step, odd=name == "bit_xor" and not distinct)
        for name, step in (
            ("bit_and", np.bitwise_and), ("bit_or", np.bitwise_or), ("bit_xor", np.bitwise_xor),
        )
        for distinct in ("", " distinct")
    },
    "percentile": _percentile(_between), "percentiles": _percentile(_between, several=True),
    "percentile falling": _percentile(_between, falling=True),
    "percentile_disc": _percentile(_reached), "percentile_disc falling": _percentile(_reached, falling=True),
}  # fmt: skip
