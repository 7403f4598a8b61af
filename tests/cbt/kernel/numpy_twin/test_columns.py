"""Columns of states in the native kernel against those of its twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import ANY_FLOAT, ShortSums

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)

INT64 = st.integers(-(2**63), 2**63 - 1)
numbers = INT64 | st.integers(-300, 300) | st.sampled_from([2**24, 2**40, 2**56 - 1])


@given(st.lists(numbers, min_size=1, max_size=30), st.data())
@example([-(2**63), 2**63 - 1], None)
@example([7] * 5, None)
def test_planes_are_those_of_the_twin_and_come_back(values: list[int], data: st.DataObject | None) -> None:
    column, order, cuts = np.array(values), None, [0, len(values)]
    if data is not None:
        ranks = data.draw(st.none() | st.lists(st.integers(0, len(values) - 1), max_size=30))
        order = None if ranks is None else np.array(ranks, np.int64)
        rows = len(values) if order is None else len(order)
        cuts = sorted(data.draw(st.lists(st.integers(0, rows), min_size=1, max_size=5)))
    width, base, chunks = native.pack_ints(column, np.array(cuts), order)
    assert (width, base, chunks) == twin.pack_ints(column, np.array(cuts), order)
    sizes = np.diff(cuts).tolist()
    parts = [(rows, width, base, chunk) for rows, chunk in zip(sizes, chunks, strict=True)]
    expected = (column if order is None else column[order])[cuts[0] : cuts[-1]].tolist()
    for kernel in (native, twin):
        assert kernel.unpack_ints(parts).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 8), INT64, st.binary(max_size=24)), max_size=4))
def test_the_kernels_agree_on_arbitrary_planes(parts: list[tuple[int, int, bytes]]) -> None:
    fitting = [
        (
            len(data) // width if width else 3,
            width,
            base,
            data[: len(data) // width * width] if width else b"",
        )
        for width, base, data in parts
    ]
    assert native.unpack_ints(fitting).tolist() == twin.unpack_ints(fitting).tolist()


@pytest.mark.parametrize(
    "part",
    [(2, 1, 0, b"abc"), (2, 2, 0, b"abc"), (1, 9, 0, b"123456789"), (-1, 1, 0, b""), (1, -1, 0, b"")],
)
def test_planes_that_do_not_fit_are_refused(part: tuple[int, int, int, bytes]) -> None:
    for kernel in (native, twin):
        with pytest.raises(ValueError, match=r"planes|dimensions"):
            kernel.unpack_ints([part])


def test_rows_that_are_not_there_are_not_written() -> None:
    values = np.arange(4)
    for cuts in ([0, 5], [3, 1], [-1, 2], []):
        with pytest.raises(ValueError, match="cuts"):
            native.pack_ints(values, np.array(cuts, np.int64))
    with pytest.raises(ValueError, match="cuts"):
        native.pack_ints(values, np.array([0, 3]), np.arange(2))
    for order in ([0, 4], [-1, 0]):
        with pytest.raises(ValueError, match="id"):
            native.pack_ints(values, np.array([0, 2]), np.array(order))


floats = (
    st.integers(-(10**8), 10**8).map(lambda cents: cents / 100)
    | st.integers(-(10**12), 10**12).map(lambda micros: micros / 10**6)
    | st.floats()
    | st.sampled_from([0.0, -0.0, np.nan, np.inf, 2.0**52 + 0.5, 2.0**53, 1e300, 5e-324])
)


@given(st.lists(floats, max_size=70) | st.lists(st.integers(-999, 999).map(lambda x: x / 10), max_size=70))
def test_decimals_are_those_of_the_twin(values: list[float]) -> None:
    column = np.array(values, np.float64)
    ours, theirs = native.scale_floats(column), twin.scale_floats(column)
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert (ours[0].tolist(), ours[1]) == (theirs[0].tolist(), theirs[1])
        assert (ours[0] / 10.0 ** ours[1]).tobytes() == column.tobytes()


def shown(sums: ShortSums | None) -> object:
    return sums and (sums.near.tolist(), sums.digits, sums.rest.tolist(), sums.unit)


@given(
    st.lists(st.lists(floats.filter(np.isfinite), max_size=4), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(-34, 40), INT64), max_size=3),
)
def test_short_sums_are_those_of_the_twin(groups: list[list[float]], odd: list[tuple[int, int]]) -> None:
    block = np.zeros((len(groups), 70), np.int64)
    for group, values in enumerate(groups):
        twin.add_floats(np.full(len(values), group), np.array(values, np.float64), block, -34)
    limbs = {
        place - 34: np.ascontiguousarray(block[:, place]) for place in range(70) if block[:, place].any()
    }
    limbs |= {number: np.full(len(groups), value) for number, value in odd}
    if 1 <= len(limbs) <= 12:
        assert shown(native.short_sums(limbs)) == shown(twin.short_sums(limbs))


@given(st.lists(INT64, max_size=20), st.integers(ANY_FLOAT, 6), st.integers(-1200, 1200))
def test_units_are_those_of_the_twin(near: list[int], digits: int, unit: int) -> None:
    column = np.array(near, np.int64)
    assert (
        native.short_units(column, digits, unit).tolist() == twin.short_units(column, digits, unit).tolist()
    )


def test_what_is_no_sum_is_refused() -> None:
    column = np.zeros(2, np.int64)
    for limbs in (
        {-35: column},
        {41: column},
        {0: column, 1: np.zeros(3, np.int64)},
        dict.fromkeys(range(13), column),
    ):
        with pytest.raises(ValueError, match=r"limbs|length"):
            native.short_sums(limbs)
    for digits, unit in ((-2, 0), (7, 0), (0, 5000)):
        with pytest.raises(ValueError, match="digits"):
            native.short_units(column, digits, unit)
