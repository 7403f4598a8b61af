"""listagg(x) WITHIN GROUP (ORDER BY y): strings with a sort key, so that lists of them can be sorted.

Each collected string consists of the key, the value and the key's length. The order of the keys' bytes is the
order of ORDER BY. The lists of all agents are merged like other lists; the last step removes the keys.

Invariant: no key is a prefix of another, so values are compared only if their keys are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import CompileContext
from elfmesh.ql.functions.lists import over_rows
from elfmesh.ql.values.types import BINARY, STRING, VOID, is_list, is_nested, type_name

_NULLS_FIRST, _VALUE, _NULLS_LAST = b"\x00", b"\x01", b"\x02"
_MARK = "\x01"
"""Prefix of all keys. Agents of an earlier release send strings without keys if x is ordered by x."""
_LENGTH = 8
"""Hexadecimal digits of the length of a key, in characters or bytes."""

_EXPONENT = 1 << 20
_NEGATIVE, _ZERO, _POSITIVE, _NOT_A_NUMBER = b"\x01", b"\x02", b"\x03", b"\x04"
_INVERTED = bytes(255 - byte for byte in range(256))


def _ordered_text(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the value with the key of the other arguments; the option has two letters for each of them."""
    value, keys = args[0], args[1:]
    for key in keys:
        if is_nested(key.type) or pa.types.is_duration(key.type):
            hint = "Order by one of its fields."
            raise context.error(call, f"ORDER BY does not work on {type_name(key.type)}", hint)
    kind = BINARY if value.type == BINARY else STRING
    ways = [call.option[at : at + 2] for at in range(0, len(call.option), 2)]

    def one(given: Any, *by: Any) -> Any:
        if given is None:
            return None
        key = b"".join(_part(each, way) for each, way in zip(by, ways, strict=True))
        if kind == BINARY:
            return _MARK.encode() + key + given + f"{len(key):0{_LENGTH}x}".encode()
        return f"{_MARK}{key.hex()}{given}{2 * len(key):0{_LENGTH}x}"

    return over_rows(kind, one, convert(value, kind), *keys, nulls=True)


def _joined_ordered(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = BINARY if is_list(args[0].type) and args[0].type.value_type == BINARY else STRING
    between: Any = call.option.encode() if kind == BINARY else call.option

    def one(texts: list[Any]) -> Any:
        return between.join(_value(text) for text in texts) if texts else None

    if args[0].type == VOID:
        return convert(args[0], kind)
    return over_rows(kind, one, args[0])


def _value(text: Any) -> Any:
    marked = text.startswith(_MARK if isinstance(text, str) else _MARK.encode())
    return text[1 + int(text[-_LENGTH:], 16) : -_LENGTH] if marked else text


def _part(value: Any, way: str) -> bytes:
    """Encode one ORDER BY item; `way` is d or a for its direction, and f or l for the position of nulls."""
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


def _enter(name: str, build: Callable[[CompileContext, Call, list[Operand]], Operand]) -> None:
    OPERATORS[name] = build


_enter("ordered text", _ordered_text)
_enter("joined ordered list", _joined_ordered)
