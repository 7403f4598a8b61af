"""theta: the least hashes of a set, the same in any tree, and the bytes of a sketch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws import State
from elfmesh.cbt.laws.blobs import pack_values
from elfmesh.cbt.laws.theta import EVERYTHING, Theta, theta_bytes

LAW = Theta(16)


def lifted(values: Sequence[int | None], kind: pa.DataType | None = None) -> State:
    return LAW.lift(pa.array(values, kind or pa.int64()), np.zeros(len(values), np.int64), 1)


def sketch(state: State) -> bytes:
    (held,) = LAW.finish(state, 1).to_pylist()
    assert isinstance(held, bytes)
    return held


@given(st.lists(st.none() | st.integers(0, 40), max_size=40), st.integers(0, 40))
def test_a_sketch_is_that_of_the_set_in_any_tree(values: list[int | None], cut: int) -> None:
    halves = [lifted(values[:cut]), lifted(values[cut:])]
    merged = LAW.merge(halves, np.zeros(2, np.int64), 1)
    once = lifted([*{value for value in values if value is not None}, None])
    assert sketch(merged) == sketch(LAW.merge(halves[::-1], np.zeros(2, np.int64), 1)) == sketch(once)


def test_equal_values_of_both_types_have_equal_hashes() -> None:
    ints, floats = lifted([1, 2, 3]), lifted([1, 2, 3], pa.float64())
    assert sketch(LAW.promote(ints, pa.float64())) == sketch(floats)


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, 1), (1, 2), (16, 2), (17, 3), (500, 3)],
)
def test_a_sketch_is_exact_up_to_its_entries_and_then_holds_its_theta(count: int, words: int) -> None:
    held = sketch(lifted(list(range(count))))
    assert held[0] == words
    entries = int.from_bytes(held[8:12], "little") if words > 1 else 0
    assert entries == min(count, 16)
    if words == 3:
        assert 0 < int.from_bytes(held[16:24], "little") < EVERYTHING


def test_the_bytes_of_nothing_are_an_empty_sketch() -> None:
    assert len(theta_bytes(np.zeros(0, np.int64), EVERYTHING)) == 8
    assert theta_bytes(np.array([5]), EVERYTHING)[16:] == (5).to_bytes(8, "little")


@pytest.mark.parametrize("entries", [8, 17, 1 << 15])
def test_entries_are_a_power_of_two_in_range(entries: int) -> None:
    with pytest.raises(ValueError, match="a power of two from 16 to 16384"):
        Theta(entries)


@pytest.mark.parametrize(("entries", "kind"), [(4096, "theta"), (16, "theta:16")])
def test_a_kind_names_its_entries(entries: int, kind: str) -> None:
    assert Theta(entries).kind == kind


@pytest.mark.parametrize(
    ("hashes", "message"),
    [
        ([3, 2], "do not ascend"),
        ([2, 2], "do not ascend"),
        ([0, 1], "do not ascend"),
        (list(range(1, 19)), "a theta:16 has more hashes"),
    ],
)
def test_a_state_that_is_none_is_refused(hashes: list[int], message: str) -> None:
    items = pack_values(pa.array(hashes, pa.int64()), np.zeros(len(hashes), np.int64), 1)
    with pytest.raises(ValueError, match=message):
        LAW.check(State("theta:16", pa.int64(), {"items": items}), 1)


def test_a_state_that_is_one_is_taken() -> None:
    LAW.check(lifted(list(range(50))), 1)
