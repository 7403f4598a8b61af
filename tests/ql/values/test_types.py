"""The types of ELF-QL and what two of them become together, as Spark's rules with ANSI off say."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    VOID,
    bounded_decimal,
    canonical,
    compared_type,
    type_name,
    wider_type,
)

SCALARS = [VOID, BOOLEAN, BIGINT, DOUBLE, STRING, BINARY, TIMESTAMP, DATE, pa.decimal128(10, 2)]
NUMBERS = [BIGINT, DOUBLE, pa.decimal128(10, 2)]


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (pa.uint8(), BIGINT),
        (pa.float32(), DOUBLE),
        (pa.large_string(), STRING),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.binary(3), BINARY),
        (pa.timestamp("ns"), TIMESTAMP),
        (pa.date64(), DATE),
        (pa.decimal128(5, -2), DOUBLE),
        (pa.decimal256(50, 2), DOUBLE),
        (pa.decimal128(5, 2), pa.decimal128(5, 2)),
        (pa.large_list(pa.int8()), pa.list_(BIGINT)),
        (pa.map_(pa.large_string(), pa.float32()), pa.map_(STRING, DOUBLE)),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", BIGINT)])),
        (pa.time32("s"), None),
        (pa.list_(pa.time32("s")), None),
        (pa.struct([("a", pa.time32("s"))]), None),
    ],
    ids=str,
)
def test_a_column_is_read_as_its_widest_type(kind: pa.DataType, read: pa.DataType | None) -> None:
    assert canonical(kind) == read
    assert read is None or canonical(read) == read


@pytest.mark.parametrize(
    ("left", "right", "wider"),
    [
        (BIGINT, DOUBLE, DOUBLE),
        (BIGINT, pa.decimal128(10, 2), pa.decimal128(22, 2)),
        (DOUBLE, pa.decimal128(10, 2), DOUBLE),
        (pa.decimal128(10, 2), pa.decimal128(6, 4), pa.decimal128(12, 4)),
        (pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(38, 0)),
        (DATE, TIMESTAMP, TIMESTAMP),
        (STRING, BIGINT, STRING),
        (STRING, DATE, STRING),
        (STRING, BOOLEAN, None),
        (STRING, BINARY, None),
        (BOOLEAN, BIGINT, None),
        (DATE, BIGINT, None),
        (pa.list_(BIGINT), pa.list_(DOUBLE), pa.list_(DOUBLE)),
        (pa.list_(BIGINT), pa.list_(BOOLEAN), None),
        (pa.list_(BIGINT), BIGINT, None),
    ],
    ids=str,
)
def test_two_types_have_one_that_holds_both_or_none(
    left: pa.DataType, right: pa.DataType, wider: pa.DataType | None
) -> None:
    assert wider_type(left, right) == wider
    assert wider_type(right, left) == wider


@pytest.mark.parametrize(
    ("left", "right", "equality", "compared"),
    [
        (STRING, BIGINT, False, BIGINT),
        (STRING, DOUBLE, False, DOUBLE),
        (STRING, pa.decimal128(10, 2), False, DOUBLE),
        (STRING, BOOLEAN, False, BOOLEAN),
        (DATE, TIMESTAMP, False, TIMESTAMP),
        (BOOLEAN, BIGINT, True, BIGINT),
        (BOOLEAN, BIGINT, False, None),
        (DATE, BIGINT, True, None),
        (pa.list_(BIGINT), pa.list_(BIGINT), True, None),
    ],
    ids=str,
)
def test_two_operands_are_compared_in_one_type_or_refused(
    left: pa.DataType, right: pa.DataType, equality: bool, compared: pa.DataType | None
) -> None:
    assert compared_type(left, right, equality=equality) == compared
    assert compared_type(right, left, equality=equality) == compared


@pytest.mark.parametrize(
    ("left", "right"), list(itertools.combinations_with_replacement(SCALARS, 2)), ids=str
)
def test_no_order_of_two_operands_matters(left: pa.DataType, right: pa.DataType) -> None:
    assert wider_type(left, right) == wider_type(right, left)
    for equality in (False, True):
        one = compared_type(left, right, equality=equality)
        assert one == compared_type(right, left, equality=equality)
        assert left != right or one == left


@pytest.mark.parametrize(
    ("precision", "scale", "kind"),
    [(38, 10, (38, 10)), (40, 10, (38, 8)), (60, 30, (38, 8)), (77, 4, (38, 4))],
)
def test_too_many_digits_are_taken_from_the_fraction(
    precision: int, scale: int, kind: tuple[int, int]
) -> None:
    assert bounded_decimal(precision, scale) == pa.decimal128(*kind)


def test_messages_name_types_as_sql_does() -> None:
    kind = pa.struct([("a", pa.list_(BIGINT)), ("b", pa.map_(STRING, pa.decimal128(10, 2)))])
    assert type_name(kind) == "STRUCT<a: ARRAY<BIGINT>, b: MAP<STRING,DECIMAL(10,2)>>"
