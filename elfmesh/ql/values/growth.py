"""Limits on the size of an expression's values: a query must not expand a block beyond the memory.

concat, repeat, regexp_replace and others return more data than their arguments have, and can be nested. Every
value of a call is measured when it is made, or estimated before. A block whose values are too large is
evaluated again in smaller pieces; a single record that is too large is excluded and counted. The measurement
depends only on the rows and the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import DataError

T = TypeVar("T")
Value: TypeAlias = pa.Array | pa.Scalar
VALUE_BYTES_MAX = 32 << 20
"""Maximum number of bytes of one expression's values over the rows of a block: thirty times the block."""

LARGE_BYTES = 4 << 20
"""Bytes from which a value counts towards the sum; usual values are smaller than their block."""

SUM_BYTES_MAX = 64 << 20
"""Maximum number of bytes of all large values over the same rows, because they stay in memory until the block
is done."""

STEPS_MAX = 100_000
"""Maximum number of evaluations of a lambda function, one after the other, for one list: some seconds."""

TABLE_BYTES_MAX = 1 << 30
"""Maximum number of bytes of one expression's values over the finished rows of an interval, which may be
millions."""

_bytes_max: ContextVar[int] = ContextVar("bytes_max", default=TABLE_BYTES_MAX)


class TooLarge(DataError):
    """The values of an expression over some rows exceed a limit of memory."""


def check_size(nbytes: int) -> None:
    """Raise TooLarge, before a value is made, if its bytes would exceed the limit of a value."""
    if nbytes > (most := _bytes_max.get()):
        raise TooLarge(
            f"an expression produces {nbytes >> 20} MB from one block; the limit is {most >> 20} MB"
        )


def limited(values: Iterable[Any]) -> list[Any]:
    """Return the values as a list. Raises TooLarge before all of them are made."""
    made, nbytes = [], 0
    for value in values:
        if isinstance(value, str | bytes):
            nbytes += len(value)
            check_size(nbytes)
        made.append(value)
    return made


def check_taken(values: pa.Array, indices: pa.Array) -> None:
    """Check the size of `values.take(indices)`, because every row may take a long value."""
    if values.nbytes * len(indices) <= VALUE_BYTES_MAX:
        return
    if values.type in (pa.string(), pa.binary()):
        check_size(pc.sum(pc.binary_length(values).take(indices)).as_py() or 0)
    elif pa.types.is_struct(values.type):
        for at in range(values.type.num_fields):
            check_taken(pc.struct_field(values, at), indices)
    elif pa.types.is_list(values.type) or pa.types.is_map(values.type):
        elements = pc.sum(pc.list_value_length(values).take(indices)).as_py() or 0
        check_size(elements * values.nbytes // max(len(values.values), 1))


def check_joined(values: Iterable[pa.Array | pa.Scalar]) -> None:
    """Check the size of the concatenated strings of each row. Raises TooLarge."""
    given = list(values)
    rows = max((len(value) for value in given if not isinstance(value, pa.Scalar)), default=1)
    check_size(
        sum(
            rows * len(value.as_py() or "") if isinstance(value, pa.Scalar) else value.nbytes
            for value in given
        )
    )


def check_replaced(values: Value, pattern: str, replacement: str) -> None:
    """Check the size after replacing every match of an RE2 pattern; no group is longer than its match.

    Cost: none unless a match at every byte would be too large; then one pass that counts the matches.
    """
    given = len(values.as_py() or "") if isinstance(values, pa.Scalar) else values.nbytes
    longest = len(replacement.encode())
    if given * (1 + longest) <= VALUE_BYTES_MAX:
        return
    matches = pc.count_substring_regex(values, pattern)
    count = matches.as_py() if isinstance(matches, pa.Scalar) else pc.sum(matches).as_py()
    check_size(given * (1 + replacement.count("\\")) + (count or 0) * longest)


def check_steps(steps: int) -> None:
    """Raise TooLarge if one list needs more evaluations of a lambda function than a block is worth."""
    if steps > STEPS_MAX:
        raise TooLarge(f"a lambda function needs {steps} steps for one list; the limit is {STEPS_MAX}")


def inner_growth() -> Growth | None:
    """Return a measurement for rows that are made inside a measured expression; None outside of one."""
    return Growth() if _bytes_max.get() == VALUE_BYTES_MAX else None


class Growth:
    """Measurement of the values over the rows of one block."""

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
