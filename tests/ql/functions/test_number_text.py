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
    ],
)
def test_what_has_no_meaning_is_refused_where_it_stands(expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        values(expression)
    assert refused.value.line == 1
    assert refused.value.column > 0
