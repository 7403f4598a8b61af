"""Two stacks hold the greatest values of a sliding window, as a maximum over the panes inside does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.windows.registers import Register
from elfmesh.cbt.windows.stacks import Stacks

GROUPS = 3
Pane = dict[int, int]


def state_of(pane: Pane) -> tuple[np.ndarray[Any, Any], list[State]]:
    column = pa.array(list(pane.values()), pa.int64())
    return np.array(list(pane), np.int64), [LAWS["max"].lift(column, np.arange(len(pane)), len(pane))]


def built(panes: list[Pane], split: int) -> Stacks:
    stacks = Stacks(
        [Register("max", pa.int64())], [Register("max", pa.int64())], [Register("max", pa.int64())]
    )
    for register in stacks.registers:
        register.reserve(GROUPS)
    stacks.clear(split)
    for number in reversed(range(len(panes))):
        if panes[number]:
            stacks.push(number, *state_of(panes[number]))
    stacks.refresh(np.arange(GROUPS))
    return stacks


def shown(stacks: Stacks) -> Pane:
    (both,) = stacks.both
    ids = np.flatnonzero(both.has(np.arange(GROUPS)))
    return (
        dict(zip(ids.tolist(), LAWS["max"].finish(both.take(ids), len(ids)).to_pylist(), strict=True))
        if len(ids)
        else {}
    )


def greatest(panes: list[Pane]) -> Pane:
    found: Pane = {}
    for pane in panes:
        for group, value in pane.items():
            found[group] = max(value, found.get(group, value))
    return found


PANES = st.lists(st.dictionaries(st.integers(0, GROUPS - 1), st.integers(-5, 5)), min_size=1, max_size=5)


@given(PANES, st.integers(0, 5), PANES)
def test_old_panes_leave_and_new_ones_enter(panes: list[Pane], split: int, new: list[Pane]) -> None:
    split %= len(panes) + 1
    stacks = built(panes, split)
    assert shown(stacks) == greatest(panes)
    for number in range(split):
        stacks.leave(number)
        inside = [*panes[number + 1 :], *new[:number]]
        assert not stacks.stale
        assert shown(stacks) == greatest(inside)
        if number < len(new):
            if new[number]:
                stacks.enter(len(panes) + number, *state_of(new[number]))
            assert shown(stacks) == greatest([*panes[number + 1 :], *new[: number + 1]])


def test_the_front_is_used_up_when_a_pane_of_the_back_leaves() -> None:
    stacks = built([{0: 1}, {0: 2}], 1)
    stacks.leave(0)
    assert not stacks.stale
    stacks.leave(1)
    assert stacks.stale


def test_a_late_record_of_a_pane_in_front_makes_both_be_built_again() -> None:
    stacks = built([{0: 1}, {0: 2}], 1)
    stacks.enter(0, *state_of({1: 9}))
    assert stacks.stale


def test_groups_are_numbered_again_with_the_notes_of_the_front() -> None:
    stacks = built([{2: 9}, {2: 1}], 1)
    number_of = np.array([-1, -1, 0])
    stacks.renumber(np.array([2]), number_of)
    assert LAWS["max"].finish(stacks.both[0].take(np.array([0])), 1).to_pylist() == [9]
    stacks.leave(0)
    assert LAWS["max"].finish(stacks.both[0].take(np.array([0])), 1).to_pylist() == [1]
