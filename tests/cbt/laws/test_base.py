"""What every law has of its base: merging, promoting and lifting by its accumulator, and no inverse."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt.errors import NotInvertible
from elfmesh.cbt.laws import LAWS, State


def lifted(kind: str, values: list[object], groups: list[int], kind_of: pa.DataType | None = None) -> State:
    return LAWS[kind].lift(pa.array(values, kind_of), np.array(groups), max(groups) + 1)


def test_states_of_several_blocks_are_merged_by_group() -> None:
    law = LAWS["max"]
    one, other = lifted("max", [1, 5], [0, 1]), lifted("max", [7, 3], [0, 1])
    merged = law.merge([one, other], np.array([0, 1, 1, 2]), 3)
    assert law.finish(merged, 3).to_pylist() == [1, 7, 3]


def test_a_state_is_promoted_only_where_its_type_changes() -> None:
    state = lifted("max", [1, 5], [0, 1])
    assert LAWS["max"].promote(state, pa.int64()) is state
    wide = LAWS["max"].promote(state, pa.float64())
    assert (wide.type, LAWS["max"].finish(wide, 2).to_pylist()) == (pa.float64(), [1.0, 5.0])


def test_an_accumulator_that_was_cleared_begins_with_no_groups() -> None:
    accumulator = LAWS["max"].accumulator(pa.int64())
    accumulator.add(pa.array([9]), np.array([0]), 1)
    accumulator.clear()
    accumulator.add(pa.array([1]), np.array([1]), 2)
    assert LAWS["max"].finish(accumulator.freeze(2), 2).to_pylist() == [None, 1]


@pytest.mark.parametrize("kind", ["max", "distinct", "hll"])
def test_a_law_without_an_inverse_refuses_to_negate(kind: str) -> None:
    with pytest.raises(NotInvertible, match=f"{kind} declares no inverse"):
        LAWS[kind].negate(lifted(kind, [1], [0]))


def test_the_partial_columns_of_most_laws_are_their_finished_values() -> None:
    partial = LAWS["max"].partial(lifted("max", [1, 5], [0, 1]), 2)
    assert {name: column.to_pylist() for name, column in partial.items()} == {"": [1, 5]}
