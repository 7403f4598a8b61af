"""Strings made of bytes: the value of a BINARY where Spark accepts a string.

Spark's strings are unchecked bytes, so `hex(trim(unhex('20ff20')))` is FF. An Arrow string is valid UTF-8. A
STRING made of a BINARY is therefore computed twice: with U+FFFD, as Spark shows it, and as bytes
(`Operand.raw`), which other functions use. Each invalid byte counts as one character. Keys, results and files
have only the string with U+FFFD.

Deviation: For a truncated character, Spark takes as many bytes as its first byte announces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.values.columns import map_distinct, map_rows
from elfmesh.ql.values.types import BINARY, STRING

_ESCAPE = "surrogateescape"


def raw_of(operand: Operand) -> Operand | None:
    """Return the bytes of a BINARY, or of a STRING made of one; None for any other operand."""
    return operand if operand.type == BINARY else operand.raw


def over_bytes(gives: pa.DataType, python: Callable[..., Any], operands: Sequence[Operand]) -> Operand | None:
    """Apply `python` to strings of which some are made of bytes; None if none is. Null in, null out.

    Bytes that are not UTF-8 are passed to `python` as lone surrogates. Cost: one call per row, or one per
    distinct value of a single operand.
    """
    if all(raw_of(operand) is None for operand in operands):
        return None

    def one(*values: Any) -> Any:
        given = (each.decode("utf-8", _ESCAPE) if isinstance(each, bytes) else each for each in values)
        made = python(*given)
        return made.encode("utf-8", _ESCAPE) if isinstance(made, str) else made

    found = mapped(BINARY if gives == STRING else gives, one, [raw_of(each) or each for each in operands])
    return convert(found, STRING) if gives == STRING else found


def mapped(gives: pa.DataType, python: Callable[..., Any], operands: Sequence[Operand]) -> Operand:
    """Apply `python` to unchanged values; null in, null out. Cost: as `over_bytes`."""
    if len(operands) == 1:
        return lift_arrays(gives, lambda x: map_distinct(python, x, gives), operands[0])
    return lift_arrays(gives, lambda *xs: map_rows(python, gives, len(xs[0]), *xs), *operands)


def decoded(operands: Sequence[Operand]) -> list[Operand]:
    """Remove the bytes from strings, for functions that receive the decoded string in Spark."""
    texts = (convert(each, STRING) if each.type == BINARY else each for each in operands)
    return [replace(each, raw=None) for each in texts]
