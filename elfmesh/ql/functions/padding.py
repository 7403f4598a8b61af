"""Functions that pad strings to a length: space, repeat, lpad and rpad; and the limit of their length."""

from __future__ import annotations

from elfmesh.ql.expressions.bytes_text import mapped
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, constant
from elfmesh.ql.expressions.registry import CompileContext, argument, function
from elfmesh.ql.functions.strings import TextOrBytes, by_value
from elfmesh.ql.values.types import BIGINT, BINARY, STRING

TEXT_CHARS_MAX = 1 << 20
"""Maximum number of characters of one value, because a malicious field must not use up the memory."""


@function("space", 1, signature="$(n)")
def _space(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(count: int) -> str | None:
        return " " * max(count, 0) if count <= TEXT_CHARS_MAX else None

    return by_value(context, call, args, STRING, one, (BIGINT,))


@function("repeat", 2, signature="$(x, times)")
def _repeat(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def python(text: str, times: int) -> str | None:
        return text * max(times, 0) if len(text) * times <= TEXT_CHARS_MAX else None

    return by_value(context, call, args, STRING, python, (STRING, BIGINT))


def _fill(text: TextOrBytes, width: int, pad: TextOrBytes) -> TextOrBytes:
    missing = width - len(text)
    return (pad * (missing // len(pad) + 1))[:missing] if pad and missing > 0 else text[:0]


@function("lpad rpad", 2, 3, signature="$(x, width[, fill])")
def _pad(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """The result is a BINARY only if the argument and the padding are.

    The default padding is then zero bytes.
    """
    left = call.name == "lpad"

    def python(text: TextOrBytes, width: int, pad: TextOrBytes) -> TextOrBytes | None:
        if width > TEXT_CHARS_MAX:
            return None
        fill = _fill(text, width, pad)
        return fill + text[: max(width, 0)] if left else text[: max(width, 0)] + fill

    binary = args[0].type == BINARY and (len(args) < 3 or args[2].type == BINARY)
    given = args if len(args) == 3 else [*args, constant(b"\0", BINARY) if binary else constant(" ", STRING)]
    if binary:
        return mapped(BINARY, python, [given[0], argument(context, call, args, 1, BIGINT), given[2]])
    return by_value(context, call, given, STRING, python, (STRING, BIGINT, STRING))
