"""The JSON of result rows and of times, as the commands, the API and the sinks write it.

Integers and decimals become numbers without loss, times become ISO text.
"""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from elfmesh.lazy import lazy_module
from elfmesh.python_values import without_times

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = msgspec.json.Encoder(decimal_format="number")


def iso_us(us: int | None) -> str | None:
    """Return a time in ISO format, "2015-05-17T10:05:00Z", with a fraction only if it is not zero."""
    if us is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:  # a year outside 1..9999 has no ISO format
        return str(us)
    fraction = us % 1_000_000
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") if moment.year > 999 else moment.isoformat()[:19]
    if fraction == 0:
        return text + "Z"
    return f"{text}.{fraction // 1000:03}Z" if fraction % 1000 == 0 else f"{text}.{fraction:06}Z"


def encode_json(value: object) -> bytes:
    """Return the JSON text of plain values; decimals are written as numbers, without loss."""
    return _JSON.encode(value)


def rows_to_json(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as plain values for `encode_json`.

    Integers and decimals keep their types, times are ISO text, null is None. NaN and the infinities, which
    JSON lacks, are the strings that Spark's to_json writes.

    Cost: one Python object per value, which suits results and not records of logs.
    """
    names = table.column_names
    columns = [_column_values(column) for column in table.columns]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column_values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return [iso_us(value) for value in micros.to_pylist()]
    if pa.types.is_date(kind):
        column = column.cast(pa.string())
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # a time outside of Python's years, beside which dates are text
        values = column.cast(without_times(kind, pa.string())).to_pylist()
    if (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_decimal(kind)
    ):
        return values
    if _holds_map(kind):
        values = [_keyed(value, kind) for value in values]
    return [_plain(value) for value in values]


def _holds_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_holds_map(kind.field(at).type) for at in range(kind.num_fields))


def _keyed(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {str(_plain(key)): _keyed(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _keyed(value[field.name], field.type) for field in kind}
    return [_keyed(each, kind.value_type) for each in value] if pa.types.is_nested(kind) else value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return iso_us((moment - _EPOCH) // timedelta(microseconds=1))
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
