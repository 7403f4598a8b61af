"""Compiled expressions: a type, and a closure over a batch.

The compiler makes an `Operand` of an expression for one input schema. Running it over an `Env` gives an
array, or a scalar for a constant. The Env keeps the result of every compiled call, so all queries over the
same rows share the work. Running never raises because of data; a row that cannot be computed is null.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.values.cast import cast
from elfmesh.ql.values.columns import Value, as_array, list_cuts
from elfmesh.ql.values.growth import Growth
from elfmesh.ql.values.types import BINARY, STRING, VOID, is_list, type_name


@dataclass(slots=True)
class Env:
    """The columns of one batch by name, and what was already computed from them.

    `memo` holds results of this run; `shared` holds values that all runs over the same rows may share;
    `growth` measures the values of calls (None: no limit).
    """

    columns: Mapping[str, Value]
    rows: int
    memo: dict[object, Value] = field(default_factory=dict)
    shared: MutableMapping[Hashable, Value] = field(default_factory=dict)
    growth: Growth | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A compiled expression: ELF-QL type, and value over an Env.

    A `constant` gives a Scalar that does not depend on the Env. `raw` gives the bytes of a STRING made of a
    BINARY.
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


class ExprKey:
    """An expression as a key: its hash is taken once, not from the leaves up at every look-up."""

    __slots__ = ("_expr", "_hash")

    def __init__(self, expr: Expr) -> None:
        self._expr = expr
        self._hash = hash(expr)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExprKey) and self._hash == other._hash and self._expr == other._expr


def shared(expr: Expr, operand: Operand) -> Operand:
    """The operand of an expression, run once for all who run an equal expression over the same rows."""
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
_ONE_ROW = Env({}, 1)


def constant(value: Any, kind: pa.DataType) -> Operand:
    scalar = pa.scalar(value, type=kind)
    return Operand(kind, lambda _env: scalar, constant=True)


def lift(kind: pa.DataType, kernel: Callable[..., Value], *operands: Operand) -> Operand:
    """An operand that applies a kernel to values; at least one of them is an array.

    Constant operands reach the kernel as scalars. If all are constant, the kernel runs now, over one row.
    """
    if all(operand.constant for operand in operands):
        only = as_array(kernel(*(operand.array(_ONE_ROW) for operand in operands)), 1)[0]
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


def cast_list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == VOID:
        return pa.nulls(len(array), kind)
    if is_list(kind.value_type):
        flat = cast_list(array.flatten(), kind.value_type)
    else:
        flat = cast(array.flatten(), type_name(kind.value_type))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(list_cuts(array), flat, mask=mask)


def convert(operand: Operand, kind: pa.DataType) -> Operand:
    if operand.type == kind:
        return operand
    if operand.type == VOID:
        return lift_arrays(kind, lambda array: pa.nulls(len(array), kind), operand)
    if is_list(kind):
        return lift_arrays(kind, lambda array: cast_list(array, kind), operand)
    if kind == BINARY and operand.raw is not None:
        return operand.raw
    name = type_name(kind)
    made = lift_arrays(kind, lambda array: cast(array, name), operand)
    return replace(made, raw=operand) if (operand.type, kind) == (BINARY, STRING) else made
