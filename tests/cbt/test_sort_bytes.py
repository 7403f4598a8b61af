"""Sort keys: their order is that of a comparison of the values, as Spark makes it."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elfmesh.cbt.sort_bytes import read_sorted, reader, sort_bytes, sortable
from elfmesh.ql.values.joining import row_codes

NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(width=64))
TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=3)
STRUCTS = st.tuples(NUMBERS, TEXTS).map(lambda pair: {"a": pair[0], "b": pair[1]})
VALUES = st.lists(st.one_of(st.none(), STRUCTS), max_size=3)


def compared(one: Any, other: Any) -> int:
    """Compare as Spark: null first, lists by elements and then by length, structs by fields, NaN last."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        return next((found for name in one if (found := compared(one[name], other[name]))), 0)
    if isinstance(one, list):
        pairs = zip(one, other, strict=False)
        return next((found for pair in pairs if (found := compared(*pair))), 0) or len(one) - len(other)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    elif (first := math.isnan(one)) | (second := math.isnan(other)):
        return first - second
    return int(one > other) - int(one < other)


@given(VALUES, VALUES)
def test_the_order_of_the_bytes_is_that_of_the_values(one: list[Any], other: list[Any]) -> None:
    wanted = compared(one, other)
    keys = sort_bytes(one), sort_bytes(other)
    assert (keys[0] > keys[1]) - (keys[0] < keys[1]) == (wanted > 0) - (wanted < 0)
    keys = sort_bytes(one, "df"), sort_bytes(other, "df")
    assert (keys[0] < keys[1]) - (keys[0] > keys[1]) == (wanted > 0) - (wanted < 0)


@given(VALUES, VALUES)
def test_no_key_is_a_prefix_of_another(one: list[Any], other: list[Any]) -> None:
    keys = sort_bytes(one), sort_bytes(other)
    assert keys[0] == keys[1] or not keys[0].startswith(keys[1])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [False, True]),
        (pa.binary(), [b"", b"\0", b"a", b"a\0", b"\xff"]),
        (pa.date32(), [-719_900, date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), 2_933_300]),
        (pa.timestamp("us", tz="UTC"), [-(10**18), datetime(1969, 1, 1), datetime(2026, 1, 1), 10**18]),
        (pa.duration("us"), [-(2**62), timedelta(days=-1), timedelta(0), timedelta(microseconds=1)]),
        (pa.decimal128(9, 2), [Decimal("-1.5"), Decimal("0.00"), Decimal("0.01"), Decimal(100)]),
    ],
    ids=str,
)
def test_values_of_other_types_are_ordered_in_lists(kind: pa.DataType, values: list[Any]) -> None:
    """Dates and times too that Python does not have, which has the years 1 to 9999."""
    lists = pa.array([[], [None], *([value] for value in values)], pa.list_(kind))
    keys = sortable(lists).to_pylist()
    assert sorted({*keys}) == keys


@example([{"a": 2**53 + 1, "b": []}])
@given(VALUES)
def test_a_key_is_read_as_its_value(value: list[Any]) -> None:
    kind = pa.list_(pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string()))]))
    # the type rounds integers beyond 2**53
    wanted = [each and each | {"a": each["a"] if each["a"] is None else float(each["a"])} for each in value]
    assert compared(read_sorted(sort_bytes(value), reader(kind)), wanted) == 0


@pytest.mark.parametrize(
    ("kind", "damaged"),
    [
        (pa.int64(), b""),
        (pa.int64(), b"\x02"),
        (pa.int64(), sort_bytes(1) + b"\0"),
        (pa.int64(), sort_bytes(1)[:-1]),
        (pa.int64(), sort_bytes(1.5)),
        (pa.int64(), sort_bytes(math.nan)),
        (pa.int64(), sort_bytes(Decimal("1E+1000000"))),
        (pa.int64(), b"\x01\x09"),
        (pa.int64(), sort_bytes(12).replace(b"12", b"10")),
        (pa.int64(), sort_bytes(12).replace(b"12", b"0x")),
        (pa.float64(), sort_bytes(Decimal("1E+999"))),
        (pa.bool_(), b"\x01\x02"),
        (pa.string(), b"\x01\xff\x00\x00"),
        (pa.string(), b"\x01a\x00\x01"),
        (pa.string(), b"\x01a"),
        (pa.null(), sort_bytes(1)),
        (pa.list_(pa.int64()), sort_bytes([1])[:-1]),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), sort_bytes({"a": 1})),
    ],
)
def test_other_bytes_are_refused(kind: pa.DataType, damaged: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what the codec takes as damage
        read_sorted(damaged, reader(kind))


def test_a_column_of_lists_is_sorted_by_elements_and_not_by_text() -> None:
    column = pa.array([[10], [9], None, [9, 1], []])
    order = sorted(range(5), key=lambda at: sortable(column)[at].as_py() or b"")
    assert [column[at].as_py() for at in order] == [None, [], [9], [9, 1], [10]]
    plain = pa.array([1, 2])
    assert sortable(plain) is plain


def test_codes_of_lists_are_equal_for_equal_lists() -> None:
    lists = pa.array([[0.0], [-0.0], [math.nan], [math.nan], None, [None], [None]])
    codes = row_codes([lists], [False], len(lists))
    assert (codes[[0, 2, 5]] == codes[[1, 3, 6]]).all()
    assert len(set(codes[[0, 2, 5]])) == 3
    assert codes[4] == -1
