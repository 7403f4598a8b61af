"""Operators of the last step of aggregates, from a finished state to the shown value.

Queries cannot call them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt.laws import LAWS, sketches
from elfmesh.cbt.laws.hll import REGISTERS
from elfmesh.cbt.laws.sketches import SketchError
from elfmesh.ql.expressions.aggregates import PLAIN_NUMBERS
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS, condition
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_int
from elfmesh.ql.values import decimals
from elfmesh.ql.values.columns import float_values, from_numpy, int_values, null_mask
from elfmesh.ql.values.times import to_timestamp_us
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    PRECISION_MAX,
    STRING,
    TIMESTAMP,
    VOID,
    is_decimal,
    is_list,
    type_name,
)

_THETA_LOG = 12
UNTIMED_US = 2**63 - 1
"""Event time in microseconds by which `first` orders records that have none; negated for `last`."""


def _operator(name: str) -> Callable[[Any], Any]:
    def enter(build: Any) -> Any:
        OPERATORS[name] = build
        return build

    return enter


# -- inputs of aggregates


@_operator("condition")
def _condition(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return condition(context, call, args, 0)


@_operator("sum input")
def _sum_input(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    (operand,) = args
    unfit = (BOOLEAN, DATE, BINARY, *((DURATION,) if call.option == PLAIN_NUMBERS else ()))
    if operand.type in unfit or is_list(operand.type):
        hint = "Write count(*) FILTER (WHERE x)." if operand.type == BOOLEAN else "Write unix_timestamp(x)."
        hint = "Write x div INTERVAL '1' SECOND." if operand.type == DURATION else hint
        raise context.error(call, f"sum and avg do not work on {type_name(operand.type)}", hint)
    # Nulls alone have no type: at another agent the column can be of integers, whose sum is an integer.
    exact = operand.type in (BIGINT, DURATION, VOID) or is_decimal(operand.type)
    return operand if exact else convert(operand, DOUBLE)


@_operator("bits input")
def _bits_input(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[0].type not in (BIGINT, VOID):
        name = type_name(args[0].type)
        raise context.error(call, f"{call.option} works on BIGINT, not {name}", "Write CAST(x AS BIGINT).")
    return convert(args[0], BIGINT)


@_operator("spread input")
def _spread_input(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    number = _sum_input(context, call, args)
    return number if number.type in (BIGINT, VOID) else convert(number, DOUBLE)


@_operator("text input")
def _text_input(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the input of listagg: bytes unchanged, all others as strings."""
    if is_list(args[0].type) or pa.types.is_duration(args[0].type):
        hint = "Write array_join(x, ',')."
        raise context.error(call, f"listagg does not work on {type_name(args[0].type)}", hint)
    return args[0] if args[0].type == BINARY else convert(args[0], STRING)


@_operator("order input")
def _order_input(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    (operand,) = args
    if is_decimal(operand.type):
        return convert(operand, DOUBLE)
    if operand.type not in (BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, VOID):
        raise context.error(
            call,
            f"min_by and max_by order by a number or a time, not by {type_name(operand.type)}",
            "Convert it: CAST(x AS DOUBLE), CAST(x AS TIMESTAMP).",
        )
    return operand


@_operator("sketch input")
def _sketch_input(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    (operand,) = args
    if operand.type not in (BINARY, VOID):
        raise context.error(
            call,
            f"{call.option} merges sketches, which are BINARY, not {type_name(operand.type)}",
            "Write unbase64(x) or unhex(x) if they are text.",
        )
    return convert(operand, BINARY)


@_operator("event time")
def _event_time(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the event time of a record, read as for windows.

    Records without a time come last in `first` and `last`.
    """
    time = lift_arrays(TIMESTAMP, to_timestamp_us, args[0])
    if not call.option:
        return time
    worst = pa.scalar(UNTIMED_US if call.option == "first" else -UNTIMED_US, BIGINT)
    return lift(TIMESTAMP, lambda x: pc.fill_null(x.view(pa.int64()), worst).view(TIMESTAMP), time)


# -- results


@_operator("average")
def _average(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if is_decimal(args[0].type):
        # The sum of a DECIMAL(p, s) is a DECIMAL(p + 10, s), their average a DECIMAL(p + 4, s + 4).
        whole = args[0].type.precision
        precision = PRECISION_MAX if whole >= PRECISION_MAX else whole - 6
        kind = pa.decimal128(precision, min(args[0].type.scale + 4, precision))
        return lift_arrays(kind, lambda whole, count: decimals.averages(whole, count, kind), *args)
    return OPERATORS["/"](context, Call("/", call.args, at=call.at), args)


@_operator("spread")
def _spread(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    whole = call.option in ("var_pop", "stddev_pop")
    root = call.option.startswith("std")

    def over(squares: pa.Array, counts: pa.Array) -> pa.Array:
        divisor = int_values(counts) - (0 if whole else 1)
        null = null_mask(squares) | (divisor <= 0)
        variance = float_values(squares) / np.where(divisor <= 0, 1, divisor)
        return from_numpy(np.sqrt(variance) if root else variance, null, DOUBLE)

    return lift_arrays(
        DOUBLE, over, *(convert(arg, kind) for arg, kind in zip(args, (DOUBLE, BIGINT), strict=True))
    )


@_operator("togetherness")
def _togetherness(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Compute covar_pop, covar_samp or corr from central sums of products and squares, and counts."""
    whole = call.option != "covar_samp"

    def over(products: pa.Array, counts: pa.Array, *squares: pa.Array) -> pa.Array:
        divisor = int_values(counts) - (0 if whole else 1)
        if squares:
            with np.errstate(invalid="ignore", divide="ignore"):
                roots = np.sqrt(float_values(squares[0])) * np.sqrt(float_values(squares[1]))
                found = float_values(products) / roots
            null = null_mask(products) | (int_values(counts) <= 1) | (roots == 0)
            return from_numpy(np.where(np.isnan(found), found, np.clip(found, -1.0, 1.0)), null, DOUBLE)
        null = null_mask(products) | (divisor <= 0)
        return from_numpy(float_values(products) / np.where(divisor <= 0, 1, divisor), null, DOUBLE)

    kinds = (DOUBLE, BIGINT, DOUBLE, DOUBLE)[: len(args)]
    return lift_arrays(DOUBLE, over, *(convert(arg, kind) for arg, kind in zip(args, kinds, strict=True)))


@_operator("joined list")
def _joined_list(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = args[0].type.value_type if is_list(args[0].type) else VOID
    kind = STRING if kind == VOID else kind

    def over(lists: pa.Array) -> pa.Array:
        if lists.type == VOID:
            return pa.nulls(len(lists), kind)
        texts = pc.cast(lists, pa.list_(kind)) if lists.type.value_type == VOID else lists
        joined = pc.binary_join(texts, pa.scalar(call.option, kind))
        empty = pc.equal(pc.list_value_length(texts), 0)
        return pc.if_else(empty, pa.scalar(None, kind), joined)

    return lift_arrays(kind, over, args[0])


@_operator("head of list")
def _head(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    count = int(call.option)
    return lift_arrays(
        args[0].type, lambda lists: pc.list_slice(lists, 0, count, return_fixed_size_list=False), args[0]
    )


@_operator("hll count")
def _hll_count(_context: CompileContext, _call: Call, args: list[Operand]) -> Operand:
    return lift_arrays(BIGINT, sketches.hll_counts, args[0])


@_operator("hll registers")
def _hll_registers(_context: CompileContext, _call: Call, args: list[Operand]) -> Operand:
    """Return the count of sketches with registers, and null for those with coupons."""

    def counts(held: pa.Array) -> pa.Array:
        dense = pc.greater_equal(pc.binary_length(held), REGISTERS)
        return pc.if_else(dense, sketches.hll_counts(held), pa.scalar(None, BIGINT))

    return lift_arrays(BIGINT, counts, args[0])


@_operator("kll quantile")
def _kll_quantile(_context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    several = call.option.startswith("[")
    ranks = [float(rank) for rank in call.option.lstrip("[").split()]
    kind = args[1].type if args[1].type in (BIGINT, DOUBLE) else DOUBLE

    def over(held: pa.Array, _greatest: pa.Array) -> pa.Array:
        lists = sketches.kll_quantiles(held, ranks)
        shown = pc.cast(lists, pa.list_(kind)) if kind != DOUBLE else lists
        return shown if several else pc.list_element(shown, 0)

    return lift_arrays(pa.list_(kind) if several else kind, over, *args)


# -- sketch functions in queries


def _sketch_function(
    context: CompileContext, call: Call, args: list[Operand], kind: pa.DataType, read: Callable[..., Any]
) -> Operand:
    """Call `read(bytes, ...)` row by row; bytes that are not a sketch give null."""
    for at, operand in enumerate(args):
        if operand.type not in (BINARY, VOID):
            raise context.error(
                call.args[at],
                f"{call.name} reads sketches, which are BINARY, not {type_name(operand.type)}",
                "Write a column that a sketch function has made.",
            )

    def one(*held: bytes | None) -> Any:
        if None in held:
            return None
        try:
            return read(*held)
        except SketchError:
            return None

    def over(*columns: pa.Array) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([one(*row) for row in rows], kind)

    return lift_arrays(kind, over, *(convert(operand, BINARY) for operand in args))


@function("hll_sketch_estimate", 1, signature="$(sketch)")
def _hll_estimate(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    sketches.library()  # raises now if the library is missing

    def read(held: bytes) -> int:
        estimate: float = sketches.hll_estimates(pa.array([held], BINARY))[0].as_py()
        return round(estimate)

    return _sketch_function(context, call, args, BIGINT, read)


@function("theta_sketch_estimate", 1, signature="$(sketch)")
def _theta_estimate(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return _sketch_function(context, call, args, BIGINT, lambda held: round(sketches.theta_estimate(held)))


@function("hll_union kll_sketch_merge_double", 2, signature="$(sketch, sketch)")
def _union(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    law = LAWS["hllmerge" if call.name == "hll_union" else "kllmerge"]

    def read(*held: bytes) -> bytes | None:
        both = law.lift(pa.array(held, BINARY), np.zeros(len(held), np.int64), 1)
        united: bytes | None = law.finish(both, 1)[0].as_py()
        return united

    return _sketch_function(context, call, args, BINARY, read)


@function("theta_union", 2, 3, signature="$(sketch, sketch[, log2 of the entries])")
def _theta_union(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    log = literal_int(context, call, args, 2, "the logarithm") if len(args) == 3 else _THETA_LOG
    if log is None or not 4 <= log <= 14:
        raise context.error(call, "the logarithm of the entries is from 4 to 14", "Write 12.")
    return _sketch_function(context, call, args[:2], BINARY, partial(sketches.theta_union, entries=1 << log))


@function("theta_intersection theta_difference", 2, signature="$(sketch, sketch)")
def _theta_sets(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    read = sketches.theta_intersection if call.name == "theta_intersection" else sketches.theta_difference
    return _sketch_function(context, call, args, BINARY, read)


@function("kll_sketch_get_quantile_double", 2, signature="$(sketch, share)")
def _kll_read(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    share = argument(context, call, args, 1, DOUBLE)
    if not share.constant or share.value() is None or not 0 <= share.value() <= 1:
        raise context.error(call.args[1], f"{call.name} takes a constant share from 0 to 1", "Write 0.99.")
    rank = float(share.value())

    def read(held: bytes) -> float | None:
        found = sketches.kll_quantiles(pa.array([held], BINARY), [rank])[0].as_py()
        return None if found is None else float(found[0])

    return _sketch_function(context, call, args[:1], DOUBLE, read)
