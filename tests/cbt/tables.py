"""Random tables for the tests of keys, sorted rows and their codec, and what plain Python makes of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from elfmesh.cbt.columns import TIMESTAMP, normalise
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.rows import Layout, Rows, finish_rows

TEXT = st.text(max_size=6) | st.text("\0ab", max_size=8) | st.just("prefix/" * 9) | st.just("x" * 300)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=64) | st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.25, 0.01, 1e300])
DECIMAL = st.integers(-(10**9), 10**9).map(lambda cents: Decimal(cents) / 100)

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=6) | st.binary(max_size=3).map(lambda b: b"\0" * 3 + b),
    pa.int64(): INT64 | st.integers(-3, 3),
    pa.float64(): FLOAT,
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    TIMESTAMP: INT64,
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.duration("us"): INT64,
    pa.decimal128(12, 2): DECIMAL,
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    pa.null(): st.none(),
}


def column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    return normalise(pa.array(values, data_type), "x")


@st.composite
def columns(draw: st.DrawFn, rows: int, types: Sequence[pa.DataType] = tuple(VALUES)) -> pa.Array:
    data_type = draw(st.sampled_from(list(types)))
    values = VALUES[data_type]
    if draw(st.booleans()):
        values = st.none() | values
    padding = draw(st.integers(0, 2))
    array = column(draw(st.lists(values, min_size=rows + padding, max_size=rows + padding)), data_type)
    return array[padding:]


@st.composite
def key_columns(draw: st.DrawFn, width_max: int = 3) -> tuple[list[pa.Array], int]:
    rows = draw(st.integers(0, 12))
    width = draw(st.integers(0, width_max))
    return [draw(columns(rows)) for _ in range(width)], rows


def identity(array: pa.Array, row: int) -> Any:
    """What SQL's grouping compares."""
    value = array[row]
    if not value.is_valid:
        return None
    if pa.types.is_floating(array.type):
        number = value.as_py()
        return "nan" if math.isnan(number) else struct.pack(">d", number + 0.0)
    if pa.types.is_temporal(array.type):
        return value.value
    return value.as_py()


def identities(arrays: Sequence[pa.Array], rows: int) -> list[tuple[Any, ...]]:
    return [tuple(identity(array, row) for array in arrays) for row in range(rows)]


AGGREGATES = {
    "n": ("count", None),
    "s": ("sum", pa.float64()),
    "i": ("sum", pa.int64()),
    "lo": ("min", pa.string()),
    "hi": ("max", pa.float64()),
    "d": ("max", pa.decimal128(12, 2)),
}


@st.composite
def tables(draw: st.DrawFn, width_max: int = 2) -> Rows:
    """Rows of all kinds of aggregates with keys of any type; a key may be there more than once."""
    keys, rows = draw(key_columns(width_max))
    states = []
    for kind, data_type in AGGREGATES.values():
        values = None if data_type is None else draw(columns(rows, [data_type]))
        states.append(LAWS[kind].lift(values, np.arange(rows), rows))
    layout = Layout(
        tuple(f"k{place}" for place in range(len(keys))),
        tuple((name, kind) for name, (kind, _) in AGGREGATES.items()),
    )
    return Rows(layout, rows, tuple(keys), tuple(states))


def content(rows: Rows) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Finished values by key; each key must be there once."""
    table = finish_rows(rows)
    arrays = [
        chunked.combine_chunks() if chunked.num_chunks != 1 else chunked.chunk(0) for chunked in table.columns
    ]
    width = len(rows.layout.keys)
    keys = identities(arrays[:width], rows.count)
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, identities(arrays[width:], rows.count), strict=True))
