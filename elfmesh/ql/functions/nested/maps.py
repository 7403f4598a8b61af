"""Map functions: construction and lookups; and functions of both lists and maps: x[k], element_at, size.

The JSON text of an object is read as a map of strings. Keys have one plain type, are unique and not null; a
violation gives a null map, while Spark raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS, common
from elfmesh.ql.expressions.regex import compile_pattern, java_split
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_text, nothing
from elfmesh.ql.functions.nested.lists import identity, list_argument, over_rows
from elfmesh.ql.values.columns import KEY, VALUE, entries_of, list_cuts, map_distinct
from elfmesh.ql.values.json_text import dumped, loaded
from elfmesh.ql.values.types import (
    BIGINT,
    BOOLEAN,
    STRING,
    VOID,
    is_list,
    is_map,
    is_nested,
    type_name,
    wider_type,
)

TEXT_MAP = pa.map_(STRING, STRING)
Pairs = list[tuple[Any, Any]]


def map_argument(context: CompileContext, call: Call, args: list[Operand], at: int) -> Operand:
    """Return argument `at` as a map: a map, or the text of a JSON object, whose values become strings."""
    operand = args[at]
    if is_map(operand.type):
        return operand
    if operand.type in (STRING, VOID):
        return lift_arrays(TEXT_MAP, lambda x: map_distinct(_json_map, x, TEXT_MAP), convert(operand, STRING))
    raise context.error(
        call.args[at] if at < len(call.args) else call,
        f"{call.name} takes a map, not {type_name(operand.type)}",
        "Maps come from map(...), from_json(x, 'MAP<STRING, BIGINT>'), str_to_map(...) and JSON objects.",
    )


def _json_map(text: str) -> list[tuple[str, str | None]] | None:
    value = loaded(text)
    if not isinstance(value, dict):
        return None
    return [(name, None if each is None else dumped(each)) for name, each in value.items()]


def unique_pairs(pairs: Sequence[tuple[Any, Any]]) -> Pairs | None:
    """Return the pairs as a map; None if a key is null or occurs twice."""
    keys = {identity(key) for key, _ in pairs}
    return None if len(keys) < len(pairs) or any(key is None for key, _ in pairs) else list(pairs)


# -- construction


def plain_key(context: CompileContext, call: Call, kind: pa.DataType) -> None:
    if is_nested(kind) or kind == VOID:
        raise context.error(call, f"{type_name(kind)} cannot be the key of a map", "Keys are plain values.")


@function("map", 0, None, signature="$(key, value, ...)", lists=True)
def _map(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) % 2:
        raise context.error(call, "map takes alternating keys and values", "Write map('a', 1, 'b', 2).")
    if not args:
        return Operand(TEXT_MAP, lambda _env: pa.scalar([], TEXT_MAP), constant=True)
    keys = common(context, call, args, list(range(0, len(args), 2)))
    values = common(context, call, args, list(range(1, len(args), 2)))
    plain_key(context, call, keys[0].type)
    count = len(keys)

    def one(*row: Any) -> Pairs | None:
        return unique_pairs(list(zip(row[:count], row[count:], strict=True)))

    return over_rows(pa.map_(keys[0].type, values[0].type), one, *keys, *values, nulls=True)


@function("map_from_arrays", 2, signature="$(keys, values)", lists=True)
def _from_arrays(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    keys, values = (list_argument(context, call, args, at) for at in range(2))
    plain_key(context, call, keys.type.value_type)

    def one(names: list[Any], items: list[Any]) -> Pairs | None:
        return unique_pairs(list(zip(names, items, strict=True))) if len(names) == len(items) else None

    return over_rows(pa.map_(keys.type.value_type, values.type.value_type), one, keys, values)


@function("map_from_entries", 1, signature="$(list of pairs)", lists=True)
def _from_entries(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pairs = list_argument(context, call, args, 0)
    kind = pairs.type.value_type
    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        raise context.error(
            call,
            f"map_from_entries takes a list of structs of two, not {type_name(kind)}",
            "Write map_from_entries(map_entries(m)), or map_from_arrays(keys, values).",
        )
    plain_key(context, call, kind.field(0).type)

    def one(items: list[Any]) -> Pairs | None:
        if None in items:
            return None
        return unique_pairs([(item[kind.field(0).name], item[kind.field(1).name]) for item in items])

    return over_rows(pa.map_(kind.field(0).type, kind.field(1).type), one, pairs)


@function("map_concat", 1, None, signature="$(map, ...)", lists=True)
def _concat(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    known = next((at for at, each in enumerate(args) if each.type != VOID), 0)
    kind = map_argument(context, call, args, known).type  # null without a type has that of the others
    maps = [
        convert(each, kind) if each.type == VOID else map_argument(context, call, args, at)
        for at, each in enumerate(args)
    ]
    other = next((at for at, each in enumerate(maps) if each.type != maps[0].type), None)
    if other is not None:
        names = f"{type_name(maps[0].type)} and {type_name(maps[other].type)}"
        raise context.error(
            call.args[other], f"map_concat puts {names} together", "Cast keys and values to one type."
        )
    return over_rows(maps[0].type, lambda *row: unique_pairs([pair for each in row for pair in each]), *maps)


@function("str_to_map", 1, 3, signature="$(text[, between pairs[, between key and value]])", lists=True)
def _from_text(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    text = argument(context, call, args, 0, STRING)
    pairs_by = _splitter(context, call, args, 1, ",", 0)
    sides_by = _splitter(context, call, args, 2, ":", 2)
    if pairs_by is None or sides_by is None:
        return nothing(TEXT_MAP)

    def one(given: str) -> Pairs | None:
        pairs = [sides_by(each) for each in pairs_by(given)]
        return unique_pairs([(pair[0], pair[1] if len(pair) > 1 else None) for pair in pairs])

    return lift_arrays(TEXT_MAP, lambda x: map_distinct(one, x, TEXT_MAP), text)


def _splitter(
    context: CompileContext, call: Call, args: list[Operand], at: int, usual: str, most: int
) -> Callable[[str], list[str]] | None:
    """Return the function that splits strings at a pattern, in argument `at` or the default.

    Returns None for NULL.
    """
    if len(args) <= at:
        return java_split(compile_pattern(context, call, usual), most)
    pattern = literal_text(context, call, args, at, "the pattern")
    return None if pattern is None else java_split(compile_pattern(context, call.args[at], pattern), most)


# -- parts of maps


@function("map_keys map_values", 1, signature="$(map)", lists=True)
def _side(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = map_argument(context, call, args, 0)
    kind, at = (given.type.key_type, 0) if call.name == "map_keys" else (given.type.item_type, 1)

    def kernel(array: pa.Array) -> pa.Array:
        entries = entries_of(array)
        side = pc.struct_field(entries.flatten(), at)
        return pa.ListArray.from_arrays(
            list_cuts(entries), side, mask=array.is_null() if array.null_count else None
        )

    return lift_arrays(pa.list_(kind), kernel, given)


@function("map_entries", 1, signature="$(map)", lists=True)
def _entries(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = map_argument(context, call, args, 0)
    kind = pa.list_(pa.struct([(KEY, given.type.key_type), (VALUE, given.type.item_type)]))
    return lift_arrays(kind, lambda array: entries_of(array).cast(kind), given)


def _key(context: CompileContext, call: Call, args: list[Operand], given: Operand) -> Operand:
    """Return argument 1 as a key of a map. Raises QueryError if no key of the map can equal it."""
    kind = given.type.key_type
    if wider_type(kind, args[1].type) != kind:
        raise context.error(
            call.args[1],
            f"{type_name(args[1].type)} is not the key type of {type_name(given.type)}",
            f"Convert it: CAST(... AS {type_name(kind)}).",
        )
    return convert(args[1], kind)


@function("map_contains_key", 2, signature="$(map, key)")
def _contains(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = map_argument(context, call, args, 0)

    def one(pairs: Pairs, wanted: Any) -> bool:
        return any(identity(key) == identity(wanted) for key, _ in pairs)

    return over_rows(BOOLEAN, one, given, _key(context, call, args, given))


def _at_key(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = map_argument(context, call, args, 0)
    key = _key(context, call, args, given)
    if key.constant and key.type == STRING:
        name = key.value()
        if name is None:
            return lift_arrays(given.type.item_type, lambda x: pa.nulls(len(x), given.type.item_type), given)
        return lift_arrays(given.type.item_type, lambda x: pc.map_lookup(x, name, "first"), given)

    def one(pairs: Pairs, wanted: Any) -> Any:
        return next((value for known, value in pairs if identity(known) == identity(wanted)), None)

    return over_rows(given.type.item_type, one, given, key)


# -- lists and maps


def _element(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """x[n], from 0, or x[key]; null if absent. A string is read as a JSON object if the key is a string.

    x['name'] of a struct is its field.
    """
    if pa.types.is_struct(args[0].type) and args[1].constant and args[1].type == STRING:
        field = Call("field of", call.args[:1], str(args[1].value()), at=call.at)
        return OPERATORS["field of"](context, field, args[:1])
    return _picked(context, call, args, lambda n, count: n if 0 <= n < count else None)


OPERATORS["element"] = _element


@function("element_at try_element_at", 2, signature="$(list, n) or $(map, key)")
def _element_at(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def place(n: int, count: int) -> int | None:
        where = n - 1 if n > 0 else count + n
        return where if n and 0 <= where < count else None

    return _picked(context, call, args, place, from_one=True)


def _picked(
    context: CompileContext, call: Call, args: list[Operand], place: Callable[[int, int], int | None],
    *, from_one: bool = False,
) -> Operand:  # fmt: skip
    if is_map(args[0].type) or (args[0].type == STRING and args[1].type == STRING):
        return _at_key(context, call, args)
    values = list_argument(context, call, args, 0)
    at = argument(context, call, args, 1, BIGINT)
    if from_one and at.constant and at.value() == 0:
        raise context.error(call.args[1], "element_at counts from 1, or from -1 backwards", "Write x[0].")

    def one(items: list[Any], n: int) -> Any:
        where = place(n, len(items))
        return None if where is None else items[where]

    return over_rows(values.type.value_type, one, values, at)


@function("size cardinality array_size", 1, signature="$(list or map)")
def _size(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if is_map(args[0].type) and call.name != "array_size":
        values, lists = args[0], entries_of
    else:
        values, lists = list_argument(context, call, args, 0), _same
    missing = None if call.name == "array_size" else -1  # as in Spark with ANSI off
    lengths = lift_arrays(BIGINT, lambda x: pc.cast(pc.list_value_length(lists(x)), BIGINT), values)
    return lengths if missing is None else lift(BIGINT, lambda x: pc.fill_null(x, missing), lengths)


def _same(array: pa.Array) -> pa.Array:
    return array


def elements_of(
    context: CompileContext, call: Call, operand: Operand, *, pairs: bool
) -> tuple[Operand, Callable[[pa.Array], pa.Array]]:
    """Return the operand of a list, map or JSON text, and a function from its column to lists.

    With `pairs`, a string is read as an object whose elements are pairs of key and value.
    """
    if is_map(operand.type) or (pairs and not is_list(operand.type)):
        return map_argument(context, call, [operand], 0), entries_of
    return list_argument(context, call, [operand], 0), _same
