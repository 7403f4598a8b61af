"""count(*) counts rows, count(x) values; states from outside are one column of plain integers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.laws import LAWS, State

LAW = LAWS["count"]


def counts(values: pa.Array | None, groups: list[int]) -> list[int]:
    state = LAW.lift(values, np.array(groups), max(groups) + 1)
    found: list[int] = LAW.finish(state, max(groups) + 1).to_pylist()
    return found


def test_rows_are_counted_and_values_that_are_not_null() -> None:
    assert counts(None, [0, 1, 1]) == [1, 2]
    assert counts(pa.array([1, None, 3]), [0, 1, 1]) == [1, 1]
    assert counts(pa.array([None, None], pa.int64()), [0, 0]) == [0]


def test_a_negated_count_takes_back_what_was_merged() -> None:
    one = LAW.lift(None, np.array([0, 0, 1]), 2)
    merged = LAW.merge([one, LAW.negate(one)], np.array([0, 1, 0, 1]), 2)
    assert LAW.finish(merged, 2).to_pylist() == [0, 0]


def test_rows_and_values_together_are_values() -> None:
    rows, values = LAW.lift(None, np.array([0]), 1), LAW.lift(pa.array([1]), np.array([0]), 1)
    assert set(LAW.merge([rows, values], np.array([0, 0]), 1).parts) == {"values"}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            State("count", pa.int64(), {"rows": np.zeros(1, np.int64), "values": np.zeros(1, np.int64)}),
            "columns",
        ),
        (State("count", pa.int64(), {"others": np.zeros(1, np.int64)}), "columns"),
        (State("count", pa.float64(), {"rows": np.zeros(1, np.int64)}), "columns"),
        (State("count", pa.int64(), {"rows": pa.array([1])}), "plain integers"),
    ],
)
def test_a_state_that_is_none_is_refused(state: State, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LAW.check(state, 1)


@pytest.mark.parametrize("part", ["rows", "values"])
def test_a_state_that_is_one_is_taken(part: str) -> None:
    LAW.check(State("count", pa.int64(), {part: np.zeros(1, np.int64)}), 1)
