"""Writes rows to one Parquet file, which appears only when it is whole (`-o parquet --output FILE`).

The types of a column can differ between blocks of rows: a JSON field that is an integer in the first block
can be a fraction in a later one. A Parquet file has one type per column. Therefore the rows are first written
to an unnamed temporary file in the same directory, and converted when all types are known.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from elfmesh.control.jobs.spark_types import type_name
from elfmesh.errors import DataError, RuntimeFailure, StorageError
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.whole import whole_file

GROUP_ROWS = 100_000
"""Number of rows from which on a row group is complete: intervals of few rows share one."""


class ParquetRows:
    """The rows of one file.

    Args:
        path: the file, for messages.
        held: temporary file that receives the rows.
    """

    def __init__(self, path: Path, held: BinaryIO) -> None:
        self._path = path
        self._held = held
        self._schemas: list[pa.Schema] = []
        self._stream: Any = None

    def write(self, table: pa.Table) -> None:
        """Add rows. Raises RuntimeFailure if the disk is full."""
        with _named(self._path):
            schema = table.schema.remove_metadata()
            if self._stream is None or schema != self._schemas[-1]:
                self._end_stream()
                self._schemas.append(schema)
                self._stream = pa.ipc.new_stream(self._held, schema)
            self._stream.write_table(table.replace_schema_metadata(None))

    def convert(self) -> None:
        """Write the Parquet file.

        Raises:
            DataError: a column has values of types that no type contains.
            RuntimeFailure: the file cannot be written.
        """
        schema = _common(self._schemas)
        with _named(self._path):
            self._end_stream()
            self._held.seek(0)
            with whole_file(self._path) as file, pq.ParquetWriter(file, schema) as writer:
                for table in _grouped(self._tables(schema)):
                    writer.write_table(table)

    def _tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        for _ in self._schemas:
            with pa.ipc.open_stream(self._held) as reader:
                for batch in reader:
                    table = pa.Table.from_batches([batch])
                    missing = [name for name in schema.names if name not in table.column_names]
                    for name in missing:
                        table = table.append_column(name, pa.nulls(table.num_rows, schema.field(name).type))
                    yield _cast(table.select(schema.names), schema)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


@contextlib.contextmanager
def parquet_file(path: Path) -> Iterator[ParquetRows]:
    """Yield the rows of a file, which is written when the block ends without an error.

    Raises:
        RuntimeFailure: the file cannot be written; a file of this name is then as before.
        DataError: a column has values of types that no type contains.
    """
    if path.exists() and not path.is_file():
        raise RuntimeFailure(f"{path}: is not a regular file", hint="--output names a Parquet file.")
    with contextlib.ExitStack() as stack:
        with _named(path):
            held = stack.enter_context(tempfile.TemporaryFile(dir=path.parent))
        rows = ParquetRows(path, held)
        yield rows
        rows.convert()
        with contextlib.suppress(OSError):  # the Parquet file has all rows; this one gives its space back
            held.truncate(0)


def table_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return objects of JSON as a table; objects in a column, and values of several types, are JSON text."""
    cells = [[row.get(name) for row in rows] for name in columns]
    return pa.table(dict(zip(columns, map(_array, cells), strict=True)))


def _array(values: list[Any]) -> pa.Array:
    if not any(map(_has_object, values)):
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array(values)
    return pa.array([None if each is None else encode_json(each).decode() for each in values], pa.string())


def _has_object(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_object, value)))


def _common(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema that contains all values; a column without any value is text."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            had = types.get(field.name, field.type)
            try:
                pair = [pa.schema([(field.name, kind)]) for kind in (had, field.type)]
                types[field.name] = pa.unify_schemas(pair, promote_options="permissive").field(0).type
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise _several_types(field.name, had, field.type) from None
    texts = {name: pa.string() for name, kind in types.items() if pa.types.is_null(kind)}
    return pa.schema([*(types | texts).items()])


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert rows to a schema; refuses values that its types do not contain, as integers over 2^53."""
    columns = []
    for field in schema:
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowInvalid:
            raise _several_types(field.name, column.type, field.type) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _several_types(name: str, one: pa.DataType, other: pa.DataType) -> DataError:
    kinds = f"{type_name(one)} and {type_name(other)}"
    hint = f"Write CAST({name} AS STRING) in the query."
    return DataError(f"{name} has values of the types {kinds}; a Parquet column has one", hint=hint)


def _grouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(each.num_rows for each in held) >= GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuntimeFailure(f"{path}: cannot be written: {error.strerror or error}") from None
    except StorageError as error:
        raise RuntimeFailure(f"{path}: cannot be written: {error.message}") from None
