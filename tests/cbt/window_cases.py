"""Panes of small trees, records to put into them, and what plain Python says their windows hold."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from elfmesh.cbt import (
    Panes,
    TreeLimits,
    finish,
)

TINY = TreeLimits(
    root_rows=4,
    root_rows_max=8,
    root_bits=4,
    buffer_rows_max=24,
    leaf_rows_max=4,
    pending_rows_min=4,
)


@dataclass(frozen=True)
class Spec:
    name: str
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | None]]


INVERTIBLE = (
    Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v")}),
    Spec("d0", ("k", "v"), {}),
    Spec("all", (), {"s": ("sum", "v")}),
)
ANY = (
    Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "v")}),
)

MIXED = (*INVERTIBLE, *(Spec("extremes", ("k",), {"hi": ("max", "v")}),))

Record = tuple[int, str | None, float | None]
RECORDS = st.lists(
    st.tuples(
        st.integers(-40, 200),
        st.none() | st.sampled_from("abc"),
        st.none() | st.sampled_from([0.1, 0.2, -3.5]),
    ),
    max_size=40,
)
WINDOWS = st.sampled_from([(10, 10), (20, 10), (30, 20), (50, 10), (100, 10), (90, 20), (5, 10), (7, 3)])


def insert(panes: Panes, tables: tuple[Spec, ...], records: list[Record]) -> None:
    batch = pa.record_batch(
        {
            "k": pa.array([r[1] for r in records], pa.string()),
            "v": pa.array([r[2] for r in records], pa.float64()),
        }
    )
    index = np.array([r[0] // panes.pane_us if panes.pane_us else 0 for r in records], np.int64)
    for table in tables:
        panes.insert(table.name, index, batch)


def total(values: list[float | None]) -> float | None:
    present = [Fraction(value) for value in values if value is not None]
    exact = sum(present, Fraction(0))
    return exact.numerator / exact.denominator if present else None


def brute_force(
    tables: tuple[Spec, ...], records: list[Record], start: int, stop: int
) -> dict[str, Any] | None:
    inside = [record for record in records if start <= record[0] < stop]
    if not inside:
        return None
    out: dict[str, Any] = {}
    for table in tables:
        groups: dict[Any, list[float | None]] = defaultdict(list)
        for _, k, v in inside:
            groups[tuple({"k": k, "v": v}[key] for key in table.keys)].append(v)
        out[table.name] = {
            key: tuple(
                {
                    "count": len(values),
                    "sum": total(values),
                    "min": min((v for v in values if v is not None), default=None),
                    "max": max((v for v in values if v is not None), default=None),
                }[kind]
                for kind, _ in table.aggregates.values()
            )
            for key, values in groups.items()
        }
    return out


def content(panes: Panes, tables: tuple[Spec, ...], index: int) -> dict[str, Any] | None:
    window = panes.window(index)
    if window is None:
        return None
    assert list(window) == [table.name for table in tables]
    finished = finish(window)
    return {table.name: as_groups(table, finished[table.name]) for table in tables}


def as_groups(table: Spec, finished: pa.Table) -> dict[Any, Any]:
    assert finished.column_names == [*table.keys, *table.aggregates]
    rows = list(zip(*(column.to_pylist() for column in finished.columns), strict=True))
    out = {row[: len(table.keys)]: row[len(table.keys) :] for row in rows}
    assert len(out) == len(rows)
    return out
