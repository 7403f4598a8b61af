"""Sort keys of values: bytes whose order is that of ORDER BY in Spark, also for lists and structs.

Two values have equal bytes exactly if they are equal: NaN equals NaN, 0.0 equals -0.0, and an integer equals
the same double.

Invariant: no key is a prefix of another, so keys may follow each other.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NULLS_FIRST, _VALUE, _NULLS_LAST = b"\x00", b"\x01", b"\x02"
_END, _ELEMENT = b"\x00", b"\x01"
_EXPONENT = 1 << 20
_NEGATIVE, _ZERO, _POSITIVE, _NOT_A_NUMBER = b"\x01", b"\x02", b"\x03", b"\x04"
_INVERTED = bytes(255 - byte for byte in range(256))


def sortable(column: pa.Array) -> pa.Array:
    """Return lists, structs and maps as the keys of their order, null for null; other columns as they are.

    A map is ordered by its entries, for ties of rows; Spark does not order maps. Cost: Python for each value.
    """
    if not pa.types.is_nested(column.type):
        return column
    values = column.to_pylist()
    return pa.array([None if each is None else sort_bytes(each) for each in values], pa.binary())


def sort_bytes(value: Any, way: str = "af") -> bytes:
    """Encode one ORDER BY item; `way` is d or a for its direction, and f or l for the position of nulls.

    A list is ordered by its first element that differs, a struct by its first field; null is the least there.
    """
    if value is None:
        return _NULLS_FIRST if way[1] == "f" else _NULLS_LAST
    made = _bytes_of(value)
    return _VALUE + (made.translate(_INVERTED) if way[0] == "d" else made)


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, str | bytes):
        given = value.encode() if isinstance(value, str) else value
        return given.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
    if isinstance(value, list | tuple):
        return b"".join(_ELEMENT + sort_bytes(each) for each in value) + _END
    if isinstance(value, dict):
        return b"".join(map(sort_bytes, value.values()))
    if isinstance(value, timedelta):
        return _number(Decimal(value // timedelta(microseconds=1)))
    if isinstance(value, datetime):
        since = value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return _number(Decimal(since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    if isinstance(value, date):
        return _number(Decimal((value - date(1970, 1, 1)).days) * 86_400_000_000)
    return _number(
        Decimal(repr(value)) if isinstance(value, float) and math.isfinite(value) else Decimal(value)
    )


def _number(value: Decimal) -> bytes:
    """Encode integers, decimals and doubles in one order: sign, exponent, digits; NaN is the greatest."""
    if value.is_nan():
        return _NOT_A_NUMBER
    if value.is_zero():
        return _ZERO
    if value.is_infinite():
        return _NEGATIVE + b"\x00" if value < 0 else _POSITIVE + b"\xff"
    sign, digits, _ = value.as_tuple()
    text = "".join(map(str, digits)).rstrip("0").encode() + b"\x00"
    made = (value.adjusted() + _EXPONENT).to_bytes(4, "big") + text
    return _NEGATIVE + made.translate(_INVERTED) if sign else _POSITIVE + made
