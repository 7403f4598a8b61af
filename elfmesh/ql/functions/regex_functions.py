"""Regular expression functions: matches, their parts, count and positions. Patterns are constant RE2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.regex import compile_pattern, rewrite_replacement
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_int,
    literal_text,
    nothing,
)
from elfmesh.ql.values.columns import Value, map_distinct
from elfmesh.ql.values.growth import check_replaced
from elfmesh.ql.values.types import BIGINT, BOOLEAN, STRING

_MATCHES_MAX = 100_000
"""Maximum number of matches in one value."""


def _matching(
    context: CompileContext,
    call: Call,
    args: list[Operand],
    kind: pa.DataType,
    make: Callable[[Any], Callable[[str], Any]],
) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    operand = argument(context, call, args, 0, STRING)
    if pattern is None:
        return nothing(kind)
    one = make(compile_pattern(context, call.args[1], pattern))
    return lift_arrays(kind, lambda x: map_distinct(one, x, kind), operand)


@function("regexp_extract_all", 2, 3, signature="$(x, pattern[, group])", lists=True)
def _extract_all(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    group = literal_int(context, call, args, 2, "the group") if len(args) == 3 else 1
    texts = pa.list_(STRING)
    if group is None:
        return nothing(texts)

    def make(pattern: Any) -> Callable[[str], list[str]]:
        if not 0 <= group <= pattern.groups:
            raise context.error(
                call, f"the pattern has {pattern.groups} groups, not {group}", "Group 0 is the whole match."
            )
        return lambda text: [
            match[group] or "" for match, _ in zip(pattern.finditer(text), range(_MATCHES_MAX), strict=False)
        ]

    return _matching(context, call, args, texts, make)


@function("regexp_count", 2, signature="$(x, pattern)")
def _count(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return _matching(
        context, call, args, BIGINT, lambda pattern: lambda text: sum(1 for _ in pattern.finditer(text))
    )


@function("regexp_substr", 2, signature="$(x, pattern)")
def _substr(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def make(pattern: Any) -> Callable[[str], str | None]:
        def one(text: str) -> str | None:
            match = pattern.search(text)
            return None if match is None or match[0] == "" else str(match[0])

        return one

    return _matching(context, call, args, STRING, make)


@function("regexp_instr", 2, signature="$(x, pattern)")
def _instr(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def make(pattern: Any) -> Callable[[str], int]:
        def one(text: str) -> int:
            match = pattern.search(text)
            return 0 if match is None else match.start() + 1

        return one

    return _matching(context, call, args, BIGINT, make)


@function("regexp_like regexp", 2, signature="$(x, pattern), or x RLIKE pattern")
def _rlike(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    operand = argument(context, call, args, 0, STRING)
    if pattern is None:
        return nothing(BOOLEAN)
    compile_pattern(context, call.args[1], pattern)
    return lift(BOOLEAN, lambda x: pc.match_substring_regex(x, pattern), operand)


OPERATORS["rlike"] = _rlike


@function("regexp_extract", 2, 3, signature="$(x, pattern[, group])")
def _regexp_extract(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    group = literal_int(context, call, args, 2, "the group") if len(args) == 3 else 1
    operand = argument(context, call, args, 0, STRING)
    if pattern is None or group is None:
        return nothing(STRING)
    compiled = compile_pattern(context, call.args[1], pattern)
    if not 0 <= group <= compiled.groups:
        raise context.error(
            call, f"the pattern has {compiled.groups} groups, not {group}", "Group 0 is the whole match."
        )

    def extract(text: str) -> str:
        match = compiled.search(text)
        return "" if match is None else match[group] or ""

    return lift_arrays(STRING, lambda x: map_distinct(extract, x, STRING), operand)


@function("regexp_replace", 3, signature="$(x, pattern, replacement)")
def _regexp_replace(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    replacement = literal_text(context, call, args, 2, "the replacement")
    operand = argument(context, call, args, 0, STRING)
    if pattern is None or replacement is None:
        return nothing(STRING)
    compiled = compile_pattern(context, call.args[1], pattern)
    rewritten = rewrite_replacement(context, call.args[2], replacement, compiled.groups)

    def replace(x: Value) -> Value:
        check_replaced(x, pattern, rewritten)
        return pc.replace_substring_regex(x, pattern, rewritten)

    return lift(STRING, replace, operand)
