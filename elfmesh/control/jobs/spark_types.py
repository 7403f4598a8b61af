"""Schemas of results for Spark: DDL text, and the leading columns of every result row.

Owns the mapping from Arrow types to the names of Spark's types. Does not import Spark.
"""

from __future__ import annotations

import re

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.control.jobs.records import ResultRecord

UTC = pa.timestamp("us", tz="UTC")
HEAD = pa.schema(
    [
        pa.field("interval_index", pa.int64()),
        pa.field("interval_start", UTC),
        pa.field("interval_end", UTC),
        pa.field("state", pa.string()),
        pa.field("rev", pa.int32()),
        pa.field("completeness", pa.float64()),
    ]
)
"""Columns before those of the query."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    UTC: "TIMESTAMP",
}


def row_schema(query: pa.Schema) -> pa.Schema:
    """Return the columns of a result row in types of Spark: first the interval's, then the query's."""
    return pa.schema([*HEAD, *(pa.field(field.name, plain_type(field.type)) for field in query)])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the nearest Arrow type that has a name in Spark; the type null becomes string."""
    types = pa.types
    if types.is_null(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width < 64 else pa.decimal128(20, 0)
    if types.is_timestamp(kind):
        return UTC
    if types.is_date64(kind):
        return pa.date32()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_decimal(kind):
        return pa.decimal128(min(kind.precision, 38), kind.scale)
    return kind if kind in _NAMES else pa.string()


def ddl(schema: pa.Schema) -> str:
    return ", ".join(f"{_quoted(field.name)} {_name(field.type)}" for field in schema)


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type in ELF-QL and Spark."""
    return _name(plain_type(kind))


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _name(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "STRUCT<" + ", ".join(f"{_quoted(field.name)}: {_name(field.type)}" for field in kind) + ">"
    if pa.types.is_map(kind):
        return f"MAP<{_name(kind.key_type)}, {_name(kind.item_type)}>"
    return _NAMES[kind]


def result_rows(record: ResultRecord, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of one interval with exactly the columns of `schema`; missing columns are null.

    Raises:
        pa.ArrowException: a value does not fit the type of its column in the schema.
    """
    count = table.num_rows
    head = (record.index, record.start_us, record.end_us, record.state, record.rev, record.completeness)
    columns = [
        pa.repeat(pa.scalar(value, field.type), count) for value, field in zip(head, HEAD, strict=True)
    ]
    for field in list(schema)[len(HEAD) :]:
        position = table.schema.get_field_index(field.name)
        if position < 0:
            columns.append(pa.nulls(count, field.type))
        else:
            column = table.column(position).combine_chunks()
            options = pc.CastOptions(field.type, allow_time_truncate=True)
            columns.append(column if column.type == field.type else pc.cast(column, options=options))
    return pa.Table.from_arrays(columns, schema=schema)
