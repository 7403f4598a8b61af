"""The rows of a result as an Arrow IPC stream, and the check of streams that a peer has sent.

A stream must not expand to more memory than its bytes. The check refuses compressed buffers, types whose
values need fewer bytes than in the table (dictionaries, runs, unions, views), and more rows than there are
bits. Agents write none of these.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING

import zstandard

from elfmesh.errors import ProtocolError
from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


_I32, _U16 = struct.Struct("<i"), struct.Struct("<H")
_HEADER, _COMPRESSION = 2, 3
"""Positions of fields in the tables Message and RecordBatch of Arrow's Message.fbs."""


def table_to_ipc(table: pa.Table) -> bytes:
    """Return the rows of a result as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_write_options()) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@cache
def _write_options() -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions()


def ipc_to_table(data: bytes) -> pa.Table:
    """Return the rows of one Arrow IPC stream; b"" is a table without columns.

    Raises:
        ProtocolError: the data is no Arrow IPC stream, has inconsistent buffers, or is compressed
            (`check_plain`).
    """
    if not data:
        return pa.table({})
    try:
        check_plain(data)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ProtocolError(f"malformed Arrow stream: {error}") from None
    return table


def ipc_schema(data: bytes) -> pa.Schema:
    """Return the schema of an Arrow IPC stream. Cost: its first message.

    Raises:
        ProtocolError: the data is no Arrow IPC stream.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ProtocolError(f"malformed Arrow stream: {error}") from None


def unfold(data: bytes, bytes_max: int) -> bytes:
    """Decompress a zstandard frame whose header must declare at most `bytes_max` bytes."""
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= bytes_max:
            raise ProtocolError(f"a frame that unfolds to {size} bytes; {bytes_max} are allowed")
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise ProtocolError(f"malformed zstandard frame: {error}") from None


def check_plain(data: bytes) -> None:
    """Raise `ProtocolError` unless the stream is as large as its content.

    Cost: reads only the message headers.
    """
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
        if message.type == "schema":
            for field in pa.ipc.read_schema(message):
                _check_type(field.type)
        elif message.type == "record batch":
            rows += _rows(message.metadata.to_pybytes())
        else:
            raise ProtocolError(f"an Arrow stream with a {message.type} message")
    if rows > 8 * len(data):
        raise ProtocolError(f"an Arrow stream of {len(data)} bytes states {rows} rows")


def _check_type(kind: pa.DataType) -> None:
    odd = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) or pa.types.is_union(kind)
    if odd or "view" in str(kind).partition("<")[0] or isinstance(kind, pa.BaseExtensionType):
        raise ProtocolError(f"an Arrow stream with a column of type {str(kind)[:80]}")
    for place in range(kind.num_fields):
        _check_type(kind.field(place).type)


def _rows(metadata: bytes) -> int:
    """Return the number of rows that a record batch declares; its buffers must be plain."""
    try:
        batch = _field(metadata, _I32.unpack_from(metadata, 0)[0], _HEADER)
        batch += _I32.unpack_from(metadata, batch)[0]
        if _field(metadata, batch, _COMPRESSION):
            raise ProtocolError("an Arrow stream with compressed buffers")
        length = _field(metadata, batch, 0)
        return int.from_bytes(metadata[length : length + 8], "little") if length else 0
    except struct.error:
        raise ProtocolError("an Arrow stream with a damaged head") from None


def _field(data: bytes, table: int, place: int) -> int:
    """Return the position of a field in a flatbuffers table; 0 if it is absent."""
    offsets = table - _I32.unpack_from(data, table)[0]
    at = 4 + 2 * place
    offset = _U16.unpack_from(data, offsets + at)[0] if at < _U16.unpack_from(data, offsets)[0] else 0
    return table + offset if offset else 0
