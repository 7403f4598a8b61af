"""States of groups by number, against a dict: put, merged, taken, forgotten and numbered again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.windows import registers
from elfmesh.cbt.windows.registers import Register

GROUPS = 5
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.integers(0, 4), st.integers(-9, 9), min_size=1)),
        st.tuples(st.just("merge"), st.dictionaries(st.integers(0, 4), st.integers(-9, 9), min_size=1)),
        st.tuples(st.just("forget"), st.sets(st.integers(0, 4), min_size=1)),
        st.tuples(st.just("renumber"), st.permutations(range(GROUPS))),
        st.tuples(st.just("clear"), st.just(())),
    ),
    max_size=12,
)
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "max": (pa.int64(), lambda value: value),
    "min": (pa.string(), lambda value: f"text {value + 9:02d}"),
}


def state_of(kind: str, values: list[int]) -> State:
    data_type, shown = KINDS[kind]
    column = pa.array([shown(value) for value in values], data_type)
    return LAWS[kind].lift(column, np.arange(len(values)), len(values))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("waste", [0, 1 << 14])
@given(steps=STEPS)
def test_a_register_is_a_dict(kind: str, waste: int, steps: list[tuple[str, Any]]) -> None:
    register = Register(kind, KINDS[kind][0])
    register.reserve(GROUPS)
    model: dict[int, int] = {}
    choose = max if kind == "max" else min
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registers, "_POOL_WASTE_MIN", waste - 2 * GROUPS)
        for step, given_ in steps:
            if step in ("put", "merge"):
                state = state_of(kind, list(given_.values()))
                getattr(register, step)(np.array(list(given_)), state)
                for group, value in given_.items():
                    known = step == "merge" and group in model
                    model[group] = choose(value, model[group]) if known else value
            elif step == "forget":
                register.forget(np.array(sorted(given_)))
                model = {group: value for group, value in model.items() if group not in given_}
            elif step == "renumber":
                if not model:  # a pool has no type before it has a value
                    continue
                register.renumber(np.array(given_))
                model = {new: model[old] for new, old in enumerate(given_) if old in model}
            else:
                register.clear()
                model = {}
            assert register.has(np.arange(GROUPS)).tolist() == [group in model for group in range(GROUPS)]
            if model:
                ids = np.array(sorted(model))
                shown = [KINDS[kind][1](model[group]) for group in sorted(model)]
                assert LAWS[kind].finish(register.take(ids), len(ids)).to_pylist() == shown


def test_a_column_that_a_state_lacks_is_zero_in_it() -> None:
    register = Register("sum", pa.float64())
    register.reserve(2)
    wide, narrow = (LAWS["sum"].lift(pa.array([value]), np.zeros(1, np.int64), 1) for value in (1e300, 1.5))
    register.put(np.array([0]), wide)
    register.put(np.array([0]), narrow)
    assert LAWS["sum"].finish(register.take(np.array([0])), 1).to_pylist() == [1.5]


def test_room_grows_by_at_least_double() -> None:
    register = Register("max", pa.int64())
    register.reserve(10)
    register.put(np.array([9]), state_of("max", [7]))
    register.reserve(11)
    assert len(register.has(np.arange(20))) == 20
    assert LAWS["max"].finish(register.take(np.array([9])), 1).to_pylist() == [7]
