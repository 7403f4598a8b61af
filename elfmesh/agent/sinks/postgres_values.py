"""Converts Arrow values to PostgreSQL values.

PostgreSQL text cannot contain NUL, which becomes U+FFFD. A time outside the years 1 to 9999 becomes an
infinity. Lists, maps and structs become jsonb with the values of the JSON that commands print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from elfmesh.ql.values.row_json import encode_json, iso_us, rows_to_json

KEY = ("incarnation", "row_number")
"""Columns of the key that are not columns of the interval."""

NUL_SHOWN = "\ufffd"


def column_type(kind: pa.DataType) -> str:
    """Return the PostgreSQL type of a column, as `format_type` names it."""
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return "bigint"
    if types.is_floating(kind):
        return "double precision"
    if types.is_decimal(kind):
        return "numeric"
    if types.is_timestamp(kind):
        return "timestamp with time zone"
    if types.is_date(kind):
        return "date"
    if types.is_binary(kind):
        return "bytea"
    return "jsonb" if types.is_nested(kind) else "text"


def rows_of(table: pa.Table, incarnation: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows for COPY: the columns of KEY, then those of the table. Cost: one Python object per value."""
    columns = [_values(column) for column in table.columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        yield (incarnation, number, *row)


def without_nul(text: str) -> str:
    return text.replace("\0", NUL_SHOWN)


def storable(text: str) -> str:
    if "\\u0000" not in text:
        return text
    parts = text.split("\\\\")  # u0000 after an escaped backslash is not NUL
    return "\\\\".join(part.replace("\\u0000", NUL_SHOWN) for part in parts)


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return [_moment(value) for value in micros.to_pylist()]
    if pa.types.is_nested(kind):
        rows = rows_to_json(pa.table({"value": column}))
        return [_json(row["value"]) for row in rows]
    convert: Callable[[Any], Any] = without_nul if column_type(kind) == "text" else _same
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _same(value: Any) -> Any:
    return value


def _json(value: Any) -> str | None:
    return None if value is None else storable(encode_json(value).decode())


def _moment(micros: int | None) -> str | None:
    if micros is None:
        return None
    text = iso_us(micros)
    if text is None or not text.endswith("Z"):
        return "infinity" if micros > 0 else "-infinity"
    return text
