"""Tables as streams of a query: pyarrow tables, data frames that convert to them, and Parquet files.

A table is read in blocks, with the types of its columns, as the results of a job are. A struct that a
query selects as a whole is JSON text, as an object in a log is. The records have no `_raw` and no `_host`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import UsageError
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources.blocks import Block
from elfmesh.local.parquet_input import ParquetTable
from elfmesh.ql import Query, Statement, expand
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.values.row_json import encode_json, rows_to_json

IMPLICIT = ("_raw", "_source", "_host")
BLOCK_ROWS = 65_536
FRAMES = ("__arrow_c_stream__", "__dataframe__")
"""Methods by which a data frame is recognised."""


StreamTable: TypeAlias = pa.Table | ParquetTable


def is_table(value: object) -> bool:
    """Return whether a value is a table, a record batch, a reader of batches or a data frame."""
    return isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or any(
        hasattr(value, name) for name in FRAMES
    )


def table_of(value: Any) -> pa.Table:
    """Return a table or a data frame as a pyarrow table, with nested columns as they are.

    Raises:
        UsageError: it has no table of Arrow.
    """
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    try:
        return value if isinstance(value, pa.Table) else pa.table(value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(f"{type(value).__name__} is no table of Arrow: {error}") from None


def with_columns(statement: Statement, tables: Mapping[str, StreamTable]) -> Statement:
    """Check the columns that a statement reads of tables, and return it with those of `*`.

    Raises:
        QueryError: a table has no such column.
        DataError: as `ParquetTable.check`.
    """
    for stream in statement.streams:
        table = tables.get(stream)
        if table is not None:
            if statement.star:
                statement = expand(statement, table.schema.names, stream)
            Query(statement).check_schema(table.schema, stream)
            if isinstance(table, ParquetTable):
                table.check(statement.fields_of(stream))
    return statement


def table_blocks(
    streams: Iterable[str], tables: Mapping[str, StreamTable], columns: Callable[[str], Sequence[str]]
) -> Iterator[tuple[Parsed, Block, int]]:
    """Yield the rows of the tables of some streams in blocks, with the columns to read of each.

    The number is that of the bytes that were read from files.
    """
    for stream in streams:
        table = tables.get(stream)
        if table is None:
            continue
        wanted = columns(stream)
        for source, batch, nbytes in _batches(stream, table, wanted):
            arrays = {name: _column(batch, name, source) for name in wanted}
            yield (
                Parsed(arrays, batch.num_rows, batch.num_rows, 0, []),
                Block(b"", source, stream=stream),
                nbytes,
            )


def _batches(
    stream: str, table: StreamTable, columns: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch, int]]:
    if isinstance(table, ParquetTable):
        yield from table.batches(columns)
        return
    for batch in table.to_batches(max_chunksize=BLOCK_ROWS):
        yield stream, batch, 0


def _column(batch: pa.RecordBatch, path: str, source: str) -> pa.Array:
    """Return a column, a field of a struct or a value of a map; null for what it lacks."""
    if path in batch.schema.names:
        return _read(batch.column(path))
    if path in IMPLICIT:
        return pa.repeat(pa.scalar(source if path == "_source" else None, pa.string()), batch.num_rows)
    name, _, rest = path.partition(".")
    found: Any = batch.column(name) if name in batch.schema.names else None
    while rest and found is not None:
        name, _, rest = rest.partition(".")
        found = _inside(found, name)
    return pa.nulls(batch.num_rows) if found is None else _read(found)


def _inside(column: pa.Array, name: str) -> pa.Array | None:
    """Return a field of a struct, or the value of a key of a map; None if the type has none."""
    if pa.types.is_struct(column.type):
        at = column.type.get_field_index(name)
        return column.flatten()[at] if at >= 0 else None
    if pa.types.is_map(column.type) and pa.types.is_string(column.type.key_type):
        return pc.map_lookup(column, query_key=pa.scalar(name), occurrence="last")
    return None


def _read(column: pa.Array) -> pa.Array:
    """Return a column with its ELF-QL type; a struct as JSON text, as the format json reads an object."""
    if not pa.types.is_struct(column.type):
        return read_column(column)
    values = (row["w"] for row in rows_to_json(pa.table({"w": column})))
    return pa.array([None if value is None else encode_json(value).decode() for value in values], pa.string())
