"""Sort keys of values: bytes whose order is that of ORDER BY in Spark, also for lists and structs.

Two values have equal bytes exactly if they are equal: NaN equals NaN, 0.0 equals -0.0, and an integer equals
the same double. The bytes do not depend on the type, so values keep their bytes if their type is widened.

Invariant: no key is a prefix of another, so keys may follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from elfmesh.python_values import python_values

_NULLS_FIRST, _VALUE, _NULLS_LAST = b"\x00", b"\x01", b"\x02"
_END, _ELEMENT = b"\x00", b"\x01"
_EXPONENT = 1 << 20
_NEGATIVE, _ZERO, _POSITIVE, _NOT_A_NUMBER = b"\x01", b"\x02", b"\x03", b"\x04"
_INVERTED = bytes(255 - byte for byte in range(256))

_DIGITS_MAX = 800
"""Digits of the longest number that is read; a double has at most 767."""

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at an offset, and returns it with the offset behind it."""


def sortable(column: pa.Array) -> pa.Array:
    """Return lists, structs and maps as the keys of their order, null for null; other columns as they are.

    A map is ordered by its entries, for ties of rows; Spark does not order maps. Cost: Python for each value.
    """
    if not pa.types.is_nested(column.type):
        return column
    values = python_values(column)
    return pa.array([None if each is None else sort_bytes(each) for each in values], pa.binary())


def sort_bytes(value: Any, way: str = "af") -> bytes:
    """Encode one ORDER BY item, a value of `python_values`.

    `way` is d or a for its direction, and f or l for the position of nulls. A list is ordered by its first
    element that differs, a struct by its first field; null is the least there.
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


def read_sorted(data: bytes, read: Reader) -> Any:
    """Return the value of a key of `sort_bytes`, in the form of `python_values`; `read` is from `reader`.

    Raises ValueError for other bytes.
    """
    value, end = read(data, 0)
    if end != len(data):
        raise ValueError("bytes behind a value")
    return value


def reader(kind: pa.DataType) -> Reader:
    """Return a reader of ascending keys of values of a type, in the form of `python_values`.

    A number that the type rounds is rounded, because widening does not change bytes.
    """
    inner = _inner_reader(kind)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        mark = data[at : at + 1]
        if mark == _NULLS_FIRST:
            return None, at + 1
        if mark != _VALUE:
            raise ValueError("neither a value nor null")
        return inner(data, at + 1)

    return read


def _inner_reader(kind: pa.DataType) -> Reader:
    types = pa.types
    if types.is_map(kind):
        return _list_reader(_pair_reader(reader(kind.key_type), reader(kind.item_type)))
    if types.is_list(kind):
        return _list_reader(reader(kind.value_type))
    if types.is_struct(kind):
        return _struct_reader([field.name for field in kind], [reader(field.type) for field in kind])
    if types.is_string(kind) or types.is_binary(kind):
        return _read_text if types.is_string(kind) else _read_bytes
    if types.is_boolean(kind):
        return _read_bool
    if types.is_null(kind):
        return _refuse
    convert = float if types.is_floating(kind) else Decimal if types.is_decimal(kind) else _whole
    return lambda data, at: _read_number(data, at, convert)


def _refuse(_data: bytes, _at: int) -> tuple[Any, int]:
    raise ValueError("a value of the type null")


def _list_reader(element: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        found: list[Any] = []
        while data[at : at + 1] == _ELEMENT:
            value, at = element(data, at + 1)
            found.append(value)
        if data[at : at + 1] != _END:
            raise ValueError("a list without its end")
        return found, at + 1

    return read


def _pair_reader(key: Reader, item: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        if data[at : at + 2] != _VALUE + _ELEMENT:
            raise ValueError("an entry without its key")
        name, at = key(data, at + 2)
        if data[at : at + 1] != _ELEMENT:
            raise ValueError("an entry without its value")
        value, at = item(data, at + 1)
        if data[at : at + 1] != _END:
            raise ValueError("an entry without its end")
        return (name, value), at + 1

    return read


def _struct_reader(names: Sequence[str], fields: Sequence[Reader]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        for name, field in zip(names, fields, strict=True):
            found[name], at = field(data, at)
        return found, at

    return read


def _read_bool(data: bytes, at: int) -> tuple[Any, int]:
    if data[at : at + 1] not in (b"\x00", b"\x01"):
        raise ValueError("a boolean that is neither 0 nor 1")
    return data[at] == 1, at + 1


def _read_bytes(data: bytes, at: int) -> tuple[Any, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)  # ValueError without one
        if data[end + 1 : end + 2] != b"\xff":
            break
        end += 2
    if data[end : end + 2] != b"\x00\x00":
        raise ValueError("a text without its end")
    return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _read_text(data: bytes, at: int) -> tuple[Any, int]:
    value, end = _read_bytes(data, at)
    return value.decode(), end


def _whole(value: Decimal) -> int:
    if not value.is_finite() or value.adjusted() > 18 or value != value.to_integral_value():
        raise ValueError("an integer beyond 64 bits, or with a fraction")
    return int(value)


def _read_number(data: bytes, at: int, convert: Callable[[Decimal], Any]) -> tuple[Any, int]:
    sign = data[at : at + 1]
    if sign in (_ZERO, _NOT_A_NUMBER):
        return convert(Decimal(0 if sign == _ZERO else "NaN")), at + 1
    if sign not in (_NEGATIVE, _POSITIVE):
        raise ValueError("a number without its sign")
    at += 1
    negative = sign == _NEGATIVE
    if data[at : at + 1] == (b"\x00" if negative else b"\xff"):
        return convert(Decimal("-Infinity" if negative else "Infinity")), at + 1
    end = data.index(b"\xff" if negative else b"\x00", at + 4)
    head, text = data[at : at + 4], data[at + 4 : end]
    if negative:
        head, text = head.translate(_INVERTED), text.translate(_INVERTED)
    if not 0 < len(text) <= _DIGITS_MAX or not text.isdigit() or text[:1] == b"0" or text[-1:] == b"0":
        raise ValueError("digits of a number")
    exponent = int.from_bytes(head, "big") - _EXPONENT
    value = Decimal(f"{'-' if negative else ''}{text.decode()}E{exponent - len(text) + 1}")
    made = convert(value)
    if made in (math.inf, -math.inf):
        raise ValueError("a number beyond a double")
    return made, end + 1
