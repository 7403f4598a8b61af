"""Texts that are made of bytes: what Spark does with a BINARY where it takes a string.

Spark's strings are unchecked bytes, so `hex(trim(unhex('20ff20')))` is FF; an Arrow string is valid UTF-8. A
STRING made of a BINARY is therefore computed twice: with U+FFFD, as Spark shows it, and as bytes
(`Operand.raw`), which functions continue with. Invalid bytes count as one character each. Keys, results and
files have only the text with U+FFFD.

Deviation: of a character that is cut off, Spark takes as many bytes as its first one announces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.values.columns import map_distinct, map_rows
from elfmesh.ql.values.types import BINARY, STRING

_ESCAPE = "surrogateescape"


def raw_of(operand: Operand) -> Operand | None:
    """The bytes of a BINARY, or of a STRING that is made of one; None for all else."""
    return operand if operand.type == BINARY else operand.raw


def over_bytes(gives: pa.DataType, python: Callable[..., Any], operands: Sequence[Operand]) -> Operand | None:
    """`python` over texts of which some are made of bytes; None where none is. Null in, null out.

    Bytes that are no UTF-8 reach `python` as lone surrogates. Cost: a call per row, or per distinct value of
    a single operand.
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
    """`python` over values as they are; null in, null out. Cost: as `over_bytes`."""
    if len(operands) == 1:
        return lift_arrays(gives, lambda x: map_distinct(python, x, gives), operands[0])
    return lift_arrays(gives, lambda *xs: map_rows(python, gives, len(xs[0]), *xs), *operands)


def decoded(operands: Sequence[Operand]) -> list[Operand]:
    """Texts without their bytes: for functions that Spark gives the decoded text."""
    texts = (convert(each, STRING) if each.type == BINARY else each for each in operands)
    return [replace(each, raw=None) for each in texts]
