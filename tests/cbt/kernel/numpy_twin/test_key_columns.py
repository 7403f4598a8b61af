"""Key columns of the native kernel against those of its twin."""

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
