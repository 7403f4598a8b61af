"""Lists, structs and maps as keys and states: bytes that identify their values, and know their type.

A column of a `NestedType` has the sort keys of its values (`sort_bytes`), and is encoded, hashed and merged
like BINARY. A wider type has the same bytes, so a list of integers and the equal list of doubles are one key.

The bytes of a map depend on the order of its entries. So they identify rows that are not grouped, and no
groups, as in Spark; the caller refuses these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from elfmesh.cbt.sort_bytes import read_sorted, reader, sortable
from elfmesh.python_values import from_python

PREFIX = "nested "
"""Prefix of the name of a nested type in headers; its shape as JSON follows."""

NAME_CHARS_MAX = 4096
"""Maximum length of the name of a nested type, because a header has it for each block."""

DEPTH_MAX = 16
"""Maximum depth of a nested type."""

_LIST, _STRUCT, _MAP = "list", "struct", "map"


class NestedType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Type of a column with the sort keys of values of `value_type`, which is nested."""

    def __init__(self, name: str, value_type: pa.DataType) -> None:
        self.name, self.value_type = name, value_type
        super().__init__(pa.binary(), f"elfmesh.{name}")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    def __hash__(self) -> int:
        return hash(self.extension_name)


def is_nested_key(kind: pa.DataType) -> bool:
    return isinstance(kind, NestedType)


def nested_keys(column: pa.Array, kind: NestedType) -> pa.Array:
    """Return nested values as keys; `kind` is of their type. Cost: Python for each value."""
    return pa.ExtensionArray.from_storage(kind, sortable(column))


def nested_values(keys: pa.Array) -> pa.Array:
    """Return the values of keys. Raises ValueError if one is not a value of the type.

    Cost: Python for each value.
    """
    kind = keys.type
    read = reader(kind.value_type)
    found = [None if each is None else read_sorted(each, read) for each in keys.storage.to_pylist()]
    return from_python(found, kind.value_type)


def check_keys(column: pa.Array) -> None:
    """Raise ValueError if a column from outside has keys that are no values of its type."""
    if is_nested_key(column.type):
        nested_values(column)


def retyped(keys: pa.Array, kind: NestedType) -> pa.Array:
    """Return keys with a wider type. Cost: nothing, because their bytes stay."""
    return pa.ExtensionArray.from_storage(kind, keys.storage)


def shape_of(kind: pa.DataType, name_of: Callable[[pa.DataType], str], depth: int = 0) -> Any:
    """Return a type as plain JSON; `name_of` names those of plain values.

    Raises ValueError for a type that is too deep.
    """
    if depth > DEPTH_MAX:
        raise ValueError(f"it is nested more than {DEPTH_MAX} deep")
    if pa.types.is_list(kind):
        return [_LIST, shape_of(kind.value_type, name_of, depth + 1)]
    if pa.types.is_struct(kind):
        return [_STRUCT, *([field.name, shape_of(field.type, name_of, depth + 1)] for field in kind)]
    if pa.types.is_map(kind):
        return [_MAP, *(shape_of(each, name_of, depth + 1) for each in (kind.key_type, kind.item_type))]
    return name_of(kind)


def nested_name(kind: pa.DataType, name_of: Callable[[pa.DataType], str]) -> str:
    """Return the name of the key type of a nested type. Raises ValueError if it is too long."""
    name = PREFIX + msgspec.json.encode(shape_of(kind, name_of)).decode()
    if len(name) > NAME_CHARS_MAX:
        raise ValueError(f"its type has more than {NAME_CHARS_MAX} characters")
    return name


@lru_cache(maxsize=256)
def nested_type(name: str, type_of: Callable[[str], pa.DataType]) -> NestedType:
    """Return the type of a name; `type_of` reads the names of plain values.

    Raises ValueError for other names, also for another name of a type.
    """
    if len(name) > NAME_CHARS_MAX:
        raise ValueError("the name of a nested type is too long")
    try:
        shape = msgspec.json.decode(name.removeprefix(PREFIX))
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("the name of a nested type is not JSON") from None
    if PREFIX + msgspec.json.encode(shape).decode() != name:
        raise ValueError("another name of a nested type")
    return NestedType(name, _kind_of(shape, type_of, 0))


def _kind_of(shape: Any, type_of: Callable[[str], pa.DataType], depth: int) -> pa.DataType:
    match shape:
        case str() if depth:
            return type_of(shape)
        case ["list", inner] if depth <= DEPTH_MAX:
            return pa.list_(_kind_of(inner, type_of, depth + 1))
        case ["map", key, item] if depth <= DEPTH_MAX:
            return pa.map_(*(_kind_of(each, type_of, depth + 1) for each in (key, item)))
        case ["struct", *parts] if depth <= DEPTH_MAX:
            fields = []
            for part in parts:
                match part:
                    case [str() as name, inner]:
                        fields.append((name, _kind_of(inner, type_of, depth + 1)))
                    case _:
                        raise ValueError("a field of a nested type")
            if len({name for name, _ in fields}) < len(fields):
                raise ValueError("two fields of one name")
            return pa.struct(fields)
    raise ValueError(f"{shape!r} is not a nested type")


def unified(
    left: pa.DataType, right: pa.DataType, unify: Callable[[pa.DataType, pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """Return the type that holds the values of both; None if there is none. `unify` is for plain values."""
    if pa.types.is_null(left) or pa.types.is_null(right):
        return right if pa.types.is_null(left) else left
    if pa.types.is_list(left) and pa.types.is_list(right):
        inner = unified(left.value_type, right.value_type, unify)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        if [field.name for field in left] != [field.name for field in right]:
            return None
        kinds = [unified(one.type, other.type, unify) for one, other in zip(left, right, strict=True)]
        fields = [(field.name, kind) for field, kind in zip(left, kinds, strict=True) if kind is not None]
        return pa.struct(fields) if len(fields) == len(kinds) else None
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = (
            unified(left.key_type, right.key_type, unify),
            unified(left.item_type, right.item_type, unify),
        )
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_nested(left) or pa.types.is_nested(right):
        return None
    return unify(left, right)
