"""CAST of lists, structs and maps AS STRING, in Spark's form."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.cast import cast, format_double

NIGHT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
PAIRS = pa.map_(pa.string(), pa.list_(pa.int64()))
POINT = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.list_(pa.int64()), [1, None, 2], "[1, null, 2]"),
        (pa.list_(pa.int64()), [], "[]"),
        (pa.list_(pa.int64()), None, None),
        (pa.list_(pa.string()), ["a", "", None], "[a, , null]"),
        (pa.list_(pa.null()), [None], "[null]"),
        (pa.list_(pa.list_(pa.bool_())), [[True], None, []], "[[true], null, []]"),
        (POINT, {"x": 1e7, "y": ["a"]}, "{1.0E7, [a]}"),
        (POINT, {"x": None, "y": None}, "{null, null}"),
        (POINT, None, None),
        (PAIRS, [("k", [1]), ("l", None)], "{k -> [1], l -> null}"),
        (PAIRS, [], "{}"),
        (PAIRS, None, None),
        (pa.list_(pa.timestamp("us", "UTC")), [NIGHT], "[2024-01-02 03:04:05]"),
        (pa.list_(pa.decimal128(5, 2)), [Decimal("1.50")], "[1.50]"),
        (pa.list_(pa.binary()), [b"ab"], "[ab]"),
    ],
)  # fmt: skip
def test_the_text_is_the_one_of_spark(kind: pa.DataType, value: Any, expected: str | None) -> None:
    assert cast(pa.array([value], kind), "STRING").to_pylist() == [expected]
    around = pa.array([None, value, None], kind).slice(1, 1)
    assert cast(around, "STRING").to_pylist() == [expected]


def text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(text(value[name]) for name in "xy") + "}"
    return "null" if value is None else format_double(value) if isinstance(value, float) else str(value)


INNER = st.none() | st.fixed_dictionaries(
    {
        "x": st.none() | st.floats(allow_nan=False),
        "y": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
    }
)


@given(rows=st.lists(st.none() | st.lists(INNER, max_size=3)))
def test_nested_values_are_written_from_the_inside(rows: list[list[Any] | None]) -> None:
    column = pa.array(rows, pa.list_(POINT))
    assert cast(column, "STRING").to_pylist() == [None if each is None else text(each) for each in rows]
