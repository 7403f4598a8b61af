"""Sums, differences and multiples of times and intervals, with Spark's rules (ANSI off).

A value that leaves 64 bits is null, and so is a division by 0; Spark raises errors. An operand of unknown
type, a field that no record has, gives a result of unknown type.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.expressions.registry import CompileContext
from elfmesh.ql.values.arithmetic import add, int_div, subtract
from elfmesh.ql.values.civil import DAY_US
from elfmesh.ql.values.columns import from_numpy, int_values, null_mask
from elfmesh.ql.values.intervals import divided, multiplied
from elfmesh.ql.values.types import (
    BIGINT,
    DATE,
    DOUBLE,
    DURATION,
    FLOAT,
    STRING,
    TIMESTAMP,
    VOID,
    is_decimal,
    type_name,
)

Kernel: TypeAlias = Callable[[pa.Array, pa.Array], pa.Array]


def time_arithmetic(context: CompileContext, call: Call, left: Operand, right: Operand) -> Operand:
    """Return the operand of an operation of which an operand is a time or an interval.

    Raises:
        QueryError: Spark has no such operation.
    """
    if VOID in (left.type, right.type) and not (call.name == "+" and DATE in (left.type, right.type)):
        return left if left.type == VOID else right
    found = _of_interval(call.name, left, right) if call.name in ("*", "/", "div") else None
    if call.name == "-" and {left.type, right.type} <= {DATE, TIMESTAMP}:
        found = _in_micros(subtract, DURATION, convert(left, TIMESTAMP), convert(right, TIMESTAMP))
    elif call.name in ("+", "-") and left.type == right.type == DURATION:
        found = _in_micros(add if call.name == "+" else subtract, DURATION, left, right)
    elif call.name in ("+", "-"):
        if call.name == "+" and (left.type == DURATION or (left.type != DATE and right.type == DATE)):
            left, right = right, left
        found = _moved(1 if call.name == "+" else -1, left, right)
    if found is not None:
        return found
    hint = "Write date + INTERVAL '1' DAY, date + 1, or date_add(date, 1)."
    if call.name == "-" and right.type == STRING:
        hint = "Write CAST(... AS TIMESTAMP) of the text."
    elif DURATION in (left.type, right.type):
        hint = "An INTERVAL is added to a time, multiplied by a number, or compared with another one."
    raise context.error(
        call, f"`{call.name}` does not work on {type_name(left.type)} and {type_name(right.type)}", hint
    )


def _moved(sign: int, time: Operand, by: Operand) -> Operand | None:
    if sign > 0 and time.type == DATE and by.type == VOID:
        return convert(by, TIMESTAMP)  # Spark treats NULL as an interval
    if time.type == DATE and by.type == BIGINT:
        return lift_arrays(DATE, lambda days, number: add_days(days, number, sign), time, by)
    if by.type != DURATION or time.type not in (DATE, TIMESTAMP, STRING):
        return None
    if time.type == DATE and by.constant and not (by.value() or timedelta()) % timedelta(days=1):
        number = lift_arrays(BIGINT, _days, by)
        return lift_arrays(DATE, lambda days, count: add_days(days, count, sign), time, number)
    moved = _in_micros(add if sign > 0 else subtract, TIMESTAMP, convert(time, TIMESTAMP), by)
    return convert(moved, STRING) if time.type == STRING else moved


def _of_interval(name: str, left: Operand, right: Operand) -> Operand | None:
    """Return an interval times or by a number, or how often one fits into another; None for other types."""
    if name == "div":
        both = left.type == right.type == DURATION
        return _in_micros(int_div, BIGINT, left, right) if both else None
    if name == "*" and right.type == DURATION:
        left, right = right, left
    if left.type != DURATION or not (right.type in (BIGINT, DOUBLE, FLOAT, STRING) or is_decimal(right.type)):
        return None
    number = convert(right, DOUBLE) if right.type in (FLOAT, STRING) else right
    return lift_arrays(DURATION, multiplied if name == "*" else divided, left, number)


def _in_micros(kernel: Kernel, kind: pa.DataType, left: Operand, right: Operand) -> Operand:
    return lift_arrays(
        kind, lambda a, b: kernel(a.view(pa.int64()), b.view(pa.int64())).view(kind), left, right
    )


def negated(intervals: pa.Array) -> pa.Array:
    """Return intervals with the other sign; null if that leaves 64 bits."""
    return subtract(pa.scalar(0, BIGINT), intervals.view(pa.int64())).view(DURATION)


def _days(intervals: pa.Array) -> pa.Array:
    return from_numpy(int_values(intervals) // DAY_US, null_mask(intervals), BIGINT)


def add_days(days: pa.Array, by: pa.Array, sign: int) -> pa.Array:
    """Move dates by a column of days; null if the result exceeds the range of dates."""
    base = pc.cast(days.view(pa.int32()), BIGINT)
    moved = int_values(base) + sign * np.clip(int_values(by), -(2**33), 2**33)
    null = null_mask(days) | null_mask(by) | (np.abs(moved) >= 2**31)
    return from_numpy(np.where(null, 0, moved), null, DATE)
