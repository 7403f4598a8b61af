"""Insertion of records into panes: the rows of a record go into all tables of the query, or into none.

A malicious line affects only itself: a record with a key or value that no tree accepts is dropped and
counted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.cbt import Panes
from elfmesh.cbt.columns import normalise
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX
from elfmesh.cbt.keys import KeyTooLong
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.windows.panes_split import check_key_lengths
from elfmesh.ingest.parsers.base import sample
from elfmesh.ql import Prepared, Query, TableSpec
from elfmesh.ql.engine.block import BlockRows

Ints = npt.NDArray[np.int64]


def insert(
    query: Query,
    panes: Panes,
    records: BlockRows,
    note: Callable[[str], None],
    stream: str | None = None,
    pane: int | None = None,
) -> tuple[Prepared, int]:
    """Evaluate a query over some records, none too late for its pane, and insert the rows.

    `note` receives a reason when a record is dropped. All records go to `pane` (None: by their times).
    Returns the inserted rows, and how many records were dropped besides those for which a Python function
    failed. If a key is too long, the work before it is repeated.

    Raises, with nothing inserted:
        DataError, QueryError: Types do not fit.
        StorageError: Spilled data that a change of types must encode again cannot be read.
    """
    first = prepared = query.prepare(records, stream)
    while True:
        try:
            panes.insert_all(batches_of(prepared, pane), prepared.runs if pane is None else None)
            break
        except KeyTooLong:
            hostile = _too_long(query.statement.tables, prepared, note)
            if not len(hostile):
                raise
            prepared = query.prepare(prepared.records.without(hostile), stream)
    if prepared is first:
        return first, 0
    done = replace(prepared, filtered=first.filtered, failed=first.failed)
    return done, first.passed - prepared.passed


def batches_of(prepared: Prepared, pane: int | None = None) -> dict[str, tuple[Ints, pa.RecordBatch]]:
    """Return each table's rows with their panes: all in pane 0 without a window, or in the given one."""
    batches = {}
    for name, rows in prepared.tables.items():
        panes = prepared.panes.get(name) if pane is None else None
        places = np.broadcast_to(np.int64(pane or 0), (rows.num_rows,)) if panes is None else panes
        batches[name] = (places, rows)
    return batches


def _too_long(tables: tuple[TableSpec, ...], prepared: Prepared, note: Callable[[str], None]) -> Ints:
    found: set[int] = set()
    for table in tables:
        rows = prepared.tables.get(table.name)
        if rows is None:  # the table belongs to another stream
            continue
        columns = [normalise(rows.column(key), key) for key in table.keys]
        try:
            check_key_lengths(columns, rows.num_rows)
        except KeyTooLong as error:
            places = prepared.places[table.name]
            found.update((error.rows if places is None else places[error.rows]).tolist())
            text = " ".join(str(column[int(error.rows[0])]) for column in columns)
            note(sample(f"the group-by key is longer than {KEY_BYTES_MAX} bytes", text))
        for name, (kind, column) in table.aggregates.items():
            if not isinstance(column, str):
                continue
            values = normalise(rows.column(column), column)
            try:
                LAWS[kind].value_type(values, name)
            except KeyTooLong as error:
                places = prepared.places[table.name]
                found.update((error.rows if places is None else places[error.rows]).tolist())
                note(sample(error.message, str(values[int(error.rows[0])])))
    return np.array(sorted(found), np.int64)
