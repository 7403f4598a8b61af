"""Last step of a large interval, block by block: the same rows as `finalise` in the memory of one block.

Distinct values are counted block by block. A query without such counts is finished block by block; with LIMIT
only the best rows are kept in memory. Two kinds of tables are processed as a whole: those whose blocks have
different types, and those with folds, because a fold needs all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from elfmesh.cbt.nested import is_nested_key
from elfmesh.errors import ResultTooLarge
from elfmesh.ql.engine.finalise import DISTINCT_ROWS, NO_SCALARS, Finaliser, Finished, Scalars
from elfmesh.ql.plan.statement import MAIN
from elfmesh.ql.values.columns import as_array

PART_ROWS_MIN = 1 << 17
"""Rows up to which a table is processed as a whole, because that is faster and needs only a few MB."""

PART_BYTES_MIN = 8 << 20
"""Bytes up to which a table is processed as a whole, because single values may be long."""

HELD_ROWS_MAX = 1 << 17
"""Rows of counts, or of the best rows, that are collected before they are reduced."""


class Reduced(Protocol):
    """Reduced rows of one table: key columns and finished aggregate columns, each key once."""

    @property
    def rows_max(self) -> int: ...

    def blocks(self) -> Iterator[pa.Table]:
        """Yield all rows in blocks; may be called several times."""
        ...


def finalise_parts(
    finaliser: Finaliser,
    tables: Mapping[str, Reduced],
    window: tuple[int, int] | None,
    part_rows_min: int = PART_ROWS_MIN,
    scalars: Scalars = NO_SCALARS,
    bytes_max: int | None = None,
) -> pa.Table:
    """Return the result rows of one interval, as `Query.finalise`.

    Raises DataError above `bytes_max` in memory.
    """
    statement = finaliser.statement
    plan, keys = statement.plan, statement.tables[0].keys
    main = tables.get(MAIN)
    small = {name: _small(table, part_rows_min) for name, table in tables.items()}
    if main is not None and not plan.distincts and small[MAIN] is None:
        found = _by_parts(finaliser, main.blocks(), window, scalars, bytes_max)
        if found is not None:
            return found
    values = {MAIN, *(fold.table for fold in plan.folds)}
    whole: dict[str, pa.Table] = {}
    for name, table in tables.items():
        blocks: Iterable[pa.Table] | None = small[name]
        if blocks is None:
            blocks = table.blocks() if name in values else [_counted(table.blocks(), keys)]
        blocks = [block for block in blocks if block.num_rows]
        if blocks:
            whole[name] = blocks[0] if len(blocks) == 1 else _concatenated(blocks)
    return finaliser.finalise(whole, window, scalars)


def _small(table: Reduced, part_rows_min: int) -> list[pa.Table] | None:
    """Return the blocks of a table that is processed as a whole; None if it has too many rows or bytes."""
    if table.rows_max > part_rows_min:
        return None
    held, size = [], 0
    for block in table.blocks():
        held.append(block)
        size += block.nbytes
        if size > PART_BYTES_MIN:
            return None
    return held


def _concatenated(blocks: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(list(blocks), promote_options="permissive").combine_chunks()


def _counted(blocks: Iterable[pa.Table], keys: tuple[str, ...]) -> pa.Table:
    held = [_rows_per_key(pa.table({key: pa.nulls(0) for key in keys}), keys)]
    rows = 0
    for block in blocks:
        held.append(_rows_per_key(block, keys))
        rows += held[-1].num_rows
        if rows > HELD_ROWS_MAX:
            held = [_summed(held, keys)]
            # The next sum waits for as many rows as this one left, because it must not cost more than it
            # gains.
            rows = -held[0].num_rows
    return _summed(held, keys)


def _rows_per_key(block: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    if not keys:
        return pa.table({DISTINCT_ROWS: pa.array([block.num_rows], pa.int64())})
    counts = _as_bytes(block, keys).group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
    return _as_keys(counts.rename_columns([*keys, DISTINCT_ROWS]), block)


def _summed(held: list[pa.Table], keys: tuple[str, ...]) -> pa.Table:
    whole = _concatenated(held)
    if not keys:
        total = sum(whole.column(DISTINCT_ROWS).to_pylist())
        return pa.table({DISTINCT_ROWS: pa.array([total], pa.int64())})
    groups = _as_bytes(whole, keys).group_by(list(keys), use_threads=False)
    return _as_keys(groups.aggregate([(DISTINCT_ROWS, "sum")]).rename_columns([*keys, DISTINCT_ROWS]), whole)


def _as_bytes(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return a table with the bytes of nested keys, by which Arrow can group."""
    for at, name in enumerate(table.column_names):
        if name in keys and is_nested_key(table.schema.field(at).type):
            column = table.column(at)
            table = table.set_column(at, name, as_array(column, len(column)).storage)
    return table


def _as_keys(table: pa.Table, like: pa.Table) -> pa.Table:
    """Return a table with the nested keys of another table, of which it has the bytes."""
    for at, name in enumerate(table.column_names):
        if name in like.column_names and is_nested_key(kind := like.schema.field(name).type):
            column = table.column(at)
            keys = pa.ExtensionArray.from_storage(kind, as_array(column, len(column)))
            table = table.set_column(at, name, keys)
    return table


def _by_parts(
    finaliser: Finaliser,
    blocks: Iterable[pa.Table],
    window: tuple[int, int] | None,
    scalars: Scalars,
    bytes_max: int | None,
) -> pa.Table | None:
    plan = finaliser.statement.plan
    held: list[Finished] = []
    rows = size = 0
    for block in blocks:
        if not block.num_rows:
            continue
        held.append(finaliser.finished({MAIN: block}, window, scalars))
        size += sum(array.nbytes for array in held[-1].outputs.values())
        if bytes_max is not None and size > bytes_max and plan.limit is None:
            raise ResultTooLarge(size, bytes_max)
        if held[-1].kinds != held[0].kinds:
            return None
        rows += held[-1].rows
        if plan.limit is not None and rows > max(HELD_ROWS_MAX, 2 * plan.limit):
            held = [together.take(finaliser.best_rows(together)) for together in [_together(held)]]
            rows = held[0].rows
    return finaliser.result(_together(held)) if held else None


def _together(held: list[Finished]) -> Finished:
    """Combine the rows and empty the list, so that no row is held twice for long."""
    if len(held) == 1:
        return held.pop()
    made: dict[tuple[int, ...], pa.Array] = {}

    def joined(arrays: Iterable[pa.Array]) -> pa.Array:
        parts = list(arrays)
        which = tuple(map(id, parts))  # the order columns are usually output columns too
        if which not in made:
            chunks = pa.chunked_array(parts)
            made[which] = as_array(chunks, len(chunks))
        return made[which]

    found = Finished(
        {name: joined(each.outputs[name] for each in held) for name in held[0].outputs},
        [joined(column) for column in zip(*(each.order for each in held), strict=True)],
        None if held[0].repeat is None else np.concatenate([each.repeat for each in held]),
        held[0].kinds,
    )
    held.clear()
    return found
