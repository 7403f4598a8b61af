"""Texts that are filled up to a length: space, repeat, lpad and rpad, and how long they may become."""

from __future__ import annotations

from elfmesh.control.ql.functions_text import by_value
from elfmesh.control.ql.nodes import Call
from elfmesh.control.ql.operand import Operand
from elfmesh.control.ql.registry import Context, function
from elfmesh.control.ql.types import BIGINT, STRING

TEXT_CHARS_MAX = 1 << 20
"""What one value may become: a hostile field must not unfold into the whole memory."""


@function("space", 1, signature="$(n)")
def _space(context: Context, call: Call, args: list[Operand]) -> Operand:
    def one(count: int) -> str | None:
        return " " * max(count, 0) if count <= TEXT_CHARS_MAX else None

    return by_value(context, call, args, STRING, one, (BIGINT,))


@function("repeat", 2, signature="$(x, times)")
def _repeat(context: Context, call: Call, args: list[Operand]) -> Operand:
    def python(text: str, times: int) -> str | None:
        return text * max(times, 0) if len(text) * times <= TEXT_CHARS_MAX else None

    return by_value(context, call, args, STRING, python, (STRING, BIGINT))


def _fill(text: str, width: int, pad: str) -> str:
    missing = width - len(text)
    return (pad * (missing // len(pad) + 1))[:missing] if pad and missing > 0 else ""


@function("lpad rpad", 2, 3, signature="$(x, width[, fill])")
def _pad(context: Context, call: Call, args: list[Operand]) -> Operand:
    left = call.name == "lpad"

    def python(text: str, width: int, pad: str = " ") -> str | None:
        if width > TEXT_CHARS_MAX:
            return None
        fill = _fill(text, width, pad)
        return fill + text[: max(width, 0)] if left else text[: max(width, 0)] + fill

    return by_value(context, call, args, STRING, python, (STRING, BIGINT, STRING))
