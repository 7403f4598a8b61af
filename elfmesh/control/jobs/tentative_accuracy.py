"""Accuracy: how far rows that lack a part of the input are from the rows of the whole input.

Owns the comparison of two results of one interval, and what it has shown for a job, by fidelity. Fidelity is
a share of the input; what it means for the rows depends on the job, so it is measured.

Paper: PPA VI-B, which counts the keys that a tentative top-k answer has in common with the correct one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from elfmesh.lazy import lazy_module
from elfmesh.ql.values.row_json import encode_json, rows_to_json

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")

BINS = 20
"""Ranges of fidelity, which are 0.05 wide."""

WEIGHT = 0.2
"""Weight of the newest comparison in the means of its range."""

ROWS_MAX = 20_000
"""Results with more rows are not compared, because each row becomes a Python object."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What rows have in common with those of the whole input.

    Attributes:
        rows: number of rows of the whole input.
        stay: how many of them have a row with the same keys.
        gone: keys of the others, in their order.
        error: sum of the differences of all numbers, over the sum of the numbers; without a row, all of its
            numbers are the difference. None: there are no numbers, all are 0, or a sum is too large.
    """

    rows: int
    stay: int
    gone: tuple[dict[str, Any], ...]
    error: float | None

    @property
    def overlap(self) -> float:
        return self.stay / self.rows if self.rows else 1.0


def compared(some: pa.Table, whole: pa.Table, keys: Sequence[str] | None) -> Accuracy | None:
    """Compare rows with those of the whole input; None: there are too many.

    Args:
        some: the rows that lack a part of the input.
        whole: the rows of the whole input.
        keys: columns with group keys; None: the columns that are no numbers, or all if there is no other.
    """
    if max(len(some), len(whole)) > ROWS_MAX:
        return None
    numeric = [each.name for each in whole.schema if _is_number(each.type)]
    if keys is None:
        keys = [name for name in whole.column_names if name not in numeric] or whole.column_names
    values = [name for name in numeric if name not in keys]
    here, there = _by_key(some, keys, values), _by_key(whole, keys, values)
    left = Counter({key: len(rows) for key, rows in here.items()})
    gone = []
    for key, row in _keyed(whole, keys):
        if left[key] > 0:
            left[key] -= 1
        else:
            gone.append(row)
    error, total = 0.0, 0.0
    for key, rows in there.items():
        nothing = [0.0] * len(values)
        for one, other in zip(_sums(here.get(key, []), nothing), _sums(rows, nothing), strict=True):
            error += abs(one - other)
            total += abs(other)
    share = error / total if total and math.isfinite(total) else math.inf
    found = share if math.isfinite(share) else None
    return Accuracy(len(whole), len(whole) - len(gone), tuple(gone), found)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _keyed(table: pa.Table, keys: Sequence[str]) -> list[tuple[bytes, dict[str, Any]]]:
    rows = rows_to_json(table.select([name for name in keys if name in table.column_names]))
    return [(encode_json(row), row) for row in rows or [{}] * len(table)]


def _by_key(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> dict[bytes, list[list[float]]]:
    """Return the numbers of the rows by key; null and numbers that are not finite count as 0."""
    columns = [
        table.column(name).to_pylist() if name in table.column_names else [None] * len(table)
        for name in values
    ]
    found: dict[bytes, list[list[float]]] = defaultdict(list)
    for at, (key, _) in enumerate(_keyed(table, keys)):
        found[key].append([_finite(column[at]) for column in columns])
    return found


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return 0.0
    number = float(value)
    return number if math.isfinite(number) else 0.0


def _sums(rows: list[list[float]], nothing: list[float]) -> list[float]:
    return [_sum(column) for column in zip(*rows, strict=True)] if rows else nothing


def _sum(column: Sequence[float]) -> float:
    try:
        return math.fsum(column)
    except OverflowError:
        return math.inf


@dataclass(slots=True)
class _Bin:
    number: int = 0
    overlap: float = 0.0
    error: float | None = None


class TentativeAccuracy:
    """What tentative records of one job were worth, by their fidelity: decayed means."""

    def __init__(self) -> None:
        self._bins: dict[int, _Bin] = {}

    def add(self, fidelity: float, overlap: float, error: float | None) -> None:
        """Take the comparison of a tentative record with the final one."""
        place = min(BINS - 1, max(0, math.floor(fidelity * BINS + 1e-9)))
        known = self._bins.setdefault(place, _Bin())
        known.number += 1
        weight = max(WEIGHT, 1 / known.number)  # the first ones count alike
        known.overlap += weight * (overlap - known.overlap)
        if error is not None:
            before = error if known.error is None else known.error
            known.error = before + weight * (error - before)

    @property
    def overlap(self) -> float | None:
        """Mean overlap of all comparisons; None: there was none."""
        number = sum(each.number for each in self._bins.values())
        return sum(each.number * each.overlap for each in self._bins.values()) / number if number else None

    def describe(self) -> list[dict[str, Any]]:
        """Return the ranges of fidelity with comparisons, the lowest first."""
        return [
            {
                "fidelity": place / BINS,
                "records": each.number,
                "overlap": round(each.overlap, 4),
                "error": None if each.error is None else round(each.error, 4),
            }
            for place, each in sorted(self._bins.items())
        ]
