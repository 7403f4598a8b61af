"""Encodings of bytes and characters, functions from strings to strings, and distances between strings."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.bytes_text import mapped, over_bytes
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift, lift_arrays
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_int, simple
from elfmesh.ql.functions.hashing import bytes_of
from elfmesh.ql.functions.nested.lists import over_rows
from elfmesh.ql.functions.strings import TextOrBytes
from elfmesh.ql.values.columns import map_distinct
from elfmesh.ql.values.types import BIGINT, BINARY, DOUBLE, STRING, is_list, is_map, type_name

_EDITS_CHARS_MAX = 4096
"""Maximum number of characters for levenshtein, whose cost is the product of both lengths; longer strings
give null."""


def _each(kind: pa.DataType, python: Callable[[Any], Any], operand: Operand) -> Operand:
    return lift_arrays(kind, lambda x: map_distinct(python, x, kind), operand)


@function("hex", 1, signature="$(x)")
def _hex(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[0].type in (BIGINT, DOUBLE):
        number = convert(args[0], BIGINT)
        return _each(STRING, lambda n: f"{n & (2**64 - 1):X}", number)
    return _each(STRING, lambda held: held.hex().upper(), bytes_of(context, call, args))


@function("unhex", 1, signature="$(x)")
def _unhex(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str) -> bytes | None:
        if not re.fullmatch(r"[0-9A-Fa-f]*", text):
            return None
        return bytes.fromhex("0" * (len(text) % 2) + text)

    return _each(BINARY, one, argument(context, call, args, 0, STRING))


@function("base64", 1, signature="$(x)")
def _base64(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(held: bytes) -> str:
        text = base64.b64encode(held).decode()
        return "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))  # Spark's chunks (MIME)

    return _each(STRING, one, bytes_of(context, call, args))


@function("unbase64", 1, signature="$(x)")
def _unbase64(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str) -> bytes | None:
        # Java's MIME decoder ignores characters outside the alphabet, and missing padding.
        kept = re.sub(r"[^A-Za-z0-9+/]", "", text.partition("=")[0])
        if len(kept) % 4 == 1:
            return None
        try:
            return base64.b64decode(kept + "=" * (-len(kept) % 4))
        except binascii.Error:
            return None

    return _each(BINARY, one, argument(context, call, args, 0, STRING))


@function("octet_length", 1, signature="$(x)")
@function("bit_length", 1, signature="$(x)")
def _sizes(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    factor = 8 if call.name == "bit_length" else 1
    held = bytes_of(context, call, args)
    return lift(BIGINT, lambda x: pc.multiply(pc.cast(pc.binary_length(x), BIGINT), factor), held)


@function("ascii", 1, signature="$(x)")
def _ascii(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return _each(BIGINT, lambda text: ord(text[0]) if text else 0, argument(context, call, args, 0, STRING))


@function("chr char", 1, signature="$(n)")
def _chr(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return _each(STRING, lambda n: "" if n < 0 else chr(n & 255), argument(context, call, args, 0, BIGINT))


@function("typeof", 1, signature="$(x)")
def _typeof(_context: CompileContext, _call: Call, args: list[Operand]) -> Operand:
    name = pa.scalar(_catalog_name(args[0].type), STRING)
    return Operand(STRING, lambda _env: name, constant=True)


def _catalog_name(kind: pa.DataType) -> str:
    """Return the name of a type as Spark's catalog writes it."""
    if is_list(kind):
        return f"array<{_catalog_name(kind.value_type)}>"
    if is_map(kind):
        return f"map<{_catalog_name(kind.key_type)},{_catalog_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_catalog_name(field.type)}' for field in kind)}>"
    return type_name(kind).lower()


# -- strings to strings


def _over_texts(kind: pa.DataType, python: Callable[..., Any], operands: list[Operand]) -> Operand:
    return over_bytes(kind, python, operands) or over_rows(kind, python, *operands)


@function("substring_index", 3, signature="$(x, delimiter, count)")
def _substring_index(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str, delimiter: str, count: int) -> str:
        if not delimiter or not count:
            return ""
        if count > 0:
            return delimiter.join(text.split(delimiter, count)[:count])
        return delimiter.join(text.rsplit(delimiter, -count)[count:])

    kinds = (STRING, STRING, BIGINT)
    return _over_texts(
        STRING, one, [argument(context, call, args, at, kind) for at, kind in enumerate(kinds)]
    )


@function("overlay", 3, 4, signature="$(x, replacement, start[, length])")
def _overlay(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: TextOrBytes, replacement: TextOrBytes, start: int, length: int = -1) -> TextOrBytes:
        size = len(replacement) if length < 0 else length
        head = text[: start - 1] if start > 0 else text[:0]
        return head + replacement + (text[max(start + size - 1, 0) :] if start + size > 0 else text)

    kind = BINARY if args[0].type == args[1].type == BINARY else STRING
    kinds = (kind, kind, BIGINT, BIGINT)[: len(args)]
    operands = [argument(context, call, args, at, each) for at, each in enumerate(kinds)]
    return mapped(BINARY, one, operands) if kind == BINARY else _over_texts(STRING, one, operands)


@function("find_in_set", 2, signature="$(x, 'a,b,c')")
def _find_in_set(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str, several: str) -> int:
        known = several.split(",")
        return 0 if "," in text or text not in known else known.index(text) + 1

    return _over_texts(BIGINT, one, [argument(context, call, args, at, STRING) for at in range(2)])


@function("levenshtein", 2, 3, signature="$(x, y[, most])")
def _levenshtein(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    most = literal_int(context, call, args, 2, "the most") if len(args) == 3 else None

    def one(left: str, right: str) -> int | None:
        if max(len(left), len(right)) > _EDITS_CHARS_MAX:
            return None
        count = edits(left, right)
        return -1 if most is not None and count > most else count

    return _over_texts(BIGINT, one, [argument(context, call, args, at, STRING) for at in range(2)])


def edits(left: str, right: str) -> int:
    """Return the least number of insertions, deletions and replacements.

    Cost: the product of both lengths.
    """
    row = list(range(len(right) + 1))
    for at, character in enumerate(left, 1):
        corner, row[0] = row[0], at
        for place, other in enumerate(right, 1):
            corner, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, corner + (character != other)),
            )
    return row[-1]


_SOUNDS = {
    letter: code
    for code, letters in enumerate(("AEIOUY", "BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"))
    for letter in letters
} | {"H": 7, "W": 7}


def soundex(text: str) -> str:
    """Return the Soundex code of an English name: a letter and three digits. Other strings are unchanged."""
    if not text or not (text[0].isascii() and text[0].isalpha()):
        return text
    out, last = text[0].upper(), _SOUNDS[text[0].upper()]
    for character in text[1:]:
        code = _SOUNDS.get(character.upper(), None) if character.isascii() else None
        if code is None:
            last = 0
            continue
        if code == 7:
            continue
        if code and code != last:
            out += str(code)
            if len(out) == 4:
                return out
        last = code
    return out.ljust(4, "0")


simple("soundex", [STRING], STRING, lambda x: map_distinct(soundex, x, STRING), arrays=True, signature="$(x)")
