"""first and last: which record wins, exactly, in any order."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS
from elfmesh.errors import DataError
from tests.cbt.laws.accumulating import (
    GROUPS,
    VALUES,
    same,
    spark_key,
)


@given(st.data())
def test_first_and_last_take_the_record_with_the_least_or_greatest_by(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(VALUES)))
    strategy, data_type = VALUES[name]
    record = st.tuples(st.none() | strategy, st.none() | st.integers(0, 3), st.integers(0, GROUPS - 1))
    parts = data.draw(st.lists(st.lists(record, max_size=8), min_size=1, max_size=4))
    merged = data.draw(st.booleans())
    for kind in ("first", "last"):
        law = LAWS[kind]
        accumulator = law.accumulator(data_type)
        for part in parts:
            values = normalise(pa.array([value for value, _, _ in part], data_type), "x")
            by = pa.array([when for _, when, _ in part], pa.int64())
            ids = np.array([group for _, _, group in part], np.int64)
            if merged:
                accumulator.merge(law.lift((values, by), np.arange(len(part)), len(part)), ids, GROUPS)
            else:
                accumulator.add((values, by), ids, GROUPS)
        state = accumulator.freeze(GROUPS)
        law.check(state, GROUPS)
        everything = [row for part in parts for row in part]
        for group, got in enumerate(law.finish(state, GROUPS).to_pylist()):
            timed = [
                (when, value) for value, when, number in everything if number == group and when is not None
            ]
            pick = min if kind == "first" else max
            chosen = [value for when, value in timed if when == pick(when for when, _ in timed)]
            present = [value for value in chosen if value is not None]
            assert same(got, pick(present, key=spark_key) if present else None)


def test_first_and_last_order_integers_and_floats_exactly_in_one_column() -> None:
    ints = pa.array([2**53, 2**53 + 1, 2**63 - 1, -(2**63), 7])
    floats = pa.array([float(2**53), 2.0**63, -math.inf, math.nan, 7.5])
    for kind, chosen in (("first", min), ("last", max)):
        law = LAWS[kind]
        accumulator = law.accumulator(pa.string())
        for column in (ints, floats):
            names = pa.array([repr(value) for value in column.to_pylist()])
            accumulator.add((names, column), np.arange(5) % 2, 2)
        for group in range(2):
            both = [*ints.to_pylist()[group::2], *floats.to_pylist()[group::2]]
            order = {repr(value): (math.isnan(value), 0 if math.isnan(value) else value) for value in both}
            best = chosen(order.values())
            found = law.finish(accumulator.freeze(2), 2)[group].as_py()
            assert order[found] == best


def test_times_order_first_and_last_and_dates_compare_with_them() -> None:
    law = LAWS["first"]
    moment = pa.array([dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC"))
    day = pa.array([dt.date(2024, 1, 1)])
    accumulator = law.accumulator(pa.string())
    accumulator.add((pa.array(["noon"]), moment), np.zeros(1, np.int64), 1)
    accumulator.add((pa.array(["midnight"]), day), np.zeros(1, np.int64), 1)
    assert law.finish(accumulator.freeze(1), 1).to_pylist() == ["midnight"]
    for by in (pa.array(["x"]), pa.array([Decimal("1.5")])):
        with pytest.raises(DataError, match="'f' is ordered by"):
            law.value_type((pa.array([1]), by), "f")


@pytest.mark.parametrize("kind", ["first", "last"])
def test_a_promoted_first_keeps_its_record(kind: str) -> None:
    law = LAWS[kind]
    accumulator = law.accumulator(pa.int64())
    accumulator.add((pa.array([7, None]), pa.array([5, 5])), np.array([1, 2]), 3)
    accumulator.promote(pa.float64())
    accumulator.add((pa.array([1.5]), pa.array([5])), np.array([1]), 3)
    state = accumulator.freeze(3)
    assert law.finish(state, 3).to_pylist() == [None, 1.5 if kind == "first" else 7.0, None]
    nothing = law.promote(law.accumulator(pa.null()).freeze(2), pa.string())
    assert law.finish(nothing, 2).equals(pa.nulls(2, pa.string()))
