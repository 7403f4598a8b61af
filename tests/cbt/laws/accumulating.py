"""What the tests of accumulators share."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise

GROUPS = 4


ODD_FLOATS = st.sampled_from(
    [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e308, -1e308, 0.1, 1.0, 2.0**53]
)


VALUES: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "int": (st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 2**63 - 1, -(2**63)]), pa.int64()),
    "float": (st.floats() | ODD_FLOATS, pa.float64()),
    "decimal": (st.decimals(-(10**20), 10**20, places=3), pa.decimal128(38, 3)),
    "string": (st.text("ab\0é", max_size=20), pa.string()),
    "binary": (st.binary(max_size=18), pa.binary()),
    "bool": (st.booleans(), pa.bool_()),
    "date": (st.dates(dt.date(1, 1, 1)), pa.date32()),
}


Row = tuple[Any, int]


def rows_of(name: str) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(st.none() | VALUES[name][0], st.integers(0, GROUPS - 1)), max_size=12)


def columns(rows: list[Row], data_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    values = normalise(pa.array([value for value, _ in rows], data_type), "x")
    return values, np.array([group for _, group in rows], np.int64)


def spark_key(value: Any) -> Any:
    """The order of Spark: NaN above infinity, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def exact_total(kind: str, values: list[Any]) -> Any:
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    squared = kind == "sumsq"
    if odd and not squared:
        return sum(odd)
    if odd:
        return sum(value * value for value in odd)
    numbers = [Fraction(float(v) if squared and isinstance(v, Decimal) else v) for v in values]
    return sum((v * v if squared else v for v in numbers), Fraction(0))


def expected(kind: str, values: list[Any]) -> Any:
    """What one group must finish to."""
    if kind == "count":
        return len(values)
    if kind == "distinct":
        return len({repr(value + 0.0) if isinstance(value, float) else value for value in values})
    if kind == "collect:3":
        return sorted(values, key=spark_key)[:3]
    if not values:
        return None
    if kind in ("min", "max"):
        return (min if kind == "min" else max)(values, key=spark_key)
    return exact_total(kind, values)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, float) and math.isnan(want):
        return isinstance(got, float) and math.isnan(got)
    if isinstance(got, float) and isinstance(want, Fraction):
        try:
            want = want.numerator / want.denominator
        except OverflowError:
            want = math.inf if want > 0 else -math.inf
        # A sum of squares below the normal range may round twice.
        return bool(got == want) or abs(got - want) <= 5e-324
    return bool(got == want)


def finished(column: pa.Array) -> str:
    return repr(column.to_pylist())
