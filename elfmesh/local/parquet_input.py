"""Parquet files as the table of a stream, for `elf run`: blocks of rows with the columns that a query reads.

Owns how the files are recognised, and what is wrong with them. A block is decoded when it is read, so memory
does not grow with a file. All files of a stream have the columns that the query reads, with the same types.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from elfmesh.errors import DataError, UsageError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.formats import AUTO
from elfmesh.ingest.parsers.sniff import PARQUET_MAGIC
from elfmesh.ingest.sources.blocks import check_readable
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.columns import list_cuts
from elfmesh.ql.values.types import VOID, canonical, type_name

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = lazy_module("pyarrow.parquet")

PARQUET = "parquet"
"""Name of the format where the formats of files are shown."""

SUFFIX = ".parquet"
_ENCRYPTED = b"PARE"
_MAGIC_BYTES = len(PARQUET_MAGIC)

BUFFER_BYTES = 1 << 20
"""Bytes of a column that are read at a time, because a row group may be larger than the memory."""

FOOTERS_MAX = 64
"""Most footers that are kept, because that of a file with many columns and row groups is large."""

BLOCK_ROWS, BLOCK_BYTES = 65_536, 16 << 20
"""Most rows of a block, and most bytes of it if the rows of a row group are of equal size."""


class ParquetTable:
    """The files of one stream.

    Args:
        paths: Parquet files.

    Raises:
        DataError: a file is empty, cut off, damaged or encrypted, or has two columns of one name.
        RuntimeFailure: a file is missing or unreadable.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._schemas = {path: _schema_of(path) for path in paths}

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of all files; the type is that of the first file that has the column."""
        fields: dict[str, pa.Field] = {}
        for schema in self._schemas.values():
            for field in schema:
                fields.setdefault(field.name, field)
        return pa.schema([*fields.values()])

    def check(self, columns: Iterable[str]) -> None:
        """Check the columns that a query reads.

        Raises:
            DataError: ELF-QL lacks the type of a column, or two files differ in one.
        """
        known = self.schema
        for column in columns:
            first: tuple[str, pa.DataType | None] | None = None
            for path, schema in self._schemas.items():
                found = _place(schema, column)
                kind = None if found is None else _checked(column, found[1], path)
                if kind == VOID:
                    continue
                if first is None:
                    first = path, kind
                elif kind != first[1] and _place(known, column) is not None:
                    raise _different(column, first, (path, kind))

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch, int]]:
        """Yield the path, some rows with the parts of the file that contain `columns`, and the bytes read.

        Raises:
            DataError: a file is damaged.
        """
        for path, schema in self._schemas.items():
            places = [_place(schema, column) for column in columns]
            wanted = list(dict.fromkeys(place[0] for place in places if place is not None))
            with _faults(path), _opened(path) as file:
                size, rows = Path(path).stat().st_size, max(file.metadata.num_rows, 1)
                for group in range(file.num_row_groups):
                    for batch in file.iter_batches(_rows(file, group), [group], wanted):
                        batch.validate(full=True)  # texts may not be UTF-8
                        yield path, _with_texts(batch), size * batch.num_rows // rows


def parquet_tables(logs: Mapping[str, tuple[Sequence[str], StreamFormat]]) -> dict[str, ParquetTable]:
    """Return the tables of the streams whose files are Parquet files.

    Raises:
        DataError: as `ParquetTable`; or some files of a stream are Parquet files and others are not.
        UsageError: the stream has settings that are for lines.
    """
    found = {}
    for stream, (paths, formats) in logs.items():
        if formats.name == AUTO and _are_parquet(paths):
            if formats.reads_lines:
                hint = "Name the time column in the query, as in TUMBLE(my_time, INTERVAL '1' HOUR)."
                raise UsageError(f"--ts and --multiline are for lines; {paths[0]} has columns", hint=hint)
            found[stream] = ParquetTable(paths)
    return found


def _are_parquet(paths: Sequence[str]) -> bool:
    """Decide by the first file, because a run that ends early opens no other log."""
    if not paths or not _is_parquet(paths[0]):
        if paths and paths[0].endswith(SUFFIX) and Path(paths[0]).is_file():
            raise _foreign(paths[0])
        return False
    for path in paths[1:]:
        check_readable(path)
        if not _is_parquet(path):
            raise _foreign(path) if path.endswith(SUFFIX) else _mixed(path, paths[0])
    return True


def _is_parquet(path: str) -> bool:
    if not Path(path).is_file():
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAGIC_BYTES) in (PARQUET_MAGIC, _ENCRYPTED)
    except OSError:  # reported when it is read
        return False


def _schema_of(path: str) -> pa.Schema:
    with _faults(path), _opened(path) as file:
        schema = pa.schema([field.with_type(_without_uuids(field.type)) for field in file.schema_arrow])
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise DataError(f"has several columns named {name}", where=path, hint="Rename them in the file.")
    return schema


def _opened(path: str) -> pq.ParquetFile:
    about = Path(path).stat()
    footer = _footer(path, about.st_ino, about.st_size, about.st_mtime_ns)
    # With pre_buffer, all of a row group would be in memory.
    return pq.ParquetFile(
        path, metadata=footer, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
    )


@lru_cache(maxsize=FOOTERS_MAX)
def _footer(path: str, _inode: int, _size: int, _changed_ns: int) -> pq.FileMetaData:
    """Return the footer of a file, which is read once: for its columns, and for each pass over its rows."""
    return pq.read_metadata(path)


def _without_uuids(kind: pa.DataType) -> pa.DataType:
    """Return a type with STRING in place of UUID, also in lists and structs."""
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_uuids(field.type)) for field in kind])
    return pa.list_(_without_uuids(kind.value_type)) if pa.types.is_list(kind) else kind


def _with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with each UUID as its canonical text, 8-4-4-4-12 digits."""
    for at, field in enumerate(batch.schema):
        if _without_uuids(field.type) != field.type:
            batch = batch.set_column(at, field.name, _as_text(batch.column(at)))
    return batch


def _as_text(array: pa.Array) -> pa.Array:
    kind = _without_uuids(array.type)
    if kind == array.type:  # another field of a struct
        return array
    if isinstance(array.type, pa.UuidType):
        return pa.array([None if each is None else str(each) for each in array.to_pylist()], kind)
    mask = array.is_null()
    if pa.types.is_struct(array.type):
        parts = [_as_text(array.field(at)) for at in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in kind], mask=mask)
    return pa.ListArray.from_arrays(list_cuts(array), _as_text(array.flatten()), mask=mask)


@contextlib.contextmanager
def _faults(path: str) -> Iterator[None]:
    """Convert the errors of Arrow, whose messages have several lines and name no file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
        raise _fault(path, str(error)) from None


def _fault(path: str, text: str) -> DataError:
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MAGIC_BYTES))
        end = file.read()
    if end == _ENCRYPTED or "decrypt" in text.lower():
        hint = "Decrypt it with the program that has its keys."
        return DataError("is an encrypted Parquet file, which elfmesh cannot read", where=path, hint=hint)
    if end != PARQUET_MAGIC:
        hint = "Wait until its writer has closed it, or copy it again."
        return DataError("is a Parquet file without its end", where=path, hint=hint)
    why = text.partition("\n")[0]
    return DataError(f"is a damaged Parquet file: {why}", where=path, hint="Copy it again, or leave it out.")


def _foreign(path: str) -> DataError:
    if not Path(path).stat().st_size:
        hint = "Wait until its writer has closed it, or leave it out."
        return DataError("is empty, and no Parquet file", where=path, hint=hint)
    hint = "Name its format, as in --format json."
    return DataError("is no Parquet file, although it is named like one", where=path, hint=hint)


def _mixed(path: str, first: str) -> DataError:
    hint = "Assign them to two streams: --stream a=... --stream b=..., and combine these with UNION ALL."
    return DataError(f"is no Parquet file, and {first} is one", where=path, hint=hint)


def _place(schema: pa.Schema, column: str) -> tuple[str, pa.DataType] | None:
    """Return what a file has of a column of a query, a column or a field of structs, and its type."""
    if column in schema.names:
        return column, schema.field(column).type
    name, _, rest = column.partition(".")
    if name not in schema.names:
        return None
    read, kind = name, schema.field(name).type
    while rest and pa.types.is_struct(kind):
        name, _, rest = rest.partition(".")
        at = kind.get_field_index(name)
        if at < 0:
            return None
        read, kind = f"{read}.{name}", kind.field(at).type
    return read, kind


def _checked(column: str, given: pa.DataType, path: str) -> pa.DataType:
    kind = canonical(given)
    if kind is None:
        hint = f"Leave it out, as in SELECT * EXCEPT ({column}), or write the file with another type."
        raise DataError(f"column {column} has the type {given}, which ELF-QL lacks", where=path, hint=hint)
    return kind


def _different(
    column: str, one: tuple[str, pa.DataType | None], other: tuple[str, pa.DataType | None]
) -> DataError:
    (path, kind), (beside, had) = other, one
    hint = "Assign the files to several streams with --stream, and combine these with UNION ALL and CAST."
    if kind is None:
        return DataError(f"has no column {column}, which {beside} has", where=path, hint=hint)
    if had is None:
        return DataError(f"has no column {column}, which {path} has", where=beside, hint=hint)
    names = f"{type_name(kind)}, and {type_name(had)} in {beside}"
    return DataError(f"column {column} has the type {names}", where=path, hint=hint)


def _rows(file: pq.ParquetFile, group: int) -> int:
    """Return the most rows of a block of a row group."""
    about = file.metadata.row_group(group)
    row_bytes = int(about.total_byte_size // max(about.num_rows, 1))
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(row_bytes, 1)))
