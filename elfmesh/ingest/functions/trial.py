"""Tries whether the result of a Python function depends on its arguments alone.

A trial evaluates 256 rows in five ways, under the limits of functions, and compares the values:

1. twice in one process
2. in another process, which hashes texts in another way
3. with the rows in another order
4. in other cuts: rows one by one, by two, by seven
5. after 100 other rows

A difference is a proof that the function breaks its contract. Equal values prove nothing: they are reported
as "tried", never as "proved". A function that is declared ORDERED READ is not tried.

Paper: Blazes IV-A (annotations of authors are believed there).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from elfmesh.ingest.functions.process import Limits, WorkerFailed, WorkerProcess
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.text import printable

ROWS = 256
OTHER_ROWS = 100
CUTS = (1, 2, 7)
VALUE_CHARS_MAX = 80
WAYS = ("again", "in another process", "in another order", "in other cuts", "after other rows")

_EDGES: Mapping[str, Sequence[Any]] = {
    "int64": (None, 0, 1, -1, 2, 10, 255, 1 << 31, -(1 << 63), (1 << 63) - 1),
    "double": (None, 0.0, -0.0, 1.0, -1.5, 1e300, 5e-324, math.inf, -math.inf, math.nan),
    "string": (None, "", "a", "A", "ab", "abc", " ", "\t\n", "0", "1e9", "é", "\u202e", "日本", "x" * 100),
    "bool": (None, False, True),
    "binary": (None, b"", b"\0", b"a", b"\xff\xfe", b"x" * 100),
    "timestamp[us, tz=UTC]": (
        None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC),
    ),
    "date32[day]": (None, date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1)),
}  # fmt: skip
Values = list[tuple[bool, Any]]
"""For each row, whether it has a value, and the value."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """Proof that a function does not depend on its arguments alone, or that it cannot be tried.

    Attributes:
        way: one of `WAYS`; "" if the function broke off.
        arguments: arguments of the row, as text.
        first: its value, as text.
        second: its value in the other way.
        reason: why the trial ended, if `way` is empty.
    """

    way: str = ""
    arguments: str = ""
    first: str = ""
    second: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if not self.way:
            return self.reason
        return f"({self.arguments}) gave {self.first}, and {self.way} {self.second}"


@dataclass(frozen=True, slots=True)
class FunctionTrial:
    """Outcome of a trial; `refutation` is None if all values were equal."""

    function: PythonFunction
    rows: int
    refutation: Refutation | None

    def __str__(self) -> str:
        if self.refutation is None:
            return f"{self.function.name}: tried {self.rows} rows in {len(WAYS)} ways"
        return (
            f"{self.function.name}{self.refutation}"
            if self.refutation.way
            else (f"{self.function.name}: {self.refutation}")
        )


def try_function(
    function: PythonFunction, sample: Sequence[Sequence[Any]] = (), limits: Limits | None = None
) -> FunctionTrial:
    """Evaluate a function in five ways; it takes three processes and at most some seconds.

    Args:
        function: the function.
        sample: rows of arguments to try besides edge values of the declared types.
        limits: limits of a process. By default they are those of agents; where the kernel cannot confine a
            process, the function has the rights of the user, who accepts this.
    """
    rows = _rows(function, sample, ROWS, seed=0)
    other = _rows(function, (), OTHER_ROWS, seed=1)[::-1]
    try:
        found = _compared(function, rows, other, limits or Limits(confined=False))
    except WorkerFailed as error:
        found = Refutation(reason=printable(str(error)))
    return FunctionTrial(function, len(rows), found)


def _compared(
    function: PythonFunction, rows: list[tuple[Any, ...]], other: list[tuple[Any, ...]], limits: Limits
) -> Refutation | None:
    first = WorkerProcess([function], limits)
    try:
        expected = _values(first, function, rows)
        for way, values in _in_one_process(first, function, rows):
            if (found := _difference(way, rows, expected, values)) is not None:
                return found
    finally:
        first.kill()
    for way, before in (("in another process", []), ("after other rows", other)):
        process = WorkerProcess([function], limits)
        try:
            if before:
                _values(process, function, before)
            found = _difference(way, rows, expected, _values(process, function, rows))
        finally:
            process.kill()
        if found is not None:
            return found
    return None


def _in_one_process(
    process: WorkerProcess, function: PythonFunction, rows: list[tuple[Any, ...]]
) -> Iterator[tuple[str, Values]]:
    yield "again", _values(process, function, rows)
    order = list(range(len(rows)))
    random.Random(2).shuffle(order)
    moved = _values(process, function, [rows[at] for at in order])
    places = {row: place for place, row in enumerate(order)}
    yield "in another order", [moved[places[row]] for row in range(len(rows))]
    for size in CUTS:
        cuts = [rows[at : at + size] for at in range(0, len(rows), size)]
        yield "in other cuts", [each for cut in cuts for each in _values(process, function, cut)]


def _values(process: WorkerProcess, function: PythonFunction, rows: Sequence[tuple[Any, ...]]) -> Values:
    columns = [pa.array([row[at] for row in rows], type=kind) for at, (_, kind) in enumerate(function.takes)]
    answer = process.call(0, columns, len(rows))
    failed = answer.failed.to_pylist()
    return [(not lost, value) for lost, value in zip(failed, answer.values.to_pylist(), strict=True)]


def _difference(
    way: str, rows: Sequence[tuple[Any, ...]], first: Values, second: Values
) -> Refutation | None:
    for row, one, two in zip(rows, first, second, strict=True):
        if not _same(one, two):
            arguments = ", ".join(_shown((True, value)) for value in row)
            return Refutation(way, arguments, _shown(one), _shown(two))
    return None


def _same(one: tuple[bool, Any], two: tuple[bool, Any]) -> bool:
    """Return whether two outcomes are equal; NaN equals NaN, and 0.0 differs from -0.0."""
    return one[0] == two[0] and (not one[0] or repr(one[1]) == repr(two[1]))


def _shown(outcome: tuple[bool, Any]) -> str:
    if not outcome[0]:
        return "an error"
    text = printable(repr(outcome[1]))
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


def _rows(
    function: PythonFunction, sample: Sequence[Sequence[Any]], count: int, seed: int
) -> list[tuple[Any, ...]]:
    """Return rows of edge values and of random ones near them, after those of the sample."""
    rng = random.Random(seed)
    edges = [_EDGES[str(kind)] for _, kind in function.takes]
    found = [tuple(row) for row in sample[: count // 2]]
    widest = max(map(len, edges))
    found += [tuple(each[at % len(each)] for each in edges) for at in range(min(widest, count - len(found)))]
    while len(found) < count:
        found.append(tuple(_near(rng, rng.choice(each)) for each in edges))
    return found


def _near(rng: random.Random, value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int():
            return rng.randint(-1000, 1000)
        case float():
            return rng.choice((value, rng.uniform(-1000, 1000)))
        case str():
            return "".join(rng.choice("abcxyzABC 019-._/é") for _ in range(rng.randint(1, 12)))
        case bytes():
            return rng.randbytes(rng.randint(1, 12))
        case datetime():
            return datetime.fromtimestamp(rng.randint(0, 2_000_000_000), UTC)
        case date():
            return date.fromordinal(rng.randint(700_000, 760_000))
    return value
