"""String functions. Positions count characters from 1, as in Spark; null in, null out.

Constant arguments are compiled once. Where Arrow has no kernel, Python runs once per distinct value, or row
by row if arguments are columns too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.bytes_text import decoded, mapped, over_bytes, raw_of
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, constant, convert, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.regex import (
    compile_pattern,
    java_split,
)
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_int,
    literal_text,
    nothing,
    simple,
)
from elfmesh.ql.functions.nested.list_edits import joined_lists, reversed_list
from elfmesh.ql.values.columns import Value, map_distinct, map_rows
from elfmesh.ql.values.growth import check_joined
from elfmesh.ql.values.types import BIGINT, BINARY, STRING, is_list

INT_MAX = 2**31 - 1
TextOrBytes = TypeVar("TextOrBytes", str, bytes)


def _texts(context: CompileContext, call: Call, args: list[Operand]) -> list[Operand]:
    return [argument(context, call, args, at, STRING) for at in range(len(args))]


def by_value(
    context: CompileContext, call: Call, args: list[Operand], gives: pa.DataType, python: Callable[..., Any],
    takes: tuple[pa.DataType, ...],
) -> Operand:  # fmt: skip
    """Call `python(first, *rest)` per distinct first argument if the rest is constant, else per row.

    Strings made of bytes keep their bytes; see `bytes_text`.
    """
    operands = [argument(context, call, args, at, takes[at]) for at in range(len(args))]
    of_bytes = over_bytes(gives, python, operands)
    if of_bytes is not None:
        return of_bytes
    rest = operands[1:]
    if all(operand.constant for operand in rest):
        values = [operand.value() for operand in rest]
        if None in values:
            return nothing(gives)
        return lift_arrays(gives, lambda x: map_distinct(lambda v: python(v, *values), x, gives), operands[0])
    return lift_arrays(gives, lambda *xs: map_rows(python, gives, len(xs[0]), *xs), *operands)


def by_case(
    kernel: Callable[[pa.Array], pa.Array], python: Callable[[str], str]
) -> Callable[[pa.Array], pa.Array]:
    """Return a function for letter case: Arrow's kernel for ASCII, else Python's."""

    def over(array: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(array)).as_py() is not False:
            return kernel(array)
        return map_distinct(python, array, STRING)

    return over


def initcap(text: str) -> str:
    """Capitalise letters after spaces; all others become lower case."""
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


simple("upper ucase", [STRING], STRING, by_case(pc.ascii_upper, str.upper), arrays=True, signature="$(x)")
simple("lower lcase", [STRING], STRING, by_case(pc.ascii_lower, str.lower), arrays=True, signature="$(x)")
simple("initcap", [STRING], STRING, lambda x: map_distinct(initcap, x, STRING), arrays=True, signature="$(x)")


@function("length char_length character_length len", 1, signature="$(x)")
def _length(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the characters of a string, or the bytes of a BINARY."""
    if args[0].type == BINARY:
        return lift(BIGINT, lambda x: pc.cast(pc.binary_length(x), BIGINT), args[0])
    text = argument(context, call, args, 0, STRING)
    of_bytes = over_bytes(BIGINT, len, [text])
    return of_bytes or lift(BIGINT, lambda x: pc.cast(pc.utf8_length(x), BIGINT), text)


@function("reverse", 1, signature="$(x), of a string or list")
def _reverse(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[0].type == BINARY:
        return lift(BINARY, pc.binary_reverse, args[0])
    if is_list(args[0].type):
        return reversed_list(args[0])
    text = argument(context, call, args, 0, STRING)
    return over_bytes(STRING, lambda x: x[::-1], [text]) or lift(STRING, pc.utf8_reverse, text)


# -- concatenation


@function("concat", 0, None, signature="$(x, y, ...), or x || y, of strings or lists")
def _concat(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if not args:
        return Operand(STRING, lambda _env: pa.scalar("", STRING), constant=True)
    if any(is_list(operand.type) for operand in args):
        return joined_lists(context, call, args)

    # The result is BINARY if all arguments are; otherwise a string, made of bytes if one argument is BINARY.
    binary = all(operand.type == BINARY for operand in args)
    texts = args if binary else _texts(context, call, args)
    of_bytes = any(raw_of(operand) is not None for operand in texts)
    kind = BINARY if of_bytes else STRING

    def join(*xs: Value) -> Value:
        check_joined(xs)
        return pc.binary_join_element_wise(*xs, pa.scalar("", kind))

    joined = lift(kind, join, *(convert(operand, kind) for operand in texts))
    return joined if binary else convert(joined, STRING)


@function("concat_ws", 1, None, signature="$(separator, x, y, ...)")
def _concat_ws(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    separator = literal_text(context, call, args, 0, "the separator")
    if separator is None:
        return nothing(STRING)

    texts = _texts(context, call, args)[1:]
    if any(operand.raw is not None for operand in texts):
        between = separator.encode()

        def join_bytes(*xs: pa.Array) -> pa.Array:
            check_joined(xs)
            rows = zip(*(x.to_pylist() for x in xs), strict=True)
            return pa.array([between.join(x for x in row if x is not None) for row in rows], BINARY)

        return convert(lift_arrays(BINARY, join_bytes, *(convert(each, BINARY) for each in texts)), STRING)

    def join(*xs: Value) -> Value:
        check_joined(xs)
        # The empty string at the start prevents Arrow from dropping rows that are null in all columns.
        joined = pc.binary_join_element_wise("", *xs, separator, null_handling="skip")
        return pc.utf8_slice_codeunits(joined, len(separator))

    return lift(STRING, join, *texts)


# -- substrings


@function("trim", 1, signature="$(x), trim(BOTH 'c' FROM x)")
@function("btrim", 1, 2, signature="$(x[, characters])")
@function("ltrim rtrim", 1, 2, signature="$([characters, ]x)")
def _trim(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) == 2 and call.name in ("ltrim", "rtrim"):
        # Spark's order of arguments: ltrim(characters, x), but btrim(x, characters).
        args, call = args[::-1], Call(call.name, call.args[::-1], at=call.at)
    kernel = {"ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}.get(call.name, pc.utf8_trim)
    strip = {"ltrim": str.lstrip, "rtrim": str.rstrip}.get(call.name, str.strip)
    if any(raw_of(operand) is not None for operand in args):
        args = [*args, constant(" ", STRING)][:2]
    of_bytes = any(raw_of(operand) is not None for operand in args)
    if len(args) == 2 and (of_bytes or not args[1].constant):
        return by_value(context, call, args, STRING, lambda x, c: strip(x, c) if c else x, (STRING, STRING))
    characters = literal_text(context, call, args, 1, "the characters") if len(args) == 2 else " "
    operand = argument(context, call, args, 0, STRING)
    if characters is None:
        return nothing(STRING)
    return operand if characters == "" else lift(STRING, lambda x: kernel(x, characters=characters), operand)


def substring(text: TextOrBytes, start: int, length: int = INT_MAX) -> TextOrBytes:
    """Spark's substring: counts from 1, or from the end if negative; 0 means 1.

    A start before the string shortens the result.
    """
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)] if length > 0 else text[:0]


@function("substring substr", 2, 3, signature="$(x, start[, length])")
def _substring(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    takes = (STRING, BIGINT, BIGINT)
    if args[0].type == BINARY:
        numbers_given = [argument(context, call, args, at, BIGINT) for at in range(1, len(args))]
        return mapped(BINARY, substring, [args[0], *numbers_given])
    if args[0].raw is not None or not all(operand.constant for operand in args[1:]):
        return by_value(context, call, args, STRING, substring, takes)
    numbers = [literal_int(context, call, args, at, "the position") for at in range(1, len(args))]
    if None in numbers:
        return nothing(STRING)
    start, length = numbers[0] or 0, numbers[1] if len(numbers) == 2 else None
    operand = argument(context, call, args, 0, STRING)
    first = start - 1 if start > 0 else start
    if length is not None and length <= 0:
        return lift(STRING, lambda x: pc.utf8_slice_codeunits(x, 0, 0), operand)
    stop = None if length is None else first + length
    if first < 0 and stop is not None and stop >= 0:
        stop = None  # counted from the end, and past it
    return lift(STRING, lambda x: pc.utf8_slice_codeunits(x, first, stop), operand)


@function("left right", 2, signature="$(x, length)")
def _side(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if call.name == "left" and args[0].type == BINARY:  # `right` returns a string, as in Spark
        return mapped(
            BINARY, lambda x, n: x[: max(n, 0)], [args[0], argument(context, call, args, 1, BIGINT)]
        )
    if call.name == "left":
        return by_value(context, call, args, STRING, lambda x, n: x[: max(n, 0)], (STRING, BIGINT))
    return by_value(context, call, args, STRING, lambda x, n: x[-n:] if n > 0 else "", (STRING, BIGINT))


@function("split_part", 3, signature="$(x, delimiter, n)")
def _split_part(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[2].constant and args[2].value() == 0:
        raise context.error(
            call.args[2], "split_part counts from 1, or from -1 backwards", "Write 1 for the first part."
        )

    def part(text: str, delimiter: str, n: int) -> str:
        parts = text.split(delimiter) if delimiter else [text]
        at = n - 1 if n > 0 else len(parts) + n
        return parts[at] if n and 0 <= at < len(parts) else ""

    return by_value(context, call, decoded(args), STRING, part, (STRING, STRING, BIGINT))


@function("split", 2, 3, signature="$(x, pattern[, limit])", lists=True)
def _split(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    limit = literal_int(context, call, args, 2, "the limit") if len(args) == 3 else -1
    texts = pa.list_(STRING)
    if pattern is None or limit is None:
        return nothing(texts)
    split = java_split(compile_pattern(context, call.args[1], pattern), max(limit, 0))
    operand = argument(context, call, args, 0, STRING)
    return lift_arrays(texts, lambda x: map_distinct(split, x, texts), operand)


def _split_at(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    pattern = literal_text(context, call, args, 1, "the pattern")
    at = literal_int(context, call, args, 2, "the index")
    if pattern is None or at is None:
        return nothing(STRING)
    split = java_split(compile_pattern(context, call.args[1], pattern))
    operand = argument(context, call, args, 0, STRING)

    def element(text: str) -> str | None:
        parts = split(text)
        return parts[at] if 0 <= at < len(parts) else None

    return lift_arrays(STRING, lambda x: map_distinct(element, x, STRING), operand)


OPERATORS["split at"] = _split_at


# -- replacing


@function("replace", 2, 3, signature="$(x, search[, replacement])")
def _replace(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def python(text: str, search: str, replacement: str = "") -> str:
        return text.replace(search, replacement) if search else text

    return by_value(context, call, args, STRING, python, (STRING, STRING, STRING))


@function("translate", 3, signature="$(x, from, to)")
def _translate(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def python(text: str, source: str, target: str) -> str:
        table: dict[int, str | None] = {}
        for at, character in enumerate(source):
            table.setdefault(ord(character), target[at] if at < len(target) else None)
        return text.translate(table)

    return by_value(context, call, decoded(args), STRING, python, (STRING, STRING, STRING))
