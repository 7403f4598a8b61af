"""Texts and bytes: character sets, strict conversions to bytes, valid UTF-8; and what is computed of digits.

What a character set or a notation does not have gives null, where Spark's functions without `try_` fail.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from elfmesh.ql.expressions.bytes_text import decoded, mapped, raw_of
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_text, nothing
from elfmesh.ql.functions.hashing import bytes_of
from elfmesh.ql.functions.nested.lists import over_rows
from elfmesh.ql.values.types import BIGINT, BINARY, BOOLEAN, STRING, VOID

_CHARSETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le", "UTF-16": "utf-16-be", "UTF-32": "utf-32-be",
}  # fmt: skip
"""By Spark's name the codec. As in Java, UTF-16 and UTF-32 are big-endian without a mark."""

_MARKS = {
    "UTF-16": {b"\xfe\xff": "utf-16-be", b"\xff\xfe": "utf-16-le"},
    "UTF-32": {b"\x00\x00\xfe\xff": "utf-32-be", b"\xff\xfe\x00\x00": "utf-32-le"},
}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}")
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
"""Sum of the digits of twice a digit."""


def _charset(context: CompileContext, call: Call, args: list[Operand]) -> str | None:
    given = literal_text(context, call, args, 1, "the character set")
    if given is None:
        return None
    if given.upper() not in _CHARSETS:
        known = ", ".join(f"'{name}'" for name in _CHARSETS)
        raise context.error(call.args[1], f"{given!r} is not a character set", f"There are {known}.")
    return given.upper()


@function("encode", 2, signature="$(x, 'UTF-8')")
def _encode(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    charset = _charset(context, call, args)
    if charset is None:
        return nothing(BINARY)

    def one(text: str) -> bytes | None:
        try:
            found = text.encode(_CHARSETS[charset])
        except UnicodeEncodeError:
            return None
        return b"\xfe\xff" + found if found and charset == "UTF-16" else found

    return mapped(BINARY, one, decoded([argument(context, call, args, 0, STRING)]))


@function("decode", 2, None, signature="$(x, 'UTF-8') or $(x, value, result, ..., default)")
def _decode(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) > 2:
        return _chosen(context, call, args)
    charset = _charset(context, call, args)
    if charset is None:
        return nothing(STRING)
    marks = _MARKS.get(charset, {})

    def one(held: bytes) -> str | None:
        mark = next((mark for mark in marks if held.startswith(mark)), b"")
        try:
            return held[len(mark) :].decode(marks.get(mark, _CHARSETS[charset]))
        except UnicodeDecodeError:
            return None

    return mapped(STRING, one, [bytes_of(context, call, args)])


def _chosen(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the result beside the first value that equals x, where null equals null; else the default."""
    nodes, operands = list(call.args), list(args)
    if len(args) % 2:
        nodes, operands = [*nodes, call.args[0]], [*operands, nothing(VOID)]
    cases, given = [], []
    for at in range(1, len(operands) - 1, 2):
        pair = (nodes[0], nodes[at])
        cases += [Call("<=>", pair, at=call.at), nodes[at + 1]]
        equal = OPERATORS["<=>"](context, Call("<=>", pair, at=call.at), [operands[0], operands[at]])
        given += [equal, operands[at + 1]]
    whole = Call("case", (*cases, nodes[-1]), at=call.at)
    return OPERATORS["case"](context, whole, [*given, operands[-1]])


@function("to_binary try_to_binary", 1, 2, signature="$(x[, 'hex'])")
def _to_binary(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    name = literal_text(context, call, args, 1, "the notation") if len(args) == 2 else "hex"
    if name is None:
        return nothing(BINARY)
    read = _NOTATIONS.get(name.lower())
    if read is None and call.name == "try_to_binary":
        return nothing(BINARY)
    if read is None:
        hint = "There are 'hex', 'utf-8' and 'base64'."
        raise context.error(call.args[1], f"{name!r} is not a notation of bytes", hint)
    return mapped(BINARY, read, decoded([argument(context, call, args, 0, STRING)]))


def _of_hex(text: str) -> bytes | None:
    if not re.fullmatch(r"[0-9A-Fa-f]*", text):
        return None
    return bytes.fromhex("0" * (len(text) % 2) + text)


def _of_base64(text: str) -> bytes | None:
    """Read base64 with white space; padding must end the last four characters, or be left out."""
    if not _BASE64.fullmatch(text):
        return None
    given = re.sub(r"\s", "", text)
    letters = given.rstrip("=")
    if len(letters) % 4 == 1 or (letters != given and len(given) % 4):
        return None
    return base64.b64decode(letters + "=" * (-len(letters) % 4))


def _of_text(text: str) -> bytes:
    return text.encode()


_NOTATIONS: dict[str, Callable[[str], bytes | None]] = {
    "hex": _of_hex, "base64": _of_base64, "utf-8": _of_text, "utf8": _of_text,
}  # fmt: skip


@function("is_valid_utf8", 1, signature="$(x)")
def _is_valid(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return mapped(BOOLEAN, lambda held: _read(held) is not None, [bytes_of(context, call, args)])


@function("validate_utf8 try_validate_utf8", 1, signature="$(x)")
def _validated(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return mapped(STRING, _read, [bytes_of(context, call, args)])


def _read(held: bytes) -> str | None:
    try:
        return held.decode()
    except UnicodeDecodeError:
        return None


@function("make_valid_utf8", 1, signature="$(x)")
def _made_valid(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    held = raw_of(args[0])
    return decoded([argument(context, call, args, 0, STRING) if held is None else convert(held, STRING)])[0]


@function("luhn_check", 1, signature="$(x)")
def _luhn(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str) -> bool:
        if not re.fullmatch(r"[0-9]+", text):
            return False
        digits = [int(each) for each in reversed(text)]
        return (sum(digits[::2]) + sum(_DOUBLED[each] for each in digits[1::2])) % 10 == 0

    return mapped(BOOLEAN, one, decoded([argument(context, call, args, 0, STRING)]))


@function("quote", 1, signature="$(x)")
def _quote(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    text = decoded([argument(context, call, args, 0, STRING)])
    return mapped(STRING, lambda x: "'" + x.replace("'", "\\'") + "'", text)


@function("elt", 2, None, signature="$(n, x, y, ...)")
def _elt(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    number = argument(context, call, args, 0, BIGINT)
    kind = BINARY if all(each.type in (BINARY, VOID) for each in args[1:]) else STRING
    values = [argument(context, call, args, at, kind) for at in range(1, len(args))]

    def one(at: int | None, *given: object) -> object:
        return given[at - 1] if at is not None and 1 <= at <= len(given) else None

    return over_rows(kind, one, number, *values, nulls=True)
