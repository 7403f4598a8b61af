"""Functions that make structs: struct(a, b) with the names of its arguments, and named_struct.

The translator writes the names of the fields into the option of a call (`text.field_names`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from elfmesh.ql.expressions.nodes import Call, Expr, Literal
from elfmesh.ql.expressions.operand import Operand, lift_arrays
from elfmesh.ql.expressions.registry import CompileContext, function, literal_text
from elfmesh.ql.values.types import STRING, type_name

_NAMED = "Write named_struct('a', x, 'b', y)."
_HINTS = {
    "struct": "Write struct(x AS p, y AS q).",
    "arrays_zip": "Write zip_with(x, y, (a, b) -> struct(a AS p, b AS q)).",
}


def field_names(context: CompileContext, call: Call) -> list[str]:
    """Return the names of the fields that the arguments of a call become. Raises QueryError."""
    names = msgspec.json.decode(call.option, type=list[str])
    _check_names(context, call, names, _HINTS[call.name])
    return names


def struct_fields(expr: Expr) -> Sequence[str]:
    """Return the names of the fields of a struct that an expression makes; none of other expressions."""
    match expr:
        case Call(name="struct"):
            return msgspec.json.decode(expr.option, type=list[str])
        case Call(name="named_struct"):
            return [str(name.value) for name in expr.args[::2] if isinstance(name, Literal)]
    return ()


def _check_names(context: CompileContext, call: Call, names: Sequence[str], hint: str) -> None:
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise context.error(call, f"two fields of {call.name} have the name {twice}", hint)


def struct_array(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    typed = [part.cast(field.type) for part, field in zip(parts, kind, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=list(kind))


@function("struct", 1, None, signature="$(x, y AS name, ...)", lists=True)
def _struct(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return _of(field_names(context, call), args)


@function("named_struct", 2, None, signature="$('name', x, ...)", lists=True)
def _named_struct(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) % 2:
        raise context.error(call, "named_struct takes alternating names and values", _NAMED)
    names = []
    for at in range(0, len(args), 2):
        if args[at].type != STRING:
            raise context.error(
                call.args[at], f"the name of a field is a STRING, not {type_name(args[at].type)}", _NAMED
            )
        name = literal_text(context, call, args, at, "the name of a field")
        if name is None:
            raise context.error(call, "the name of a field is null", _NAMED)
        names.append(name)
    _check_names(context, call, names, _NAMED)
    return _of(names, args[1::2])


def _of(names: Sequence[str], values: Sequence[Operand]) -> Operand:
    kind = pa.struct([(name, each.type) for name, each in zip(names, values, strict=True)])
    return lift_arrays(kind, lambda *parts: struct_array(parts, kind), *values)
