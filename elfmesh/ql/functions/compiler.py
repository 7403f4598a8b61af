"""Compiler from expressions to operands, once per input schema.

Types come from the batch, because JSON logs have no schema: an expression may compile to other kernels when a
field changes its type. `QueryError` points to the expression whose types Spark would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import (
    Call,
    Duration,
    Expr,
    FieldRef,
    Literal,
    Ref,
    Scalar,
    WindowBound,
    place_of,
)
from elfmesh.ql.expressions.operand import Env, Operand, constant, convert, lift_arrays, shared
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.functions import all  # noqa: F401 - fills the registry
from elfmesh.ql.values.cast import cast, castable, target_type
from elfmesh.ql.values.columns import Value
from elfmesh.ql.values.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    DURATION,
    FLOAT,
    STRING,
    TIMESTAMP,
    VOID,
    canonical,
    type_name,
)

_LITERALS: dict[str, pa.DataType] = {
    "null": VOID, "bool": BOOLEAN, "bigint": BIGINT, "double": DOUBLE, "string": STRING,
}  # fmt: skip

_FLOAT_CALLS = {
    "+", "-", "*", "/", "%", "neg", "=", "<>", "<", "<=", ">", ">=", "<=>", "in", "is null", "case", "cast",
    "try_cast", "if", "iff", "coalesce", "nvl", "ifnull", "nvl2", "typeof", "pmod", "bigint", "int",
    "smallint", "tinyint", "double", "float", "decimal", "string", "boolean", "timestamp",
}  # fmt: skip
"""Operators and functions that compute with a FLOAT as Spark does."""

_FLOAT_HINT = "Write CAST(x AS DOUBLE) or CAST(x AS STRING) of it."


def window_column(side: str) -> str:
    return f"window.{side}"


def read_column(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column widened to its ELF-QL type; the caller refuses nested values."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    kind = canonical(array.type)
    if kind is None or kind == array.type:
        return array
    if kind == TIMESTAMP:
        if array.type.tz is None:
            return pc.cast(array, pa.timestamp("us"), safe=False).view(pa.int64()).view(TIMESTAMP)
        return pc.cast(array, TIMESTAMP, safe=False)
    if kind == BIGINT and pa.types.is_uint64(array.type):
        try:
            return pc.cast(array, BIGINT)
        except pa.ArrowInvalid:
            return pc.if_else(pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())), None, array).cast(BIGINT)
    return pc.cast(array, kind, safe=False)


class Compiler:
    """Compiler of expressions against the Arrow types of named columns; a missing field is VOID."""

    def __init__(self, types: Mapping[str, pa.DataType], source: SourceText) -> None:
        self._types = types
        self._source = source
        self._known: dict[Expr, Operand] = {}

    def error(self, expr: Expr, message: str, hint: str = "") -> QueryError:
        return self._source.error(message, place_of(expr), hint)

    def compile(self, expr: Expr) -> Operand:
        """Return the operand of an expression that stands alone; equal expressions share one.

        Raises:
            QueryError: Spark refuses the types, or the value is a FLOAT, which no column can hold.
        """
        found = self.step(expr)
        if found.type == FLOAT:
            raise self.error(expr, "a FLOAT is a step of an expression and no column", _FLOAT_HINT)
        return found

    def step(self, expr: Expr) -> Operand:
        """Return the operand of an expression that another one uses."""
        known = self._known.get(expr)
        if known is None:
            known = self._build(expr)
            if isinstance(expr, Call):
                known = shared(expr, known)
            self._known[expr] = known
        return known

    def _build(self, expr: Expr) -> Operand:
        if isinstance(expr, Literal):
            return constant(expr.value, _LITERALS[expr.kind])
        if isinstance(expr, Duration):
            return constant(pa.scalar(expr.us, DURATION).as_py(), DURATION)
        if isinstance(expr, FieldRef):
            return self._column(expr, expr.path)
        if isinstance(expr, Ref | Scalar):
            return self._column(expr, expr.name)
        if isinstance(expr, WindowBound):
            return Operand(TIMESTAMP, _reader(window_column(expr.side), TIMESTAMP))
        assert isinstance(expr, Call), expr
        args = [self.step(arg) for arg in expr.args]
        if expr.name not in _FLOAT_CALLS and any(operand.type == FLOAT for operand in args):
            raise self.error(
                expr, f"{'this' if ' ' in expr.name else expr.name} does not take a FLOAT", _FLOAT_HINT
            )
        if expr.name in ("cast", "try_cast"):
            return self._cast(expr, args[0])
        operator = OPERATORS.get(expr.name)
        if operator is not None:
            return operator(self, expr, args)
        for operand in args:
            if operand.type == DURATION:
                raise self.error(
                    expr,
                    "an INTERVAL can only be added to or subtracted from a time",
                    "Write ts + INTERVAL '5' MINUTE.",
                )
        return FUNCTIONS[expr.name].build(self, expr, args)

    def _column(self, expr: Expr, name: str) -> Operand:
        given = self._types.get(name, VOID)
        kind = canonical(given)
        if kind is None:
            shown = "an INTERVAL" if pa.types.is_duration(given) else given
            raise self.error(
                expr,
                f"{name} is {shown}, which an expression cannot use",
                "Name one of its fields with a dot.",
            )
        return Operand(kind, _reader(name, kind))

    def _cast(self, call: Call, operand: Operand) -> Operand:
        target = call.option
        if operand.type == DURATION or not castable(operand.type, target):
            raise self.error(
                call,
                f"{type_name(operand.type)} cannot be cast to {target}",
                "Cast it to STRING first, or take the part that is needed.",
            )
        if target in ("STRING", "BINARY"):
            return convert(operand, target_type(target))
        strict = call.name == "try_cast"
        return lift_arrays(target_type(target), lambda array: cast(array, target, strict=strict), operand)


def _reader(name: str, kind: pa.DataType) -> Any:
    def run(env: Env) -> Value:
        column = env.columns.get(name)
        return pa.nulls(env.rows, kind) if column is None else column

    return run
