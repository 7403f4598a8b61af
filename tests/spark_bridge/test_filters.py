from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.spark_bridge.filters import COLUMN, STATE, IntervalBounds, narrow


@dataclass
class Condition:
    attribute: tuple[str, ...]
    value: Any


KINDS = {
    "EqualTo": int.__eq__,
    "GreaterThan": int.__gt__,
    "GreaterThanOrEqual": int.__ge__,
    "LessThan": int.__lt__,
    "LessThanOrEqual": int.__le__,
}


def condition(kind: str, value: Any, column: tuple[str, ...] = COLUMN) -> Condition:
    made: Condition = type(kind, (Condition,), {})(column, value)
    return made


@given(
    st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(-5, 25)), max_size=4),
    st.integers(-1, 20),
    st.integers(0, 12),
)
def test_taken_filters_leave_exactly_the_intervals_they_mean(
    filters: list[tuple[str, int]], after: int, length: int
) -> None:
    bounds = IntervalBounds()
    for kind, value in filters:
        narrowed = narrow(bounds, condition(kind, value))
        assert narrowed is not None
        bounds = narrowed
    low, high = bounds.clip(after, after + length)
    held = range(after + 1, after + length + 1)
    meant = [index for index in held if all(KINDS[kind](index, value) for kind, value in filters)]
    assert list(range(low + 1, high + 1)) == meant


@pytest.mark.parametrize(
    "given",
    [
        condition("EqualTo", 3, ("product",)),
        condition("EqualTo", None),
        condition("EqualTo", True),
        condition("In", (1, 2)),
        condition("StringStartsWith", "x"),
        object(),
    ],
)
def test_what_bounds_cannot_express_goes_back_to_spark(given: Any) -> None:
    assert narrow(IntervalBounds(), given) is None


def test_the_interval_is_never_null() -> None:
    assert narrow(IntervalBounds(1, 2), condition("IsNotNull", None)) == IntervalBounds(1, 2)


def test_filters_on_the_state_are_the_states_that_are_read() -> None:
    bounds = narrow(IntervalBounds(), condition("In", ("FINAL", "FINAL_PARTIAL"), STATE))
    assert bounds == IntervalBounds(states=frozenset({"FINAL", "FINAL_PARTIAL"}))
    assert narrow(bounds, condition("EqualTo", "FINAL", STATE)) == IntervalBounds(states=frozenset({"FINAL"}))
    assert narrow(bounds, condition("EqualTo", "OPEN", STATE)) == IntervalBounds(states=frozenset())
    for kind, value in (("GreaterThan", "FINAL"), ("In", ("FINAL", None)), ("EqualTo", None)):
        assert narrow(bounds, condition(kind, value, STATE)) is None
