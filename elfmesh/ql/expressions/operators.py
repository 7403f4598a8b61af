"""Operators: arithmetic, comparison, three-valued logic, IN, CASE, with Spark's rules (ANSI off).

Deviation: integer arithmetic that exceeds 64 bits is null; in Spark it wraps around.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt.sort_bytes import sortable
from elfmesh.ql.expressions.nodes import Call, Expr, Literal
from elfmesh.ql.expressions.operand import ONE_ROW, Operand, constant, convert, lift, lift_arrays
from elfmesh.ql.expressions.registry import Builder, CompileContext
from elfmesh.ql.expressions.time_arithmetic import negated, time_arithmetic
from elfmesh.ql.values import decimals
from elfmesh.ql.values.arithmetic import (
    add,
    divide,
    double_remainder,
    int_div,
    int_remainder,
    multiply,
    subtract,
)
from elfmesh.ql.values.columns import Value
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    FLOAT,
    STRING,
    TIMESTAMP,
    VOID,
    compared_type,
    has_map,
    is_decimal,
    is_nested,
    type_name,
    wider_or_renamed,
    wider_type,
)

OPERATORS: dict[str, Builder] = {}


def _operator(*names: str) -> Callable[[Builder], Builder]:
    def enter(build: Builder) -> Builder:
        for name in names:
            OPERATORS[name] = build
        return build

    return enter


# -- arithmetic


@_operator("+", "-", "*", "%", "/", "div")
def _arithmetic(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    left, right = args
    kinds = {left.type, right.type}
    if DURATION in kinds or (call.name in "+-" and kinds & {DATE, TIMESTAMP}):
        return time_arithmetic(context, call, left, right)
    for operand in args:
        known = (BIGINT, DOUBLE, FLOAT, STRING, VOID)
        if operand.type not in known and not is_decimal(operand.type):
            raise context.error(
                call,
                f"`{call.name}` does not work on {type_name(operand.type)}",
                "Convert it first: CAST(... AS BIGINT).",
            )
    if VOID in kinds:  # null without a type: in the next table it may be a time or an interval
        return left if left.type == VOID else right
    if is_decimal(left.type) or is_decimal(right.type):
        if not {left.type, right.type} & {DOUBLE, FLOAT, STRING}:
            return _decimal_arithmetic(call, left, right)
        left, right = convert(left, DOUBLE), convert(right, DOUBLE)
    if call.name == "div":
        if {left.type, right.type} & {STRING, DOUBLE}:
            raise context.error(
                call, "div works on integers only", "Write floor(a / b), or CAST both sides AS BIGINT."
            )
        return lift_arrays(BIGINT, int_div, convert(left, BIGINT), convert(right, BIGINT))
    if call.name == "/":
        return lift(DOUBLE, divide, convert(left, DOUBLE), convert(right, DOUBLE))
    kinds = {left.type, right.type}
    kind = BIGINT if kinds == {BIGINT} else FLOAT if kinds <= {BIGINT, FLOAT} else DOUBLE
    kernel = {
        ("+", FLOAT): pc.add, ("-", FLOAT): pc.subtract, ("*", FLOAT): pc.multiply,
        ("+", BIGINT): add, ("-", BIGINT): subtract, ("*", BIGINT): multiply,
        ("+", DOUBLE): pc.add, ("-", DOUBLE): pc.subtract, ("*", DOUBLE): pc.multiply,
    }.get((call.name, kind))  # fmt: skip
    if kernel is None and kind == FLOAT:  # the remainder of two floats is a float
        floats = (convert(convert(each, FLOAT), DOUBLE) for each in (left, right))
        return convert(lift_arrays(DOUBLE, double_remainder, *floats), FLOAT)
    if kernel is None:
        remainder = int_remainder if kind == BIGINT else double_remainder
        return lift_arrays(kind, remainder, convert(left, kind), convert(right, kind))
    return lift(kind, kernel, convert(left, kind), convert(right, kind))


def _decimal_arithmetic(call: Call, left: Operand, right: Operand) -> Operand:
    name = call.name
    left, right = (
        convert(each, pa.decimal128(len(str(abs(arg.value))), 0))
        if isinstance(arg, Literal) and isinstance(arg.value, int) and each.type == BIGINT
        else each
        for each, arg in zip((left, right), call.args, strict=True)
    )
    kind = decimals.result_type(name, left.type, right.type)
    return lift_arrays(kind, decimals.arithmetic(name, kind), left, right)


@_operator("neg")
def _negate(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    (operand,) = args
    if operand.type == DURATION:
        return lift_arrays(DURATION, negated, operand)
    if operand.type == VOID:
        return operand
    if is_decimal(operand.type):
        return lift(operand.type, pc.negate, operand)
    if operand.type in (BOOLEAN, DATE, TIMESTAMP, BINARY) or is_nested(operand.type):
        raise context.error(
            call, f"`-` does not work on {type_name(operand.type)}", "Convert it first: CAST(... AS BIGINT)."
        )
    if operand.type == BIGINT:
        return lift(BIGINT, subtract, constant(0, BIGINT), operand)
    kind = FLOAT if operand.type == FLOAT else DOUBLE
    return lift(kind, pc.negate, convert(operand, kind))


# -- comparison


@_operator("=", "<>", "<", "<=", ">", ">=", "<=>")
def _compare(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    equality = call.name in ("=", "<>", "<=>")
    kinds = args[0].type, args[1].type
    listed = any(map(is_nested, kinds))
    kind = wider_or_renamed(*kinds) if listed else compared_type(*kinds, equality=equality)
    if kind is None or has_map(kind):
        raise context.error(
            call,
            f"`{call.name}` cannot compare {type_name(args[0].type)} with {type_name(args[1].type)}",
            "Convert one side: CAST(... AS ...).",
        )
    if kind == VOID:
        kind = BOOLEAN
    if kind == STRING and any(operand.raw is not None for operand in args):
        kind = BINARY
    left, right = (_compared(convert(operand, kind)) for operand in args)
    kernel = (_NAN_COMPARISONS if kind in (DOUBLE, FLOAT) else _COMPARISONS)[call.name]
    return lift(BOOLEAN, kernel, left, right)


def _compared(operand: Operand) -> Operand:
    """Return lists and structs as the keys of their order, which are equal for equal values."""
    return lift_arrays(BINARY, sortable, operand) if is_nested(operand.type) else operand


def _null_safe_equal(equal: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    def kernel(left: Value, right: Value) -> Value:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(pc.fill_null(equal(left, right), False), both_null)

    return kernel


def _nan_equal(left: Value, right: Value) -> Value:
    return pc.or_kleene(pc.equal(left, right), pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def _nan_less(left: Value, right: Value) -> Value:
    nan_above = pc.and_kleene(pc.is_nan(right), pc.invert(pc.is_nan(left)))
    return pc.or_kleene(pc.less(left, right), nan_above)


_COMPARISONS: dict[str, Callable[[Value, Value], Value]] = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal, "<=>": _null_safe_equal(pc.equal),
}  # fmt: skip
_NAN_COMPARISONS: dict[str, Callable[[Value, Value], Value]] = {
    "=": _nan_equal,
    "<>": lambda a, b: pc.invert(_nan_equal(a, b)),
    "<": _nan_less,
    "<=": lambda a, b: pc.invert(_nan_less(b, a)),
    ">": lambda a, b: _nan_less(b, a),
    ">=": lambda a, b: pc.invert(_nan_less(a, b)),
    "<=>": _null_safe_equal(_nan_equal),
}


# -- logic


def condition(context: CompileContext, call: Call, args: list[Operand], at: int) -> Operand:
    return condition_operand(context, call.args[at], args[at])


def condition_operand(context: CompileContext, expr: Expr, operand: Operand) -> Operand:
    if operand.type not in (BOOLEAN, VOID):
        raise context.error(
            expr,
            f"a condition must be BOOLEAN, not {type_name(operand.type)}",
            "Write a comparison, such as x = 'a' or x <> 0.",
        )
    return convert(operand, BOOLEAN)


@_operator("and", "or")
def _logic(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kernel = pc.and_kleene if call.name == "and" else pc.or_kleene
    return lift(BOOLEAN, kernel, condition(context, call, args, 0), condition(context, call, args, 1))


@_operator("not")
def _not(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return lift(BOOLEAN, pc.invert, condition(context, call, args, 0))


@_operator("is null")
def _is_null(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return lift(BOOLEAN, pc.is_null, args[0])


@_operator("is true", "is false")
def _is_truth(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    wanted = call.name == "is true"
    return lift(
        BOOLEAN,
        lambda value: pc.fill_null(value if wanted else pc.invert(value), False),
        condition(context, call, args, 0),
    )


@_operator("in")
def _in(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = args[0].type
    for at, operand in enumerate(args[1:], start=1):
        wider = wider_or_renamed(kind, operand.type)
        if wider is None or has_map(wider):
            raise context.error(
                call.args[at],
                f"IN mixes {type_name(kind)} and {type_name(operand.type)}",
                "Convert one side: CAST(... AS ...).",
            )
        kind = wider
    if kind == VOID:
        kind = BOOLEAN
    if kind == STRING and any(operand.raw is not None for operand in args):
        kind, args = BINARY, [convert(operand, STRING) for operand in args]
    operands = [_compared(convert(operand, kind)) for operand in args]
    if all(operand.constant for operand in operands[1:]):
        values = pa.concat_arrays([operand.array(ONE_ROW) for operand in operands[1:]])
        known, has_null = values.drop_null(), bool(values.null_count)
        return lift_arrays(BOOLEAN, lambda array: _in_constants(array, known, has_null), operands[0])
    equal = _nan_equal if kind in (DOUBLE, FLOAT) else _COMPARISONS["="]

    def any_equal(value: Value, *others: Value) -> Value:
        found = equal(value, others[0])
        for other in others[1:]:
            found = pc.or_kleene(found, equal(value, other))
        return found

    return lift(BOOLEAN, any_equal, *operands)


def _in_constants(array: pa.Array, known: pa.Array, has_null: bool) -> pa.Array:
    if array.type in (DOUBLE, FLOAT):  # -0.0 + 0.0 is 0.0, so that both zeros are one value
        zero = pa.scalar(0.0, array.type)
        array, known = pc.add(array, zero), pc.add(known, zero)
    found = pc.is_in(array, value_set=known)
    unknown = pc.and_(pc.invert(found), pa.repeat(True, len(array))) if has_null else array.is_null()
    return pc.if_else(unknown, pa.scalar(None, BOOLEAN), found)


# -- conditional


def common(context: CompileContext, call: Call, args: list[Operand], positions: list[int]) -> list[Operand]:
    kind = VOID
    for at in positions:
        wider = wider_type(kind, args[at].type)
        if wider is None:
            raise context.error(
                call.args[at],
                f"{call.name.upper()} mixes {type_name(kind)} and {type_name(args[at].type)} as results",
                "Convert one of them: CAST(... AS ...).",
            )
        kind = wider
    return [args[at] if kind == VOID else convert(args[at], kind) for at in positions]


@_operator("case")
def _case(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    conditions = [condition(context, call, args, at) for at in range(0, len(args) - 1, 2)]
    results = common(context, call, args, [*range(1, len(args) - 1, 2), len(args) - 1])
    count = len(conditions)

    def choose_all(*values: Value) -> Value:
        result = values[-1]
        for at in range(count - 1, -1, -1):
            result = pc.if_else(pc.fill_null(values[at], False), values[count + at], result)
        return result

    return lift(results[0].type, choose_all, *conditions, *results)
