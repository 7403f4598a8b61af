"""Key columns and scatters of the native kernel against those of its twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.kernel import numpy_twin as twin
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, KeyColumn, KeyOverflow, Keys
from tests.cbt.kernel.cases import keys_of, texts_of

native = pytest.importorskip("elfmesh.cbt.kernel.native", exc_type=ImportError)

TYPES: dict[int, type[np.uint8] | type[np.int32] | type[np.int64]] = {
    1: np.uint8,
    4: np.int32,
    8: np.int64,
    16: np.int64,
}
text = st.lists(st.sampled_from([b"\x00", b"\xff", b"a", b"bc"]), max_size=6).map(b"".join)


@st.composite
def key_columns(draw: st.DrawFn) -> tuple[list[KeyColumn], int]:
    rows = draw(st.integers(0, 12))
    columns = []
    for _ in range(draw(st.integers(0, 4))):
        width = draw(st.sampled_from([-1, -1, 0, 1, 4, 8, 16]))
        nullable = width == 0 or draw(st.booleans())
        mask = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)
        valid = mask if nullable and draw(st.booleans()) else None
        if width == -1:
            texts = draw(st.lists(text, min_size=rows, max_size=rows))
            columns.append(KeyColumn(-1, nullable, None, keys_of(texts, b".."), valid))
        elif width == 0:
            columns.append(KeyColumn(0, True))
        else:
            info = np.iinfo(TYPES[width])
            cells = rows * (2 if width == 16 else 1)
            numbers = draw(st.lists(st.integers(info.min, info.max), min_size=cells, max_size=cells))
            values = np.array(numbers, TYPES[width])
            columns.append(
                KeyColumn(width, nullable, values.reshape(rows, 2) if width == 16 else values, None, valid)
            )
    return columns, rows


def cells_of(columns: list[KeyColumn], rows: int) -> list[tuple[Any, ...]]:
    """Rows of plain values, None for nulls."""
    lists: list[list[Any]] = []
    for column in columns:
        if column.width == -1:
            assert column.strings is not None
            values: list[Any] = texts_of(column.strings)
        else:
            values = [None] * rows if column.values is None else column.values.tolist()
        valid = [True] * rows if column.valid is None else column.valid.tolist()
        lists.append([value if there else None for value, there in zip(values, valid, strict=True)])
    return [tuple(map(str, cells)) for cells in zip(*lists, strict=True)] if lists else [()] * rows


@given(key_columns())
def test_encoded_keys_are_those_of_the_twin_and_decode_to_the_same(
    given_: tuple[list[KeyColumn], int],
) -> None:
    columns, rows = given_
    encoded = native.encode_keys(columns, rows)
    assert texts_of(encoded) == texts_of(twin.encode_keys(columns, rows))
    if not columns:
        return
    shape = [(column.width, column.nullable) for column in columns]
    moved = Keys(encoded.offsets + 3, np.concatenate((np.zeros(3, np.uint8), encoded.data)))
    decoded = native.decode_keys(moved, shape)
    assert cells_of(decoded, rows) == cells_of(columns, rows)
    theirs = twin.decode_keys(moved, shape)
    assert cells_of(theirs, rows) == cells_of(decoded, rows)
    for ours, other in zip(decoded, theirs, strict=True):
        assert (ours.values is None) == (other.values is None)
        assert (ours.valid is None) == (other.valid is None)
        if ours.values is not None and other.values is not None:
            assert ours.values.dtype == other.values.dtype
            assert ours.values.tolist() == other.values.tolist()  # zeros where null


@given(st.lists(st.binary(max_size=12) | text, max_size=5), st.data())
def test_the_kernels_agree_on_which_bytes_are_keys_of_a_shape(
    texts: list[bytes], data: st.DataObject
) -> None:
    keys = keys_of(texts)
    column = st.tuples(st.sampled_from([-1, 0, 1, 4, 8, 16]), st.booleans())
    shape = data.draw(st.lists(column, min_size=1, max_size=3))
    outcomes = []
    for kernel in (native, twin):
        try:
            outcomes.append(cells_of(kernel.decode_keys(keys, shape), len(texts)))
        except ValueError:
            outcomes.append([("refused",)])
    assert outcomes[0] == outcomes[1]


def test_all_keys_that_are_too_long_are_named() -> None:
    long, short = b"x" * KEY_BYTES_MAX, b"x"
    columns = [
        KeyColumn(-1, True, None, keys_of([short, long, short, long]), np.array([True, True, True, False]))
    ]
    for kernel in (native, twin):
        with pytest.raises(KeyOverflow) as raised:
            kernel.encode_keys(columns, 4)
        assert raised.value.rows.tolist() == [1]
    assert len(native.encode_keys([KeyColumn(-1, False, None, keys_of([long]))], 1).data) == KEY_BYTES_MAX


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        native.encode_keys([KeyColumn(8, False, np.zeros(2, np.int64))], 3)
    with pytest.raises(ValueError, match="length"):
        native.encode_keys([KeyColumn(8, True, np.zeros(3, np.int64), None, np.ones(2, np.bool_))], 3)
    with pytest.raises(ValueError, match="length"):
        native.encode_keys([KeyColumn(-1, False, None, keys_of([b"a"]))], 3)
    with pytest.raises(ValueError, match="5 bytes"):
        native.encode_keys([KeyColumn(5, False)], 3)
    with pytest.raises(ValueError, match="5 bytes"):
        native.decode_keys(keys_of([b""]), [(5, False)])


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
