"""Sums stay exact, whatever is carried."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.sums import exactsum
from elfmesh.cbt.sums.exactsum import ExactSums
from tests.cbt.laws.accumulating import (
    GROUPS,
    Row,
    columns,
    expected,
    rows_of,
    same,
)

SMALL_LIMITS = {"_SAFE": 1 << 46, "_NARROW": 1 << 34, "_FLOAT_ADDITIONS_MAX": 9}


@given(st.sampled_from(["sum", "sumsq"]), st.lists(rows_of("int"), max_size=6), st.lists(rows_of("float")))
def test_sums_stay_exact_when_limbs_are_carried_all_the_time(
    kind: str, ints: list[list[Row]], floats: list[list[Row]]
) -> None:
    for batches, data_type in ((ints, pa.int64()), (floats, pa.float64())):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SMALL_LIMITS.items():
                patch.setattr(exactsum, name, value)
            accumulator = LAWS[kind].accumulator(data_type)
            for rows in batches:
                accumulator.add(*columns(rows, data_type), GROUPS)
            state = accumulator.freeze(GROUPS)
        held = [row for rows in batches for row in rows]
        for group, got in enumerate(LAWS[kind].finish(state, GROUPS).to_pylist()):
            present = [value for value, number in held if number == group and value is not None]
            assert same(got, expected(kind, present))


def wrapped(monkeypatch: pytest.MonkeyPatch, without: str) -> bool:
    """Whether sums go wrong with one safeguard out of work."""
    add: Callable[..., None] = exactsum.ExactSums._add
    if without == "bound":
        monkeypatch.setattr(exactsum.ExactSums, "_settle", lambda self, number, more: None)
        monkeypatch.setattr(exactsum, "_SAFE", 1 << 20)
    elif without == "split":
        monkeypatch.setattr(exactsum, "_fits", lambda magnitude, count: True)
        monkeypatch.setattr(exactsum, "_SAFE", 1 << 80)
    assert add is exactsum.ExactSums._add
    accumulator = LAWS["sum"].accumulator(pa.int64())
    value = (1 << 39) if without == "bound" else 2**63 - 1
    for _ in range(3):
        # What 2**24 values would come to, without adding them one by one.
        limbs = {"values": np.array([1]), "limb+0": np.array([value])}
        accumulator.merge(State("sum", pa.int64(), limbs), np.zeros(1, np.int64), 1)
        if without == "bound":
            (column,) = accumulator._sums._columns.values()  # type: ignore[attr-defined]  # of SumAccumulator
            column.head(1)[:] += 1 << 62
    finished = LAWS["sum"].finish(accumulator.freeze(1), 1)[0].as_py()
    return bool(finished != (3 * value + (3 << 62 if without == "bound" else 0)))


@pytest.mark.parametrize("without", ["bound", "split"])
def test_the_safeguards_of_integer_sums_are_needed(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    assert wrapped(monkeypatch, without)


def test_many_huge_integers_never_wrap() -> None:
    accumulator = LAWS["sum"].accumulator(pa.int64())
    values = pa.array(np.full(1 << 16, 2**63 - 1))
    for _ in range(40):
        accumulator.add(values, np.zeros(1 << 16, np.int64), 1)
    assert LAWS["sum"].finish(accumulator.freeze(1), 1)[0].as_py() == 40 * (1 << 16) * (2**63 - 1)


def test_counts_survive_the_folding_of_a_block_and_its_widening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.cbt.sums.exactsum._FLOAT_ADDITIONS_MAX", 8)
    sums, ids = ExactSums(), np.array([0, 1, 1])
    for scale in (1.0, 2.0**200, 2.0**-200, 1.0, 1.0):
        assert sums.add_floats(np.full(3, scale), ids, 2) == 3
    assert sums.floats_added(3).tolist() == [5, 10, 0]
    sums.clear()
    assert sums.floats_added(2).tolist() == [0, 0]


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_adding_stops_before_what_is_not_finite(special: float) -> None:
    sums = ExactSums()
    assert sums.add_floats(np.array([1.0, special, 2.0**300]), np.zeros(3, np.int64), 1) == 1
    assert sums.floats_added(1).tolist() == [1]
    assert sums.nbytes < 10_000  # it did not make room for the limbs of what it has not added
