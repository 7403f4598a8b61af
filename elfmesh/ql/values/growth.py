"""Limits on the values of an expression: a query must not unfold a block into the whole memory.

concat, repeat, regexp_replace and the like make more of a block than they are given, and can be nested. Every
value of a call is measured when it is made, or stated before. A block whose values are too large is evaluated
again in smaller pieces; a single record that is too large is left out and counted. What is measured depends
on the rows and the expression only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.errors import DataError

T = TypeVar("T")
Value: TypeAlias = pa.Array | pa.Scalar
VALUE_BYTES_MAX = 32 << 20
"""Of one expression over the rows of a block: thirty times the block."""

LARGE_BYTES = 4 << 20
"""From this size on a value counts towards the sum: usual values are smaller than their block."""

SUM_BYTES_MAX = 64 << 20
"""Of all large values over the same rows, which are held until the block is done."""

TABLE_BYTES_MAX = 1 << 30
"""Of one expression over the finished rows of an interval, which may be millions."""

_bytes_max: ContextVar[int] = ContextVar("bytes_max", default=TABLE_BYTES_MAX)


class TooLarge(DataError):
    """The values of an expression over some rows take more memory than they may."""


def check_size(nbytes: int) -> None:
    """Refuse a value before it is made: it would have more bytes than a value over these rows may have."""
    if nbytes > (most := _bytes_max.get()):
        raise TooLarge(
            f"an expression produces {nbytes >> 20} MB from one block; the limit is {most >> 20} MB"
        )


def limited(values: Iterable[Any]) -> list[Any]:
    """The values as a list; TooLarge is raised before all of them are made."""
    made, nbytes = [], 0
    for value in values:
        if isinstance(value, str | bytes):
            nbytes += len(value)
            check_size(nbytes)
        made.append(value)
    return made


def check_taken(values: pa.Array, indices: pa.Array) -> None:
    """Check what `values.take(indices)` takes: a long value may be wanted by every row."""
    if values.nbytes * len(indices) > VALUE_BYTES_MAX and values.type in (pa.string(), pa.binary()):
        check_size(pc.sum(pc.binary_length(values).take(indices)).as_py() or 0)


def check_joined(values: Iterable[pa.Array | pa.Scalar]) -> None:
    """Check what the texts of each row take behind each other. Raises TooLarge: too much."""
    given = list(values)
    rows = max((len(value) for value in given if not isinstance(value, pa.Scalar)), default=1)
    check_size(
        sum(
            rows * len(value.as_py() or "") if isinstance(value, pa.Scalar) else value.nbytes
            for value in given
        )
    )


def check_replaced(values: Value, pattern: str, replacement: str) -> None:
    """Check what replacing every match of an RE2 pattern takes; a group is at most as long as its match.

    Cost: nothing unless a match at every byte would be too much; then one pass that counts the matches.
    """
    given = len(values.as_py() or "") if isinstance(values, pa.Scalar) else values.nbytes
    longest = len(replacement.encode())
    if given * (1 + longest) <= VALUE_BYTES_MAX:
        return
    matches = pc.count_substring_regex(values, pattern)
    count = matches.as_py() if isinstance(matches, pa.Scalar) else pc.sum(matches).as_py()
    check_size(given * (1 + replacement.count("\\")) + (count or 0) * longest)


class Growth:
    """Measures the values over the rows of one block."""

    __slots__ = ("_nbytes",)

    def __init__(self) -> None:
        self._nbytes = 0

    def measured(self, run: Callable[[T], Value], env: T) -> Value:
        before = _bytes_max.set(VALUE_BYTES_MAX)
        try:
            value = run(env)
        finally:
            _bytes_max.reset(before)
        nbytes = 0 if isinstance(value, pa.Scalar) else value.nbytes
        if nbytes >= LARGE_BYTES:
            self._add(nbytes)
        return value

    def _add(self, nbytes: int) -> None:
        self._nbytes += nbytes
        if nbytes > VALUE_BYTES_MAX or self._nbytes > SUM_BYTES_MAX:
            raise TooLarge(
                f"expressions produce {self._nbytes >> 20} MB from one block; the limit is "
                f"{VALUE_BYTES_MAX >> 20} MB each and {SUM_BYTES_MAX >> 20} MB together"
            )
