"""List functions: construction, slicing, and predicates on elements.

A nested value of a JSON log is read as its JSON text; a list argument accepts such text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.python_values import from_python, python_values
from elfmesh.ql.expressions.nodes import Call, Literal
from elfmesh.ql.expressions.operand import Operand, constant, convert, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS, common
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_text, nothing
from elfmesh.ql.values.columns import map_distinct
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

TEXTS = pa.list_(STRING)
Rows = Callable[..., Any]


def list_argument(context: CompileContext, call: Call, args: list[Operand], at: int) -> Operand:
    """Return argument `at` as a list: a list, or the text of a JSON array, whose elements become strings."""
    operand = args[at]
    if is_list(operand.type):
        return operand
    if operand.type in (STRING, VOID):
        return lift_arrays(TEXTS, lambda x: map_distinct(_json_list, x, TEXTS), convert(operand, STRING))
    raise context.error(
        call.args[at] if at < len(call.args) else call,
        f"{call.name} takes a list, not {type_name(operand.type)}",
        "Lists come from array(...), split(...), array_agg(...) and JSON arrays.",
    )


def _json_list(text: str) -> list[str | None] | None:
    value = loaded(text)
    if not isinstance(value, list):
        return None
    return [None if item is None else dumped(item) for item in value]


def over_rows(kind: pa.DataType, python: Rows, *operands: Operand, nulls: bool = False) -> Operand:
    """Apply a Python function to each row; null in, null out, unless `nulls`. Times are integers.

    Cost: one call per row.
    """

    def kernel(*columns: pa.Array) -> pa.Array:
        rows = zip(*map(python_values, columns), strict=True)
        return from_python([None if None in row and not nulls else python(*row) for row in rows], kind)

    return lift_arrays(kind, kernel, *operands)


def identity(value: Any) -> Any:
    """Return a key that is equal for equal elements: NaN equals NaN, and true differs from 1."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else value + 0.0
    return (bool, value) if isinstance(value, bool) else value


def ascending(value: Any) -> Any:
    """Return a sort key: nulls first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


@function("array", 0, None, signature="$(x, y, ...)", lists=True)
def _array(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    operands = common(context, call, args, list(range(len(args))))
    kind = operands[0].type if operands else VOID
    made = pa.list_(kind)
    if not operands:
        return Operand(made, lambda _env: pa.scalar([], made), constant=True)

    def kernel(*columns: pa.Array) -> pa.Array:
        rows, width = len(columns[0]), len(columns)
        flat = pa.concat_arrays([column if column.type == kind else column.cast(kind) for column in columns])
        places = pa.array([at * rows + row for row in range(rows) for at in range(width)], pa.int64())
        cuts = pa.array(range(0, (rows + 1) * width, width), pa.int32())
        return pa.ListArray.from_arrays(cuts, flat.take(places))

    return lift_arrays(made, kernel, *operands)


def _pair(context: CompileContext, call: Call, args: list[Operand]) -> tuple[Operand, Operand]:
    """Return arguments 0 and 1, a list and a value, with a common type."""
    values = list_argument(context, call, args, 0)
    kind = wider_type(values.type.value_type, args[1].type)
    if kind is None or is_nested(kind):
        raise context.error(
            call.args[1],
            f"{call.name} looks for {type_name(args[1].type)} in {type_name(values.type)}",
            "Convert one of them: CAST(... AS ...).",
        )
    return convert(values, pa.list_(kind)), convert(args[1], kind)


# -- elements


def _field_of(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = args[0].type
    if kind == STRING or (is_map(kind) and kind.key_type == STRING):
        index = Literal("string", call.option)
        element = Call("element", (call.args[0], index), at=call.at)
        return OPERATORS["element"](context, element, [args[0], constant(call.option, STRING)])
    if not pa.types.is_struct(kind) or kind.get_field_index(call.option) < 0:
        raise context.error(call, f"{type_name(kind)} has no field {call.option}", "Name one of its fields.")
    part = kind.field(call.option).type
    return lift_arrays(part, lambda x: pc.struct_field(x, call.option), args[0])


OPERATORS["field of"] = _field_of


@function("array_contains", 2, signature="$(list, x)")
def _contains(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(items: list[Any], wanted: Any) -> bool | None:
        same = identity(wanted)
        if any(item is not None and identity(item) == same for item in items):
            return True
        return None if None in items else False

    return over_rows(BOOLEAN, one, *_pair(context, call, args))


@function("array_position", 2, signature="$(list, x)")
def _position(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(items: list[Any], wanted: Any) -> int:
        same = identity(wanted)
        found = (at for at, item in enumerate(items, 1) if item is not None and identity(item) == same)
        return next(found, 0)

    return over_rows(BIGINT, one, *_pair(context, call, args))


# -- whole lists


def _plain_elements(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = list_argument(context, call, args, 0)
    if is_nested(values.type.value_type):
        raise context.error(
            call,
            f"{call.name} does not work on {type_name(values.type)}",
            "Its elements must be numbers, strings or times. Use explode(x) to expand them.",
        )
    return values


@function("array_distinct array_compact", 1, signature="$(list)", lists=True)
def _distinct(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = _plain_elements(context, call, args)
    return over_rows(values.type, _first_each if call.name == "array_distinct" else _present, values)


def _present(items: list[Any]) -> list[Any]:
    return [item for item in items if item is not None]


def _first_each(items: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for item in items:
        seen.setdefault(identity(item), item)
    return list(seen.values())


@function("sort_array", 1, 2, signature="$(list[, ascending])", lists=True)
def _sorted(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = _plain_elements(context, call, args)
    upward = True
    if len(args) == 2:
        if args[1].type not in (BOOLEAN, VOID) or not args[1].constant:
            raise context.error(
                call.args[1],
                "the direction of sort_array is TRUE or FALSE",
                "Write sort_array(x, false) for the largest first.",
            )
        if args[1].value() is None:
            return nothing(values.type)
        upward = bool(args[1].value())
    return over_rows(values.type, lambda items: sorted(items, key=ascending, reverse=not upward), values)


@function("array_min array_max", 1, signature="$(list)")
def _extreme(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = _plain_elements(context, call, args)
    pick = min if call.name == "array_min" else max

    def one(items: list[Any]) -> Any:
        present = _present(items)
        return pick(present, key=ascending) if present else None

    return over_rows(values.type.value_type, one, values)


@function("slice", 3, signature="$(list, start, length)", lists=True)
def _slice(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = list_argument(context, call, args, 0)
    start, length = (argument(context, call, args, at, BIGINT) for at in (1, 2))
    if (start.constant and start.value() == 0) or (length.constant and (length.value() or 0) < 0):
        raise context.error(
            call,
            "slice counts from 1 or from -1 backwards, and takes no negative length",
            "Write slice(x, 1, n) for the first n.",
        )

    def one(items: list[Any], n: int, count: int) -> list[Any] | None:
        if not n or count < 0:
            return None
        first = n - 1 if n > 0 else len(items) + n
        return items[first : first + count] if first >= 0 else []

    return over_rows(values.type, one, values, start, length)


@function("array_join", 2, 3, signature="$(list, separator[, text for null])")
def _join(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    values = convert(_plain_elements(context, call, args), TEXTS)
    separator = literal_text(context, call, args, 1, "the separator")
    missing = literal_text(context, call, args, 2, "the text for null") if len(args) == 3 else None
    if separator is None or (len(args) == 3 and missing is None):
        return nothing(STRING)

    def one(items: list[str | None]) -> str:
        shown = [missing if item is None else item for item in items]
        return separator.join(item for item in shown if item is not None)

    return over_rows(STRING, one, values)


# -- JSON


@function("json_array_length", 1, signature="$(text)")
def _json_length(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str) -> int | None:
        value = loaded(text)
        return len(value) if isinstance(value, list) else None

    return over_rows(BIGINT, one, argument(context, call, args, 0, STRING))


@function("json_object_keys", 1, signature="$(text)", lists=True)
def _json_keys(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str) -> list[str] | None:
        value = loaded(text)
        return list(value) if isinstance(value, dict) else None

    return over_rows(TEXTS, one, argument(context, call, args, 0, STRING))


@function("get_json_object", 2, signature="$(text, '$.a.b[0]')")
def _get_json(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    path = literal_text(context, call, args, 1, "the path")
    text = argument(context, call, args, 0, STRING)
    if path is None:
        return nothing(STRING)
    steps = _steps(path)
    if steps is None:
        raise context.error(
            call.args[1],
            f"{path!r} is not a path of names and indexes",
            "Write '$.a.b', '$.a[0]' or \"$['a b']\"; there is no `*`.",
        )

    def one(given: str) -> str | None:
        value = loaded(given)
        for step in steps:
            if isinstance(step, int):
                if not isinstance(value, list) or step >= len(value):
                    return None
                value = "null" if value[step] is None else value[step]  # as in Spark, for lists only
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return None if value is None else dumped(value)

    return lift_arrays(STRING, lambda x: map_distinct(one, x, STRING), text)


def _steps(path: str) -> list[str | int] | None:
    """Split a path that begins with `$` into names and indices; None if it is invalid."""
    if not path.startswith("$"):
        return None
    steps: list[str | int] = []
    rest = path[1:]
    while rest:
        if rest.startswith("['"):
            name, closed, rest = rest[2:].partition("']")
        elif rest.startswith("["):
            digits, closed, rest = rest[1:].partition("]")
            if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
                return None
            steps.append(int(digits))
            continue
        elif rest.startswith("."):
            end = next((at for at, mark in enumerate(rest[1:], 1) if mark in ".["), len(rest))
            name, closed, rest = rest[1:end], ".", rest[end:]
        else:
            return None
        if not closed or not name or name == "*":
            return None
        steps.append(name)
    return steps
