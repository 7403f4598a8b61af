"""Scatters of the native kernel against those of its twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)


numbers = st.integers(-(2**63), 2**63 - 1)


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 4), numbers), max_size=40), numbers)
def test_scatters_are_those_of_the_twin(groups: int, rows: list[tuple[int, int]], start: int) -> None:
    ids = np.array([group % groups for group, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.int64)
    for name in ("count", "add", "least", "greatest"):
        ours, theirs = np.full(groups, start), np.full(groups, start)
        arguments = (ids,) if name == "count" else (ids, values)
        getattr(native, name)(*arguments, ours)
        getattr(twin, name)(*arguments, theirs)
        assert ours.tolist() == theirs.tolist(), name


floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**-1022, 0.1, 1e-300]),
    st.floats(-1e6, 1e6),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
)


@given(
    st.lists(st.tuples(st.integers(0, 3), floats), max_size=30),
    st.sampled_from([(-34, 68), (-3, 5), (-1, 2), (0, 1), (-40, 3), (30, 9)]),
)
def test_float_sums_are_those_of_the_twin(rows: list[tuple[int, float]], columns: tuple[int, int]) -> None:
    lowest, limbs = columns
    ids = np.array([group for group, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.float64)
    ours, theirs = np.zeros((4, 1 + limbs), np.int64), np.zeros((4, 1 + limbs), np.int64)
    assert native.add_floats(ids, values, ours, lowest) == twin.add_floats(ids, values, theirs, lowest)
    assert ours.tolist() == theirs.tolist()


@given(st.lists(st.tuples(st.integers(0, 3), floats), max_size=30))
def test_extremes_of_floats_are_those_of_the_twin(rows: list[tuple[int, float]]) -> None:
    ids = np.array([group for group, _ in rows], np.int64)
    values = np.array([value for _, value in rows], np.float64)
    for name, start in (("least_floats", 2**63 - 1), ("greatest_floats", -(2**63))):
        ours, theirs = np.full(4, start), np.full(4, start)
        getattr(native, name)(ids, values, ours)
        getattr(twin, name)(ids, values, theirs)
        assert ours.tolist() == theirs.tolist(), name


@pytest.mark.parametrize("bad", [[0, 4], [-1], [2**62], [0, -(2**63)]])
def test_an_id_outside_changes_nothing(bad: list[int]) -> None:
    ids, values, out = np.array(bad), np.ones(len(bad), np.int64), np.zeros(4, np.int64)
    for scatter in (native.add, native.least, native.greatest):
        with pytest.raises(IndexError):
            scatter(ids, values, out)
    for scatter in (native.least_floats, native.greatest_floats):
        with pytest.raises(IndexError):
            scatter(ids, values.astype(np.float64), out)
    with pytest.raises(IndexError):
        native.count(ids, out)
    with pytest.raises(IndexError):
        native.add_floats(ids, values.astype(np.float64), out.reshape(2, 2), 0)
    assert not out.any()


def test_no_ids_and_no_groups_are_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    native.count(nothing, nothing)
    native.add(nothing, nothing, nothing)
    assert native.add_floats(nothing, np.zeros(0), np.zeros((0, 3), np.int64), 0) == 0


def test_sums_go_only_where_they_can_be_seen() -> None:
    ids = np.zeros(1, np.int64)
    for out in (np.zeros(4, np.int64)[::2], np.zeros(2, np.int32)):
        with pytest.raises(TypeError, match="int64"):
            native.count(ids, out)
    with pytest.raises((ValueError, TypeError, BufferError)):
        native.count(ids, np.frombuffer(bytes(8), np.int64))
