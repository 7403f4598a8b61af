from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt import columns
from elfmesh.cbt.errors import TypeConflict
from elfmesh.errors import DataError

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("array", "want"),
    [
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([1], pa.uint8()), pa.int64()),
        (pa.array([1.5], pa.float32()), pa.float64()),
        (pa.array(["a", None]), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array(["a", None], pa.string_view()), pa.string()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array([1, 2], pa.int16()).dictionary_encode(), pa.int64()),
        (pa.array([b"a"], pa.large_binary()), pa.binary()),
        (pa.array([b"ab"], pa.binary(2)), pa.binary()),
        (pa.array([EPOCH], pa.timestamp("s")), columns.TIMESTAMP),
        (pa.array([EPOCH], pa.timestamp("ms", tz="Europe/Berlin")), columns.TIMESTAMP),
        (pa.array([EPOCH], pa.timestamp("ns", tz="UTC")), columns.TIMESTAMP),
        (pa.array([dt.date(2000, 1, 1)], pa.date64()), pa.date32()),
        (pa.array([dt.time(1, 2)], pa.time32("s")), pa.time64("us")),
        (pa.array([dt.timedelta(1)], pa.duration("ns")), pa.duration("us")),
        (pa.array([Decimal("1.5")], pa.decimal256(40, 1)), pa.decimal128(38, 1)),
        (pa.array([True, None]), pa.bool_()),
        (pa.nulls(2), pa.null()),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_every_scalar_type_has_one_canonical_type(array: pa.Array, want: pa.DataType) -> None:
    got = columns.normalise(array, "x")
    assert got.type == want
    plain = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    assert len(got) == len(plain)
    assert got.null_count == plain.null_count
    assert columns.type_from_name(columns.type_name(want)) == want


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([2**63], pa.uint64()),
        pa.array([10**18], pa.timestamp("s")),
    ],
    ids=["list", "struct", "uint64", "far timestamp"],
)
def test_what_cannot_be_a_column_is_refused_by_name(array: pa.Array) -> None:
    with pytest.raises(DataError, match="'path'"):
        columns.normalise(array, "path")


def test_nanoseconds_before_the_epoch_are_floored() -> None:
    array = pa.array([-1, 1_999, None], pa.timestamp("ns"))
    assert columns.normalise(array, "t").cast(pa.int64()).to_pylist() == [-1, 1, None]


def test_floats_have_one_nan_and_one_zero() -> None:
    odd_nan = struct.unpack("d", struct.pack("Q", 0xFFF8000000000123))[0]
    array = pa.array([math.nan, odd_nan, 0.0, -0.0, None, -1.5])
    values, _ = columns.to_int64(columns.normalise(array, "x"))
    assert values[0] == values[1]
    assert values[2] == values[3] == 0
    assert columns.normalise(array, "x").null_count == 1


TYPES = [*(columns.type_from_name(name) for name in columns._NAMED), pa.decimal128(5, 2), pa.decimal128(9, 2)]


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_unify_is_commutative_and_associative(a: Any, b: Any, c: Any) -> None:
    def unify(left: Any, right: Any) -> Any:
        if "conflict" in (left, right):
            return "conflict"
        try:
            return columns.unify("x", left, right)
        except TypeConflict:
            return "conflict"

    assert unify(a, b) == unify(b, a)
    assert unify(unify(a, b), c) == unify(a, unify(b, c))
    assert unify(a, a) == a


def test_a_conflict_names_the_column_and_both_types() -> None:
    with pytest.raises(TypeConflict, match=r"'status' is int64 in one place and string in another") as caught:
        columns.unify("status", pa.int64(), pa.string())
    assert (caught.value.column, caught.value.left, caught.value.right) == ("status", "int64", "string")


@pytest.mark.parametrize("name", ["", "int32", "decimal(0,0)", "decimal(39,0)", "decimal(5,99)", "list"])
def test_unknown_type_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a column type"):
        columns.type_from_name(name)


@pytest.mark.parametrize("data_type", [pa.int64(), pa.bool_(), pa.date32(), columns.TIMESTAMP, pa.float64()])
def test_integers_under_fixed_width_types_round_trip(data_type: pa.DataType) -> None:
    array = pa.array([1, 0, None, 1], pa.int64()).cast(pa.int32() if data_type == pa.date32() else pa.int64())
    array = array.cast(data_type)[1:]
    values, valid = columns.to_int64(array)
    assert columns.from_int64(values, valid, data_type).equals(array)
    assert len(columns.to_int64(array[:0])[0]) == 0
    assert np.asarray(valid).tolist() == [True, False, True]
