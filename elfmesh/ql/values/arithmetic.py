"""Arithmetic kernels over whole columns of bigints and doubles; null where a result leaves 64 bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.values.civil import Ints
from elfmesh.ql.values.columns import Bools, Value, from_numpy, int_values, null_mask
from elfmesh.ql.values.types import BIGINT, DOUBLE


def _wrapping(
    checked: Callable[[Value, Value], Value], exact: Callable[[Ints, Ints], tuple[Ints, Bools]]
) -> Callable[[Value, Value], Value]:
    def kernel(left: Value, right: Value) -> Value:
        try:
            return checked(left, right)
        except pa.ArrowInvalid:
            rows = max(len(value) for value in (left, right) if not isinstance(value, pa.Scalar))
            arrays = [
                pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value for value in (left, right)
            ]
            null = null_mask(arrays[0]) | null_mask(arrays[1])
            with np.errstate(all="ignore"):
                values, overflow = exact(int_values(arrays[0]), int_values(arrays[1]))
            return from_numpy(values, null | overflow, BIGINT)

    return kernel


def _exact_add(a: Ints, b: Ints) -> tuple[Ints, Bools]:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _exact_subtract(a: Ints, b: Ints) -> tuple[Ints, Bools]:
    rest = a - b
    return rest, ((a ^ b) & (a ^ rest)) < 0


def _exact_multiply(a: Ints, b: Ints) -> tuple[Ints, Bools]:
    product = a * b
    lowest = np.iinfo(np.int64).min
    back = product // np.where(b == 0, 1, b)
    return product, ((b != 0) & (back != a)) | ((a == -1) & (b == lowest)) | ((b == -1) & (a == lowest))


add = _wrapping(pc.add_checked, _exact_add)
subtract = _wrapping(pc.subtract_checked, _exact_subtract)
multiply = _wrapping(pc.multiply_checked, _exact_multiply)


def divide(left: Value, right: Value) -> Value:
    return pc.divide(left, pc.if_else(pc.equal(right, 0.0), pa.scalar(None, DOUBLE), right))


def int_div(left: pa.Array, right: pa.Array) -> pa.Array:
    a, b = int_values(left), int_values(right)
    overflow = (a == np.iinfo(np.int64).min) & (b == -1)
    null = null_mask(left) | null_mask(right) | (b == 0) | overflow
    return pc.divide(left, from_numpy(np.where(null, 1, b), null, BIGINT))


def int_remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    a, b = int_values(left), int_values(right)
    null = null_mask(left) | null_mask(right) | (b == 0)
    safe = np.where(null | (b == -1), 1, b)
    return from_numpy(np.fmod(a, safe), null, BIGINT)


def double_remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    a = np.asarray(left.to_numpy(zero_copy_only=False), dtype=np.float64)
    b = np.asarray(right.to_numpy(zero_copy_only=False), dtype=np.float64)
    null = null_mask(left) | null_mask(right) | (b == 0)
    with np.errstate(invalid="ignore"):
        return from_numpy(np.fmod(a, b), null, DOUBLE)
