"""Compiled expressions: a type, and a function of a batch.

The compiler makes an `Operand` of an expression for one input schema. `run` over an `Env` returns an array,
or a scalar for a constant. The Env keeps the result of every compiled call, so queries over the same rows
share the work. `run` never raises because of data: a row that cannot be computed is null.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.values.cast import cast
from elfmesh.ql.values.columns import Value, as_array, entries_of, list_cuts
from elfmesh.ql.values.growth import Growth, check_taken, inner_growth
from elfmesh.ql.values.types import BINARY, STRING, VOID, is_list, is_map, is_nested, type_name


class Env(Struct):
    """Columns of one batch by name, and cached results of expressions over them.

    `memo` has the results of this run. `shared` has the results that all runs over the same rows share.
    `growth` measures the values of calls (None: no limit).
    """

    columns: Mapping[str, Value]
    rows: int
    memo: dict[object, Value] = field(default_factory=dict)
    shared: MutableMapping[Hashable, Value] = field(default_factory=dict)
    growth: Growth | None = None


class Operand(Struct, frozen=True):
    """Compiled expression: an ELF-QL type, and a function from an Env to a value.

    If `constant`, the value is a Scalar that does not depend on the Env. `raw` returns the bytes of a STRING
    made of a BINARY.
    """

    type: pa.DataType
    run: Callable[[Env], Value]
    constant: bool = False
    raw: Operand | None = None

    def value(self) -> Any:
        assert self.constant
        return self.run(NO_ROWS).as_py()

    def array(self, env: Env) -> pa.Array:
        return as_array(self.run(env), env.rows)


class LambdaBody(Struct, frozen=True):
    """Compiled body of a lambda function.

    `outer` has the operands of the subexpressions without a parameter. They run once per row, and `over`
    repeats their values.
    """

    parameters: tuple[str, ...]
    operand: Operand
    outer: tuple[Operand, ...]

    def over(self, values: Sequence[pa.Array], outer: Sequence[pa.Array], rows: pa.Array) -> pa.Array:
        """Return the values of the body: one for each element of `rows`, which is the row that it belongs to.

        `values` has a column for each parameter, `outer` one for each outer operand.
        """
        columns = dict(zip(self.parameters, values, strict=False))
        for at, column in enumerate(outer):
            check_taken(column, rows)
            columns[f"#{at}"] = column.take(rows)
        return self.operand.array(Env(columns, len(rows), growth=inner_growth()))


class ExprKey:
    """Key of a cache by expression.

    It computes the hash once, because hashing an expression visits all its nodes.
    """

    __slots__ = ("_expr", "_hash")

    def __init__(self, expr: Expr) -> None:
        self._expr = expr
        self._hash = hash(expr)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExprKey) and self._hash == other._hash and self._expr == other._expr


def shared(expr: Expr, operand: Operand) -> Operand:
    """Cache the operand's value in `Env.shared`, so that equal expressions over the same rows run once."""
    if operand.constant:
        return operand
    key, inner = ExprKey(expr), operand.run

    def run(env: Env) -> Value:
        known = env.shared.get(key)
        if known is None:
            known = inner(env) if env.growth is None else env.growth.measured(inner, env)
            env.shared[key] = known
        return known

    return Operand(operand.type, run, raw=operand.raw)


NO_ROWS = Env({}, 0)
ONE_ROW = Env({}, 1)


def constant(value: Any, kind: pa.DataType) -> Operand:
    scalar = pa.scalar(value, type=kind)
    return Operand(kind, lambda _env: scalar, constant=True)


def lift(kind: pa.DataType, kernel: Callable[..., Value], *operands: Operand) -> Operand:
    """Return an operand that applies a kernel to the operands' values, of which at least one is an array.

    Constant operands are passed as scalars. If all are constant, the kernel runs now, over one row.
    """
    if all(operand.constant for operand in operands):
        only = as_array(kernel(*(operand.array(ONE_ROW) for operand in operands)), 1)[0]
        return Operand(kind, lambda _env: only, constant=True)
    slot = object()

    def run(env: Env) -> Value:
        known = env.memo.get(slot)
        if known is None:
            known = env.memo[slot] = kernel(*(operand.run(env) for operand in operands))
        return known

    return Operand(kind, run)


def lift_arrays(kind: pa.DataType, kernel: Callable[..., pa.Array], *operands: Operand) -> Operand:
    def over_arrays(*values: Value) -> Value:
        rows = next(len(value) for value in values if not isinstance(value, pa.Scalar))
        return kernel(*(as_array(value, rows) for value in values))

    return lift(kind, over_arrays, *operands)


def cast_nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert the values inside of lists, structs and maps; `kind` has their shape."""
    if array.type == kind:
        return array
    if array.type == VOID:
        return pa.nulls(len(array), kind)
    mask = array.is_null() if array.null_count else None
    if is_list(kind):
        flat = cast_nested(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(list_cuts(array), flat, mask=mask)
    if pa.types.is_struct(kind):
        parts = [
            cast_nested(pc.struct_field(array, at), kind.field(at).type) for at in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if is_map(kind):
        entries = entries_of(array)
        sides = (pc.struct_field(entries.flatten(), at) for at in range(2))
        keys, items = map(cast_nested, sides, (kind.key_type, kind.item_type))
        return pa.MapArray.from_arrays(list_cuts(entries), keys, items, mask=mask)
    return cast(array, type_name(kind))


def convert(operand: Operand, kind: pa.DataType) -> Operand:
    if operand.type == kind:
        return operand
    if operand.type == VOID:
        return lift_arrays(kind, lambda array: pa.nulls(len(array), kind), operand)
    if is_nested(kind):
        return lift_arrays(kind, lambda array: cast_nested(array, kind), operand)
    if kind == BINARY and operand.raw is not None:
        return operand.raw
    name = type_name(kind)
    made = lift_arrays(kind, lambda array: cast(array, name), operand)
    return replace(made, raw=operand) if (operand.type, kind) == (BINARY, STRING) else made
