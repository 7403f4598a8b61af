"""Lists per group as one binary value each: what was packed is unpacked, and other bytes are refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.laws.blobs import (
    check_binary,
    count_values,
    pack_values,
    pack_words,
    unpack_values,
    unpack_words,
)

TEXTS = st.text(max_size=9)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), st.binary(max_size=9)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "decimal": (
        pa.decimal128(38, 2),
        st.integers(-(10**30), 10**30).map(lambda cents: Decimal(cents).scaleb(-2)),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_lists_of_any_kind_come_back(kind: str, data: st.DataObject) -> None:
    data_type, items = KINDS[kind]
    lists = data.draw(st.lists(st.lists(items, max_size=4), min_size=1, max_size=5))
    rows = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
    values = pa.array([value for each in lists for value in each], data_type)
    packed = pack_values(values, rows, len(lists))
    again, of = unpack_values(packed, data_type)
    assert again.to_pylist() == values.to_pylist()
    assert of.tolist() == rows.tolist()
    assert count_values(packed, data_type).tolist() == [len(each) for each in lists]


def test_values_of_no_type_are_lists_of_nothing() -> None:
    packed = pack_values(pa.nulls(0), np.zeros(0, np.int64), 3)
    assert packed.to_pylist() == [b""] * 3
    assert unpack_values(packed, pa.null())[0].to_pylist() == []
    with pytest.raises(ValueError, match="no type"):
        unpack_values(pa.array([b"x"], pa.binary()), pa.null())


@pytest.mark.parametrize(
    "blob",
    [
        b"abc",  # no whole word
        (0).to_bytes(4, "little"),  # no list says that it has none
        (2).to_bytes(4, "little") + (1).to_bytes(4, "little"),  # lengths of two do not fit
        (1).to_bytes(4, "little") + (9).to_bytes(4, "little") + b"abcd",
        (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"abcdefgh",
        b"\xff" * 8,
    ],
)
def test_bytes_that_are_no_list_of_strings_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="list of strings"):
        unpack_values(pa.array([b"", blob], pa.binary()), pa.string())


def test_items_that_end_within_one_are_refused() -> None:
    packed = pack_words(np.array([1, 2, 3], np.int64), np.array([0, 0, 2]), 3)
    items, rows = unpack_words(packed, np.dtype(np.int64))
    assert (items.tolist(), rows.tolist()) == ([1, 2, 3], [0, 0, 2])
    with pytest.raises(ValueError, match="ends within"):
        unpack_words(pa.array([b"1234567"], pa.binary()), np.dtype(np.int64))


def test_a_slice_of_lists_is_unpacked_by_itself() -> None:
    packed = pack_values(pa.array(["a", "bb", "ccc"]), np.array([0, 1, 2]), 3)
    again, of = unpack_values(packed.slice(1), pa.string())
    assert (again.to_pylist(), of.tolist()) == (["bb", "ccc"], [0, 1])


@pytest.mark.parametrize("column", [pa.array(["a"]), pa.array([None], pa.binary()), b"a", None])
def test_only_binaries_without_nulls_are_taken(column: object) -> None:
    with pytest.raises(ValueError, match="not a binary column"):
        check_binary(column, "it")
