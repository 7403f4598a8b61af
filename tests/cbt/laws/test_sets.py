"""distinct, collect and set: values of a group, each once and counted, or the least of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS, State, sets
from elfmesh.cbt.laws.blobs import pack_values
from elfmesh.cbt.laws.sets import COLLECT_MAX, Collect, CollectSet

VALUES = st.lists(st.none() | st.integers(-3, 3), max_size=12)


def result(law: Any, values: list[int | None], cut: int) -> Any:
    """Of two halves that are merged."""
    states = [
        law.lift(pa.array(half, pa.int64()), np.zeros(len(half), np.int64), 1)
        for half in (values[:cut], values[cut:])
    ]
    for state in states:
        law.check(state, 1)
    return law.finish(law.merge(states, np.zeros(2, np.int64), 1), 1).to_pylist()[0]


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("pairs_min", [0, 1 << 16])
@given(values=VALUES, cut=st.integers(0, 12))
def test_values_are_those_of_a_sorted_list(
    limit: int, pairs_min: int, values: list[int | None], cut: int
) -> None:
    present = sorted(value for value in values if value is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "_PAIRS_MIN", pairs_min)
        assert result(Collect(limit), values, cut) == present[:limit]
        assert result(CollectSet(limit), values, cut) == sorted(set(present))[:limit]
        assert result(LAWS["distinct"], values, cut) == len(set(present))


@pytest.mark.parametrize(("limit", "kind"), [(100, "collect"), (7, "collect:7"), (10_000, "collect:10000")])
def test_a_kind_names_its_limit(limit: int, kind: str) -> None:
    assert Collect(limit).kind == kind


def test_a_limit_has_a_limit() -> None:
    with pytest.raises(ValueError, match="keeps up to 10000 values per group, not 10001"):
        Collect(COLLECT_MAX + 1)


def test_values_that_a_wider_type_makes_equal_are_one() -> None:
    law = LAWS["distinct"]
    accumulator = law.accumulator(pa.int64())
    accumulator.add(pa.array([2**53, 2**53 + 1]), np.zeros(2, np.int64), 1)
    accumulator.promote(pa.float64())
    assert law.finish(accumulator.freeze(1), 1).to_pylist() == [1]


def blob(values: pa.Array) -> pa.Array:
    return pack_values(values, np.zeros(len(values), np.int64), 1)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State("collect:2", pa.int64(), {"items": blob(pa.array([1, 2, 3]))}), "a collect:2 has more values"),
        (State("collect:2", pa.int64(), {"others": blob(pa.array([1]))}), "has columns"),
        (State("collect:2", pa.string(), {"items": blob(pa.array(["x" * 40_000]))}), "has a value over"),
        (State("collect:2", pa.float64(), {"items": blob(pa.array([-0.0]))}), "a float that is -0.0"),
    ],
)
def test_a_state_that_is_none_is_refused(state: State, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Collect(2).check(state, 1)
