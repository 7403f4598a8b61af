"""to_char and to_number: which arguments they take, and what each row gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql.values.types import TIMESTAMP
from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("to_char(12, '999')", " 12"),
        ("to_char(1.5D, '9.99')", "1.50"),
        ("to_char(1e20D, '999')", None),
        ("to_char(CAST('NaN' AS DOUBLE), '9')", None),
        ("to_char('12', '999.9')", " 12.0"),
        ("to_char('x', '9')", None),
        ("to_char(5, NULL)", None),
        ("to_char(NULL, '9')", None),
        ("to_char(CAST(1.5 AS DECIMAL(3, 2)), 's9.9')", "+1.5"),
        ("to_varchar(9223372036854775807L, '9999999999999999999')", "9223372036854775807"),
        ("to_char(DATE '2023-08-18', 'yyyy/MM')", "2023/08"),
        ("to_varchar(TIMESTAMP '2023-08-18 09:13:14', 'kk:mm')", "09:13"),
        ("to_number('1,234', '9,999')", Decimal(1234)),
        ("to_number(12, '99')", Decimal(12)),
        ("to_number('x', '99')", None),
        ("try_to_number('1', '.9')", None),
        ("try_to_number('1', NULL)", None),
        ("typeof(to_number('1', '99.9'))", "decimal(3,1)"),
    ],
)
def test_a_value_is_the_one_of_spark(expression: str, wanted: Any) -> None:
    assert values(expression) == [wanted]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("parse_bytes('1536 KiB', 'MiB')", 1.5),
        ("parse_bytes('1.5kB')", 1500.0),
        ("parse_bytes('1GB', 'MB', 2)", 1024.0),
        ("parse_bytes('1 KiB', 'B', 10)", 1024.0),
        ("parse_bytes('7 B', NULL)", None),
        ("parse_bytes('7')", None),
        ("parse_bytes('-7 B')", None),
        ("parse_bytes('7 iB')", None),
        ("parse_bytes('7 XB')", None),
        ("parse_bytes(repeat('7', 31) || 'B')", None),
        ("parse_bytes(NULL)", None),
        ("parse_duration('1h2m3.5s')", 3723.5),
        ("parse_duration('-1.5 ms', 'us')", -1500.0),
        ("parse_duration('1s 1ms', 'ms')", 1001.0),
        ("parse_duration('.5d', 'h')", 12.0),
        ("parse_duration('5µs', 'ns')", 5000.0),
        ("parse_duration('0.1s')", 0.1),
        ("parse_duration('5')", None),
        ("parse_duration('5 s!')", None),
        ("parse_duration('5s', NULL)", None),
        ("parse_duration(repeat('1s', 21))", None),
    ],
)
def test_an_amount_is_read_with_its_unit(expression: str, wanted: float | None) -> None:
    assert values(expression) == [wanted]


def test_each_row_has_a_unit_of_its_own() -> None:
    assert values("parse_duration(s, 'ms')", s=["1s", None, "2ms", "x"]) == [1000.0, None, 2.0, None]
    assert values("parse_bytes(s)", s=["1kB", None, "1KiB", "x"]) == [1000.0, None, 1024.0, None]


def test_each_row_is_written_and_read_by_itself() -> None:
    times = pa.array([None, 0, 1_000_000], pa.int64()).view(TIMESTAMP)
    assert values("to_char(i, 'S99')", i=[7, None, -70]) == [" +7", None, "-70"]
    assert values("to_char(at_, 's')", at_=times) == [None, "0", "1"]
    assert values("try_to_number(s, 'S99')", s=["+7", None, "7-"]) == [Decimal(7), None, None]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("to_char(1, '9x')", "'9x' is not a number format"),
        ("to_number('1', '')", "'' is not a number format"),
        ("to_char(true, '9')", "to_char writes numbers and times, not BOOLEAN"),
        ("to_char(X'00', 'hex')", "to_char writes numbers and times, not BINARY"),
        ("to_char(array(1), '9')", "to_char writes numbers and times, not ARRAY<BIGINT>"),
        ("to_char(at, concat('9', at))", "the number format of to_char must be a constant"),
        ("parse_bytes('1B', 'bit')", "'bit' is not a unit of bytes"),
        ("parse_bytes('1B', 'B', 3)", "the base of parse_bytes is 2 or 10, not 3"),
        ("parse_duration('1s', 'min')", "'min' is not a unit of time"),
        ("parse_duration('1s', concat('s', at))", "the unit of parse_duration must be a constant"),
    ],
)
def test_what_has_no_meaning_is_refused_where_it_stands(expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        values(expression)
    assert refused.value.line == 1
    assert refused.value.column > 0
