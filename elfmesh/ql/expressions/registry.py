"""Registry of the functions of ELF-QL.

The parser looks up names and argument counts in `FUNCTIONS`; the compiler looks up the builders. The
functions are in `ql/functions`, each with Spark's meaning and null rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa
from msgspec import Struct

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call, Expr
from elfmesh.ql.expressions.operand import LambdaBody, Operand, convert, lift, lift_arrays
from elfmesh.ql.values.columns import Value
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    VOID,
    is_decimal,
    is_nested,
    type_name,
)


class CompileContext(Protocol):
    """Interface of the compiler for builders."""

    def error(self, expr: Expr, message: str, hint: str = "") -> QueryError: ...

    def body(self, function: Expr, *kinds: pa.DataType) -> LambdaBody:
        """Compile a lambda function for parameters of these types; it may have fewer parameters."""
        ...


Builder = Callable[[CompileContext, Call, list[Operand]], Operand]


class Function(Struct, frozen=True):
    """Function: argument counts (`most` None: no limit), signature, builder, whether it gives a list.

    `lambdas` has the arguments that are lambda functions, with the numbers of parameters that they may have.
    """

    name: str
    least: int
    most: int | None
    signature: str
    build: Builder
    lists: bool = False
    lambdas: Mapping[int, tuple[int, ...]] = MappingProxyType({})


FUNCTIONS: dict[str, Function] = {}


def function(
    names: str, least: int, most: int | None = -1, *, signature: str = "", lists: bool = False,
    lambdas: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
) -> Callable[[Builder], Builder]:  # fmt: skip
    """Register a builder under one or more names, separated by spaces; `most` defaults to `least`."""

    def enter(build: Builder) -> Builder:
        for name in names.split():
            assert name not in FUNCTIONS, name
            FUNCTIONS[name] = Function(
                name, least, least if most == -1 else most, signature.replace("$", name), build, lists,
                lambdas,
            )  # fmt: skip
        return build

    return enter


def simple(
    names: str, takes: Sequence[pa.DataType], gives: pa.DataType, kernel: Callable[..., Value],
    *, least: int | None = None, arrays: bool = False, signature: str = "",
) -> None:  # fmt: skip
    """Register a function by its kernel and the types to which its arguments are converted."""

    def build(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
        converted = [argument(context, call, args, at, takes[at]) for at in range(len(args))]
        return (lift_arrays if arrays else lift)(gives, kernel, *converted)

    function(names, len(takes) if least is None else least, len(takes), signature=signature)(build)


def argument(context: CompileContext, call: Call, args: list[Operand], at: int, kind: pa.DataType) -> Operand:
    """Return argument `at`, implicitly converted as in Spark.

    Raises QueryError if Spark refuses the conversion.
    """
    given = args[at].type
    number = given in (BIGINT, DOUBLE, STRING, VOID) or is_decimal(given)
    allowed = {
        STRING: not is_nested(given),
        BINARY: given in (BINARY, STRING, VOID),
        DOUBLE: number,
        BIGINT: number,
        BOOLEAN: given in (BOOLEAN, VOID),
        DATE: given in (DATE, TIMESTAMP, STRING, VOID),
        TIMESTAMP: given in (TIMESTAMP, DATE, STRING, VOID),
    }[kind]
    if not allowed:
        raise context.error(
            call.args[at] if at < len(call.args) else call,
            f"argument {at + 1} of {call.name} is {type_name(given)}, not {type_name(kind)}",
            f"Convert it first: CAST(... AS {type_name(kind)}).",
        )
    return convert(args[at], kind)


def implicitly(
    context: CompileContext, expr: Expr, operand: Operand, kind: pa.DataType, what: str
) -> Operand:
    """Convert an operand implicitly to a type, as Spark does. A VOID operand becomes a null of this type.

    Raises:
        QueryError: Spark refuses the conversion.
    """
    given = operand.type
    number = given in (BIGINT, DOUBLE, STRING) or is_decimal(given)
    allowed = (
        kind == VOID or given in (VOID, kind) or (number and (kind in (BIGINT, DOUBLE) or is_decimal(kind)))
    )
    allowed = allowed or (kind == STRING and not is_nested(given)) or (kind == BINARY and given == STRING)
    allowed = allowed or (kind in (DATE, TIMESTAMP) and given in (DATE, TIMESTAMP, STRING))
    if not allowed:
        raise context.error(
            expr,
            f"{what} is {type_name(given)}, not {type_name(kind)}",
            f"Write CAST(... AS {type_name(kind)}).",
        )
    return operand if kind == VOID else convert(operand, kind)


def literal_text(context: CompileContext, call: Call, args: list[Operand], at: int, what: str) -> str | None:
    """Return the string constant in argument `at`; None for NULL.

    Raises QueryError if it is not a constant.
    """
    if not args[at].constant:
        raise context.error(
            call.args[at], f"{what} of {call.name} must be a constant", "Write it as a 'string' in the query."
        )
    value = convert(args[at], STRING).value()
    return None if value is None else str(value)


def literal_int(context: CompileContext, call: Call, args: list[Operand], at: int, what: str) -> int | None:
    """Return the integer constant in argument `at`; None for NULL.

    Raises QueryError if it is not a constant.
    """
    if not args[at].constant:
        raise context.error(
            call.args[at], f"{what} of {call.name} must be a constant", "Write it as a number in the query."
        )
    value = argument(context, call, args, at, BIGINT).value()
    return None if value is None else int(value)


def nothing(kind: pa.DataType) -> Operand:
    null = pa.scalar(None, type=kind)
    return Operand(kind, lambda _env: null, constant=True)
