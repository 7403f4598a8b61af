"""Conversion of JSON text to typed lists, structs and maps, and back: from_json, to_json.

A value that does not fit its type becomes null, as in Spark's permissive mode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from elfmesh.errors import ControlFlow
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, lift_arrays
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_text, nothing
from elfmesh.ql.values.cast import format_double
from elfmesh.ql.values.columns import map_distinct
from elfmesh.ql.values.json_text import NumberText, dumped, loaded
from elfmesh.ql.values.type_targets import type_target
from elfmesh.ql.values.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    STRING,
    VOID,
    is_list,
    is_map,
    is_nested,
    type_name,
)

_SCALARS = {"BIGINT": BIGINT, "DOUBLE": DOUBLE, "STRING": STRING, "BOOLEAN": BOOLEAN}
_HINT = "Write from_json(x, 'ARRAY<BIGINT>') or from_json(x, 'STRUCT<a: BIGINT, b: STRING>')."
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}


class _Misfit(ControlFlow):
    """A value does not fit its type, so the nearest enclosing field, or the whole value, is null."""


@function("from_json", 2, signature="$(text, 'ARRAY<BIGINT>') or $(text, 'a BIGINT, b STRING')", lists=True)
def _from_json(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    text = argument(context, call, args, 0, STRING)
    schema = literal_text(context, call, args, 1, "the schema")
    kind = None if schema is None else _schema(schema)
    if kind is None or not is_nested(kind):
        known = "lists, structs and maps by STRING of BIGINT, DOUBLE, STRING and BOOLEAN"
        message = f"from_json does not support the schema {schema!r}; it supports {known}"
        raise context.error(call.args[1], message, _HINT)
    single = kind.value_type if is_list(kind) and pa.types.is_struct(kind.value_type) else None
    read = _reader(kind)

    def one(given: str) -> Any:
        value = loaded(given)
        if single is not None and isinstance(value, dict):
            value = [value]  # as in Spark, an object is a list of one element
        if pa.types.is_struct(kind) and given.strip() and not isinstance(value, dict):
            value = {}
        try:
            return read(value)
        except _Misfit:
            return None

    return lift_arrays(kind, lambda column: map_distinct(one, column, kind), text)


def _schema(text: str) -> pa.DataType | None:
    for written in (text, f"STRUCT<{text}>"):
        try:
            found = _kind(sqlglot.parse_one(written, dialect="spark", into=exp.DataType))
        except SqlglotError:
            continue
        if found is not None:
            return found
    return None


def _kind(node: Any) -> pa.DataType | None:
    if not isinstance(node, exp.DataType):
        return None
    inner = node.expressions
    if node.this == exp.DType.ARRAY and len(inner) == 1:
        element = _kind(inner[0])
        return None if element is None else pa.list_(element)
    if node.this == exp.DType.MAP and len(inner) == 2:
        item = _kind(inner[1])
        return pa.map_(STRING, item) if _kind(inner[0]) == STRING and item is not None else None
    if node.this == exp.DType.STRUCT and inner and all(isinstance(each, exp.ColumnDef) for each in inner):
        parts = [(each.name, _kind(each.args.get("kind"))) for each in inner]
        known = all(kind is not None for _, kind in parts) and len({name for name, _ in parts}) == len(parts)
        return pa.struct(parts) if known else None
    target = type_target(node)
    return BIGINT if target in ("INT", "SMALLINT", "TINYINT") else _SCALARS.get(str(target))


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts a JSON value to a type; it returns None for a value of another type."""
    if is_list(kind):
        element = _reader(kind.value_type)
        return _of(list, lambda value: [element(each) for each in value])
    if is_map(kind):
        item = _reader(kind.item_type)
        return _of(dict, lambda value: [(name, item(each)) for name, each in value.items()])
    if pa.types.is_struct(kind):
        fields = [(field.name, _reader(field.type)) for field in kind]

        def struct(value: Any) -> Any:
            return {name: _field(read, value.get(name)) for name, read in fields}

        return _of(dict, struct)
    return {BIGINT: _whole, DOUBLE: _real, BOOLEAN: _of(bool, bool), STRING: _text}[kind]


def _of(kind: type[Any], read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def one(value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise _Misfit
        return None if value is None else read(value)

    return one


def _field(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except _Misfit:
        return None


def _whole(value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = int(value) if isinstance(value, NumberText) else 2**63
    except ValueError:
        raise _Misfit from None
    if not -(2**63) <= number < 2**63:
        raise _Misfit
    return number


def _real(value: Any) -> float | None:
    if value is None or isinstance(value, NumberText):
        return None if value is None else float(value)
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise _Misfit


def _text(value: Any) -> str | None:
    return None if value is None else dumped(value)


@function("to_json", 1, signature="$(list, struct or map)")
def _to_json(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = args[0]
    if given.type == VOID:
        return nothing(STRING)
    if not is_nested(given.type) or not _is_json(given.type):
        raise context.error(
            call, f"to_json takes a list, a struct or a map of JSON values, not {type_name(given.type)}",
            "Convert its parts first.",
        )  # fmt: skip

    def kernel(column: pa.Array) -> pa.Array:
        rows = column.to_pylist()
        return pa.array([None if each is None else _written(each, given.type) for each in rows], STRING)

    return lift_arrays(STRING, kernel, given)


def _is_json(kind: pa.DataType) -> bool:
    if is_list(kind):
        return _is_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    if is_map(kind):
        return kind.key_type == STRING and _is_json(kind.item_type)
    return kind in (VOID, BIGINT, DOUBLE, STRING, BOOLEAN)


def _written(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "null"
    if is_list(kind):
        return "[" + ",".join(_written(each, kind.value_type) for each in value) + "]"
    if pa.types.is_struct(kind):
        there = [(field, value[field.name]) for field in kind if value[field.name] is not None]
        return "{" + ",".join(_member(field.name, each, field.type) for field, each in there) + "}"
    if is_map(kind):
        return "{" + ",".join(_member(name, each, kind.item_type) for name, each in value) + "}"
    if isinstance(value, float):
        return format_double(value) if math.isfinite(value) else f'"{format_double(value)}"'
    return json.dumps(value, ensure_ascii=False)


def _member(name: str, value: Any, kind: pa.DataType) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}:{_written(value, kind)}"
