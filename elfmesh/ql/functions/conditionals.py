"""Functions that choose between values: IF, COALESCE, NULLIF, GREATEST, LEAST."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call, Literal
from elfmesh.ql.expressions.operand import Operand, constant, convert, lift
from elfmesh.ql.expressions.operators import OPERATORS, common, condition
from elfmesh.ql.expressions.registry import CompileContext, function
from elfmesh.ql.values.columns import Value
from elfmesh.ql.values.types import BIGINT, BOOLEAN, DOUBLE, STRING, VOID, type_name, wider_type

_ZERO = constant(0, BIGINT)


@function("if iff", 3, signature="$(condition, yes, no)")
def _if(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    yes, no = common(context, call, args, [1, 2])
    test = condition(context, call, args, 0)
    return lift(yes.type, lambda c, a, b: pc.if_else(pc.fill_null(c, False), a, b), test, yes, no)


@function("coalesce", 1, None, signature="$(x, y, ...)")
@function("nvl ifnull", 2, signature="$(x, y)")
def _coalesce(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    operands = common(context, call, args, list(range(len(args))))
    return operands[0] if len(operands) == 1 else lift(operands[0].type, pc.coalesce, *operands)


@function("nvl2", 3, signature="$(x, if_not_null, if_null)")
def _nvl2(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    yes, no = common(context, call, args, [1, 2])
    return lift(yes.type, lambda x, a, b: pc.if_else(pc.is_valid(x), a, b), args[0], yes, no)


@function("nullif", 2, signature="$(x, y)")
def _nullif(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    equal = OPERATORS["="](context, Call("=", call.args, at=call.at), args)
    nothing = pa.scalar(None, args[0].type)
    return lift(
        args[0].type, lambda same, x: pc.if_else(pc.fill_null(same, False), nothing, x), equal, args[0]
    )


@function("nullifzero", 1, signature="$(x)")
def _nullifzero(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """nullif(x, 0): a string is compared as a number, and the result is a string."""
    return _nullif(context, Call(call.name, (*call.args, Literal("bigint", 0)), at=call.at), [*args, _ZERO])


@function("zeroifnull", 1, signature="$(x)")
def _zeroifnull(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """coalesce(x, 0); the result for a string is a string."""
    return _coalesce(context, Call(call.name, (*call.args, Literal("bigint", 0)), at=call.at), [*args, _ZERO])


@function("isnull", 1, signature="$(x)")
def _isnull(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return lift(BOOLEAN, pc.is_null, args[0])


@function("isnotnull", 1, signature="$(x)")
def _isnotnull(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return lift(BOOLEAN, pc.is_valid, args[0])


@function("isnan", 1, signature="$(x)")
def _isnan(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[0].type == BOOLEAN:
        raise context.error(call, "isnan works on numbers", "Write CAST(x AS DOUBLE), or x IS NULL.")
    return lift(BOOLEAN, lambda x: pc.fill_null(pc.is_nan(x), False), convert(args[0], DOUBLE))


@function("greatest least", 2, None, signature="$(x, y, ...)")
def _extreme(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = VOID
    for at, operand in enumerate(args):
        wider = wider_type(kind, operand.type)
        mixes_text = (
            STRING in (kind, operand.type) and kind != operand.type and VOID not in (kind, operand.type)
        )
        if wider is None or mixes_text:
            raise context.error(
                call.args[at],
                f"{call.name} mixes {type_name(kind)} and {type_name(operand.type)}",
                "Convert one of them: CAST(... AS ...).",
            )
        kind = wider
    if kind == VOID:
        return args[0]
    # The first argument wins ties, as in Spark; a null never wins; NaN is greater than every number.
    sign = ">" if call.name == "greatest" else "<"
    operands = [convert(operand, kind) for operand in args]
    comparison = Call(sign, call.args, at=call.at)

    def better(best: Operand, other: Operand) -> Operand:
        wins = OPERATORS[sign](context, comparison, [other, best])

        def pick(won: Value, x: Value, y: Value) -> Value:
            return pc.if_else(pc.or_(pc.fill_null(won, False), pc.is_null(x)), y, x)

        return lift(kind, pick, wins, best, other)

    return reduce(better, operands)
