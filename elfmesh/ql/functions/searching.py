"""Functions and operators that search in a string: positions, parts, LIKE. Null in, null out."""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.bytes_text import raw_of
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.regex import (
    like_parts,
    like_regex,
)
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_text,
    nothing,
)
from elfmesh.ql.functions.strings import by_case, by_value
from elfmesh.ql.values.columns import Value
from elfmesh.ql.values.types import BIGINT, BOOLEAN, STRING


def locate(text: str, needle: str, start: int = 1) -> int:
    """Return the 1-based position of `needle` at or after `start`; 0 if there is none."""
    if start < 1:
        return 0
    return 1 if needle == "" else text.find(needle, start - 1) + 1


@function("instr", 2, signature="$(x, part)")
def _instr(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return by_value(context, call, args, BIGINT, locate, (STRING, STRING))


@function("locate position", 2, 3, signature="$(part, x[, start])")
def _locate(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) == 3:  # a null start gives 0, as in Spark
        start = argument(context, call, args, 2, BIGINT)
        args = [*args[:2], lift(BIGINT, lambda x: pc.coalesce(x, 0), start)]
    order = [1, 0, *range(2, len(args))]
    turned = Call(call.name, tuple(call.args[at] for at in order), at=call.at)
    return by_value(context, turned, [args[at] for at in order], BIGINT, locate, (STRING, STRING, BIGINT))


@function("startswith endswith contains", 2, signature="$(x, part)")
def _contains(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kernel, python = {
        "startswith": (pc.starts_with, str.startswith),
        "endswith": (pc.ends_with, str.endswith),
        "contains": (pc.match_substring, lambda x, part: part in x),
    }[call.name]
    if not args[1].constant or any(raw_of(operand) is not None for operand in args):
        return by_value(context, call, args, BOOLEAN, python, (STRING, STRING))
    part = literal_text(context, call, args, 1, "the part")
    operand = argument(context, call, args, 0, STRING)
    return nothing(BOOLEAN) if part is None else lift(BOOLEAN, lambda x: kernel(x, part), operand)


def _like(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    text = argument(context, call, args, 0, STRING)
    if pattern is None:
        return nothing(BOOLEAN)
    if call.name == "ilike":
        pattern = pattern.lower()
        text = lift_arrays(STRING, by_case(pc.ascii_lower, str.lower), text)
    parts = like_parts(context, call.args[1], pattern, call.option)
    shape = tuple("%" if part is None else "_" if part == "" else "x" for part in parts)
    literal = "".join(part or "" for part in parts)
    plain: dict[tuple[str, ...], Callable[[Value], Value]] = {
        (): lambda x: pc.equal(x, ""),
        ("x",): lambda x: pc.equal(x, literal),
        ("x", "%"): lambda x: pc.starts_with(x, literal),
        ("%", "x"): lambda x: pc.ends_with(x, literal),
        ("%", "x", "%"): lambda x: pc.match_substring(x, literal),
    }
    regex = like_regex(parts)
    return lift(BOOLEAN, plain.get(shape, lambda x: pc.match_substring_regex(x, regex)), text)


OPERATORS["like"] = OPERATORS["ilike"] = _like
