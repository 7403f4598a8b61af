"""Least and greatest values of any orderable type."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import promote
from elfmesh.cbt.laws import LAWS
from tests.cbt.laws.values import lift, merge, result

ORDERABLE: list[tuple[Any, pa.DataType]] = [
    (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    (st.text(max_size=5), pa.string()),
    (st.binary(max_size=5), pa.binary()),
    (st.booleans(), pa.bool_()),
    (st.dates(), pa.date32()),
    (st.decimals(-(10**30), 10**30, places=3), pa.decimal128(38, 3)),
    (
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(
            lambda t: t.replace(tzinfo=dt.UTC)
        ),
        pa.timestamp("us", tz="UTC"),
    ),
    (st.times(), pa.time64("us")),
    (st.timedeltas(dt.timedelta(-999), dt.timedelta(999)), pa.duration("us")),
]


@given(st.data())
def test_min_and_max_of_any_orderable_type(data: st.DataObject) -> None:
    strategy, data_type = data.draw(st.sampled_from(ORDERABLE))
    rows = data.draw(st.lists(st.tuples(st.none() | strategy, st.integers(0, 2)), max_size=15))
    values = pa.array([value for value, _ in rows], data_type)
    ids = np.array([group for _, group in rows], np.int64)
    for kind, pick in (("min", min), ("max", max)):
        finished = LAWS[kind].finish(LAWS[kind].lift(values, ids, 3), 3)
        assert finished.type == data_type
        for group, got in enumerate(finished.to_pylist()):
            present = [value for value, number in rows if number == group and value is not None]
            # Spark compares strings by bytes; Python by code points: the same order for UTF-8.
            assert got == (pick(present) if present else None)


def test_extreme_integers_are_values_not_missing() -> None:
    for kind, value in (("min", 2**63 - 1), ("max", -(2**63))):
        assert result(lift(kind, pa.array([value]))) == value
        assert (
            result(merge(kind, lift(kind, pa.array([value])), lift(kind, pa.array([None], pa.int64()))))
            == value
        )


def test_promoting_min_keeps_nulls() -> None:
    state = LAWS["min"].promote(lift("min", pa.nulls(2)), pa.string())
    assert LAWS["min"].finish(state, 1).to_pylist() == [None]
    assert promote(pa.array([1, None]), pa.float64()).to_pylist() == [1.0, None]
