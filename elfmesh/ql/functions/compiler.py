"""Compiler from expressions to operands, once per input schema.

Types come from the batch, because JSON logs have no schema: an expression may compile to other kernels when a
field changes its type. `QueryError` points to the expression whose types Spark would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt.nested import is_nested_key, nested_values
from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import (
    Call,
    Duration,
    Expr,
    FieldRef,
    Lambda,
    Literal,
    Parameter,
    Ref,
    Scalar,
    WindowBound,
    free_parameters,
    place_of,
)
from elfmesh.ql.expressions.operand import Env, LambdaBody, Operand, constant, convert, lift_arrays, shared
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.functions import all  # noqa: F401 - fills the registry
from elfmesh.ql.functions.date_parts import INTERVAL_PARTS, interval_part
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

_INTERVAL_CALLS = {
    "+", "-", "*", "/", "div", "neg", "=", "<>", "<", "<=", ">", ">=", "<=>", "in", "is null", "case", "cast",
    "try_cast", "if", "iff", "coalesce", "nvl", "ifnull", "nvl2", "nullif", "greatest", "least", "typeof",
    "string", "isnull", "isnotnull", "equal_null", "abs", "sign", "signum", "positive", "negative",
    "date_bin", "date_part", "datepart", "sequence", *INTERVAL_PARTS, "sum input", "average",
}  # fmt: skip
"""Operators and functions that compute with an INTERVAL as Spark does."""

_FLOAT_HINT = "Write CAST(x AS DOUBLE) or CAST(x AS STRING) of it."


def window_column(side: str) -> str:
    return f"window.{side}"


def read_column(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column widened to its ELF-QL type, and the lists or structs of nested keys."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if is_nested_key(array.type):
        return nested_values(array)
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

    def body(self, function: Expr, *kinds: pa.DataType) -> LambdaBody:
        """Compile a lambda function for parameters of these types; it may have fewer parameters.

        Raises:
            QueryError: as `compile`.
        """
        assert isinstance(function, Lambda)
        inside = _BodyCompiler(self, dict(zip(function.parameters, kinds, strict=False)), self._source)
        operand = inside.compile(function.body)
        return LambdaBody(function.parameters, operand, tuple(inside.outer))

    def _build(self, expr: Expr) -> Operand:
        if isinstance(expr, Lambda):
            return _NO_VALUE  # the function that takes it compiles it, for the types of its parameters
        if isinstance(expr, Literal):
            return constant(expr.value, _LITERALS[expr.kind])
        if isinstance(expr, Duration):
            length = pa.scalar(expr.us, DURATION)
            return Operand(DURATION, lambda _env: length, constant=True)
        if isinstance(expr, FieldRef):
            return self._column(expr, expr.path)
        if isinstance(expr, Ref | Scalar | Parameter):
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
        if expr.name not in _INTERVAL_CALLS and any(operand.type == DURATION for operand in args):
            named = "this" if " " in expr.name else expr.name
            raise self.error(
                expr,
                f"{named} does not take an INTERVAL",
                "Write CAST(x AS STRING), or x div INTERVAL '1' SECOND.",
            )
        operator = OPERATORS.get(expr.name)
        if expr.name in INTERVAL_PARTS and args[0].type == DURATION:
            operator = interval_part
        return (FUNCTIONS[expr.name].build if operator is None else operator)(self, expr, args)

    def _column(self, expr: Expr, name: str) -> Operand:
        given = self._types.get(name, VOID)
        kind = canonical(given)
        if kind is None:
            raise self.error(
                expr,
                f"{name} is {given}, which an expression cannot use",
                "Name one of its fields with a dot.",
            )
        return Operand(kind, _reader(name, kind))

    def _cast(self, call: Call, operand: Operand) -> Operand:
        target = call.option
        if not castable(operand.type, target):
            raise self.error(
                call,
                f"{type_name(operand.type)} cannot be cast to {target}",
                "Write x div INTERVAL '1' SECOND."
                if operand.type == DURATION
                else "Cast it to STRING first, or take the part that is needed.",
            )
        if target in ("STRING", "BINARY"):
            return convert(operand, target_type(target))
        strict = call.name == "try_cast"
        return lift_arrays(target_type(target), lambda array: cast(array, target, strict=strict), operand)


_NO_VALUE = constant(None, VOID)


class _BodyCompiler(Compiler):
    """Compiler of the body of a lambda function, whose columns are its parameters.

    The compiler around it compiles each subexpression without a parameter; its values are a column here.
    """

    def __init__(self, around: Compiler, parameters: Mapping[str, pa.DataType], source: SourceText) -> None:
        super().__init__(parameters, source)
        self._around = around
        self.outer: list[Operand] = []

    def step(self, expr: Expr) -> Operand:
        if not free_parameters(expr).isdisjoint(self._types):
            return super().step(expr)
        known = self._known.get(expr)
        if known is None:
            known = self._around.step(expr)
            if not known.constant:
                self.outer.append(known)
                known = Operand(known.type, _reader(f"#{len(self.outer) - 1}", known.type))
            self._known[expr] = known
        return known


def _reader(name: str, kind: pa.DataType) -> Any:
    def run(env: Env) -> Value:
        column = env.columns.get(name)
        return pa.nulls(env.rows, kind) if column is None else column

    return run
