"""array_agg(x ORDER BY y), listagg(x) WITHIN GROUP (ORDER BY y): strings with a sort key before the value.

Each collected string consists of the key and the value; for listagg the key's length follows, for array_agg a
sign stands between them. The order of the keys' bytes is the order of ORDER BY. The lists of all agents are
merged like other lists; the last step removes the keys, and for array_agg gives the values their type again.

Invariant: no key is a prefix of another, so values are compared only if their keys are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt.sort_bytes import read_sorted, reader, sort_bytes, sortable
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, cast_nested, convert, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import CompileContext
from elfmesh.ql.functions.nested.lists import over_rows
from elfmesh.ql.values.columns import list_cuts
from elfmesh.ql.values.types import BINARY, DATE, DOUBLE, STRING, VOID, has_map, is_list, is_nested, type_name

_MARK = "\x01"
"""Prefix of all keys. Agents of an earlier release send strings without keys if x is ordered by x."""
_DAY_US = 86_400_000_000
_LENGTH = 8
"""Hexadecimal digits of the length of a key, in characters or bytes."""

_AFTER_KEY = b"\x01"
"""Follows the key of array_agg, which is hexadecimal. It is smaller than each digit, so values with equal
keys have their own order."""


def _ordered_text(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the value with the key of the other arguments; the option has two letters for each of them."""
    value, keys = args[0], args[1:]
    key_of = _key(keys, _checked_ways(context, call, keys))
    kind = BINARY if value.type == BINARY else STRING

    def one(given: Any, *by: Any) -> Any:
        if given is None:
            return None
        key = key_of(*by)
        if kind == BINARY:
            return _MARK.encode() + key + given + f"{len(key):0{_LENGTH}x}".encode()
        return f"{_MARK}{key.hex()}{given}{2 * len(key):0{_LENGTH}x}"

    return over_rows(kind, one, convert(value, kind), *keys, nulls=True)


def _ordered_value(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """As `_ordered_text`, for a value that gets its type again: its text must have the order of its type."""
    value, *keys = args
    if has_map(value.type) or pa.types.is_duration(value.type):
        hint = "List one of its fields."
        raise context.error(call, f"{type_name(value.type)} cannot be aggregated", hint)
    ways = _checked_ways(context, call, keys)
    if is_nested(value.type):
        value = lift_arrays(STRING, _as_key, value)
    if value.type == DOUBLE:
        value = lift_arrays(DOUBLE, lambda array: pc.add(array, 0.0), value)  # -0.0 is 0.0
    if value.type not in (STRING, BINARY, VOID):
        keys, ways = [*keys, value], [*ways, "al"]
    key_of = _key(keys, ways)
    kind = BINARY if value.type == BINARY else STRING

    def one(given: Any, *by: Any) -> Any:
        if given is None:
            return None
        key = key_of(*by).hex()
        return key.encode() + _AFTER_KEY + given if kind == BINARY else f"{key}{_AFTER_KEY.decode()}{given}"

    return over_rows(kind, one, convert(value, kind), *keys, nulls=True)


def _as_key(values: pa.Array) -> pa.Array:
    """Return lists and structs as the hexadecimal digits of their sort keys, from which they are read."""
    return pa.array([None if key is None else key.hex() for key in sortable(values).to_pylist()], STRING)


def _key(keys: list[Operand], ways: list[str]) -> Callable[..., bytes]:
    """Return a function from the values of the keys to their sort key, in which dates are microseconds."""
    units = [_DAY_US if key.type == DATE else 1 for key in keys]

    def key_of(*by: Any) -> bytes:
        sized = [
            each if unit == 1 or each is None else each * unit for each, unit in zip(by, units, strict=True)
        ]
        return b"".join(map(sort_bytes, sized, ways))

    return key_of


def _checked_ways(context: CompileContext, call: Call, keys: list[Operand]) -> list[str]:
    """Return two letters for each key of ORDER BY: its direction and the position of nulls."""
    for key in keys:
        if is_nested(key.type) or pa.types.is_duration(key.type):
            hint = "Order by one of its fields."
            raise context.error(call, f"ORDER BY does not work on {type_name(key.type)}", hint)
    return [call.option[at : at + 2] for at in range(0, len(call.option), 2)]


def _joined_ordered(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = BINARY if is_list(args[0].type) and args[0].type.value_type == BINARY else STRING
    between: Any = call.option.encode() if kind == BINARY else call.option

    def one(texts: list[Any]) -> Any:
        return between.join(_value(text) for text in texts) if texts else None

    if args[0].type == VOID:
        return convert(args[0], kind)
    return over_rows(kind, one, args[0])


def _ordered_list(_context: CompileContext, _call: Call, args: list[Operand]) -> Operand:
    """Return the values of a list, in the type of the other argument, which is a value of the group."""
    texts, typed = args
    kind = pa.list_(typed.type)
    if texts.type == VOID or not is_list(texts.type):
        return convert(texts, kind)

    def kernel(lists: pa.Array, _typed: pa.Array) -> pa.Array:
        plain = BINARY if lists.type.value_type == BINARY else STRING
        after = _AFTER_KEY if plain == BINARY else _AFTER_KEY.decode()
        values = pa.array([text.partition(after)[2] for text in lists.flatten().to_pylist()], plain)
        if is_nested(typed.type):
            read = reader(typed.type)
            keys = (bytes.fromhex(text) for text in values.to_pylist())
            values = pa.array([read_sorted(key, read) for key in keys], typed.type)
        if typed.type == VOID:  # all values are null, and a list has none of these
            values = pa.nulls(len(values))
        mask = lists.is_null() if lists.null_count else None
        if values.type == typed.type:
            return pa.ListArray.from_arrays(list_cuts(lists), values, mask=mask)
        return cast_nested(pa.ListArray.from_arrays(list_cuts(lists), values, mask=mask), kind)

    return lift_arrays(kind, kernel, texts, typed)


def _value(text: Any) -> Any:
    marked = text.startswith(_MARK if isinstance(text, str) else _MARK.encode())
    return text[1 + int(text[-_LENGTH:], 16) : -_LENGTH] if marked else text


def _enter(name: str, build: Callable[[CompileContext, Call, list[Operand]], Operand]) -> None:
    OPERATORS[name] = build


_enter("ordered text", _ordered_text)
_enter("ordered value", _ordered_value)
_enter("joined ordered list", _joined_ordered)
_enter("ordered list", _ordered_list)
