"""Operands: constants are computed at compilation, equal calls once per batch, lists by their elements."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.ql.expressions.nodes import Call, FieldRef
from elfmesh.ql.expressions.operand import Env, Operand, constant, convert, lift, lift_arrays, shared
from elfmesh.ql.values.columns import Value
from elfmesh.ql.values.types import BIGINT, BINARY, DOUBLE, STRING, VOID

A = Operand(BIGINT, lambda env: env.columns["a"])
ENV = {"a": pa.array([1, None, 3])}


class Kernel:
    """Negates, and counts how often it ran and over what."""

    def __init__(self) -> None:
        self.given: list[tuple[Value, ...]] = []

    def __call__(self, *values: Value) -> Value:
        self.given.append(values)
        return pa.compute.negate(values[0])


def test_an_operation_on_constants_runs_at_compilation_and_never_again() -> None:
    kernel = Kernel()
    made = lift(BIGINT, kernel, constant(5, BIGINT))
    assert (made.constant, made.value(), len(kernel.given)) == (True, -5, 1)
    assert made.array(Env(ENV, 3)).to_pylist() == [-5, -5, -5]
    assert len(kernel.given) == 1


def test_an_operation_runs_once_for_each_batch() -> None:
    kernel = Kernel()
    made = lift(BIGINT, kernel, A, constant(5, BIGINT))
    one, other = Env(ENV, 3), Env({"a": pa.array([7])}, 1)
    assert [made.run(env).to_pylist() for env in (one, one, other)] == [[-1, None, -3], [-1, None, -3], [-7]]
    assert len(kernel.given) == 2
    assert kernel.given[0][1] == pa.scalar(5)  # a constant stays a scalar


def test_arrays_are_made_of_constants_for_a_kernel_that_needs_them() -> None:
    kernel = Kernel()
    lift_arrays(BIGINT, kernel, constant(5, BIGINT), A).run(Env(ENV, 3))
    assert [value.to_pylist() for value in kernel.given[0]] == [[5, 5, 5], [1, None, 3]]


def test_equal_expressions_of_two_queries_are_computed_once_over_the_same_rows() -> None:
    env, again = Env(ENV, 3), Env(ENV, 3)
    again.shared = env.shared
    ran: list[Env] = []

    def run(given: Env) -> Value:
        ran.append(given)
        return pa.array([0, 0, 0])

    calls = [Call("f", (FieldRef(name),)) for name in ("a", "a", "b")]
    for expr, given in zip(calls, (env, again, again), strict=True):
        shared(expr, Operand(BIGINT, run)).run(given)
    assert ran == [env, again]  # f(a) once, f(b) once


@pytest.mark.parametrize(
    ("kind", "rows", "target", "expected"),
    [
        (BIGINT, [1, None], DOUBLE, [1.0, None]),
        (VOID, [None, None], STRING, [None, None]),
        (STRING, ["7", "x"], BIGINT, [7, None]),
        (pa.list_(BIGINT), [[1, 2], None, []], pa.list_(STRING), [["1", "2"], None, []]),
        (pa.list_(VOID), [[None], []], pa.list_(STRING), [[None], []]),
        (pa.list_(pa.list_(BIGINT)), [[[1], []]], pa.list_(pa.list_(STRING)), [[["1"], []]]),
    ],
)
def test_a_conversion_casts_elements_and_keeps_nulls(
    kind: pa.DataType, rows: list[Any], target: pa.DataType, expected: list[Any]
) -> None:
    made = convert(Operand(kind, lambda env: env.columns["x"]), target)
    found = made.array(Env({"x": pa.array(rows, kind)}, len(rows)))
    assert (made.type, found.type, found.to_pylist()) == (target, target, expected)


def test_bytes_that_were_made_text_come_back_as_they_were() -> None:
    held = pa.array([b"\xff\x00"])
    text = convert(Operand(BINARY, lambda _env: held), STRING)
    assert text.array(Env({}, 1)).to_pylist() == ["\ufffd\x00"]
    assert convert(text, BINARY).array(Env({}, 1)).to_pylist() == [b"\xff\x00"]
