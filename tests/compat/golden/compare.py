"""Whether an answer is Spark's: its types, its rows, and their order where the query says one.

Every integer is a BIGINT here and every floating number a DOUBLE, so types are compared by kind. Doubles are
compared with a small relative tolerance, because sums and libraries differ in the last digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from elfmesh.ql.values.intervals import interval_text
from tests.compat.golden.data import Golden, arrow_type, value_of

CLOSE, CLOSE_FLOAT = 1e-9, 1e-5
"""Relative: of doubles, and of what is a FLOAT in Spark."""
EXACT = 17
"""Digits that tell all doubles apart."""

Row = tuple[Any, ...]


def wrong_with(case: Golden, table: pa.Table) -> str:
    """What is wrong with an answer; empty: nothing."""
    kinds = [arrow_type(text) for _, text in case.columns]
    if len(kinds) != table.num_columns:
        return f"{table.num_columns} columns instead of {len(kinds)}"
    for at, ((name, text), kind, found) in enumerate(
        zip(case.columns, kinds, table.schema.types, strict=True)
    ):
        # What is null everywhere is null in any type.
        empty = case.rows and all(row[at] is None for row in case.rows)
        if not empty and not same_kind(kind, found):
            return f"the type of {name} is {found} instead of {text}"
    wanted = [tuple(map(as_shown, map(value_of, row, kinds))) for row in case.rows]
    mine = list(zip(*(values(column) for column in table.columns), strict=True))
    if len(wanted) != table.num_rows:
        return f"{table.num_rows} rows instead of {len(wanted)}"
    close = CLOSE_FLOAT if any("float" in text for _, text in case.columns) else CLOSE
    for one, other in zip(sorted(wanted, key=_sortable), sorted(mine, key=_sortable), strict=True):
        if not all(same(a, b, close) for a, b in zip(one, other, strict=True)):
            return f"a row is {_shown(other)} instead of {_shown(one)}"
    if any(not same(a, b, close) for a, b in zip(_keys(case, wanted), _keys(case, mine), strict=True)):
        return "the rows are in another order"
    return ""


def as_shown(value: Any) -> Any:
    """A value of Spark as it stands in a result here: an interval is text."""
    if isinstance(value, timedelta):
        return interval_text(value // timedelta(microseconds=1))
    return [as_shown(each) for each in value] if isinstance(value, list) else value


def same_kind(kind: pa.DataType, found: pa.DataType) -> bool:
    """Whether a type may stand for one of Spark's."""
    if pa.types.is_null(kind) or pa.types.is_null(found):
        return True
    if pa.types.is_duration(kind):
        return bool(pa.types.is_string(found))
    if pa.types.is_integer(kind):
        return bool(pa.types.is_integer(found) or (pa.types.is_decimal(found) and not found.scale))
    if pa.types.is_decimal(kind):
        # A literal with a point is a DOUBLE here: the values are compared.
        return bool(pa.types.is_floating(found) or (pa.types.is_decimal(found) and found.scale == kind.scale))
    if pa.types.is_map(kind):
        both = pa.types.is_map(found)
        return (
            both and same_kind(kind.key_type, found.key_type) and same_kind(kind.item_type, found.item_type)
        )
    if pa.types.is_list(kind):
        return pa.types.is_list(found) and same_kind(kind.value_type, found.value_type)
    if pa.types.is_struct(kind):
        parts = pa.types.is_struct(found) and kind.num_fields == found.num_fields
        return parts and all(same_kind(a.type, b.type) for a, b in zip(kind, found, strict=True))
    tests = (
        pa.types.is_boolean, pa.types.is_floating, pa.types.is_string, pa.types.is_binary, pa.types.is_date,
        pa.types.is_timestamp,
    )  # fmt: skip
    return any(test(kind) and test(found) for test in tests)


def values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; times without a zone, which all have the same."""
    return [_zoneless(each) for each in column.to_pylist()]


def _zoneless(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def same(one: Any, other: Any, close: float) -> bool:
    """Whether two values of the same kind are equal."""
    if one is None or other is None:
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=close, abs_tol=1e-12)
    if isinstance(one, dict):
        pairs = zip(one.values(), other.values(), strict=True)
        return len(one) == len(other) and all(same(a, b, close) for a, b in pairs)
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return False
        if one and isinstance(one[0], tuple):
            one, other = sorted(one, key=_sortable), sorted(other, key=_sortable)
        return all(same(a, b, close) for a, b in zip(one, other, strict=True))
    if isinstance(one, datetime) and isinstance(other, datetime):
        return bool(_zoneless(one) == _zoneless(other))
    return bool(one == other)


def _sortable(row: Sequence[Any]) -> list[str]:
    """Rows are put side by side by few digits first: equal doubles may differ in the last ones."""
    return [repr([_coarse(value, digits) for value in row]) for digits in (5, 9, EXACT)]


def _coarse(value: Any, digits: int) -> Any:
    """A value by which rows are put side by side, for each of its spellings the same."""
    if isinstance(value, bool | str | bytes | None):
        return (type(value).__name__, value)
    if isinstance(value, int | float | Decimal):
        if digits == EXACT and not isinstance(value, float):
            return ("number", str(Decimal(value).normalize()))
        number = float(value)
        return ("number", "0" if abs(number) < 1e-9 else f"{number:.{digits}g}")
    if isinstance(value, dict):
        return [_coarse(each, digits) for each in value.values()]
    if isinstance(value, list | tuple):
        return [_coarse(each, digits) for each in value]
    if isinstance(value, date | datetime | timedelta):
        return str(_zoneless(value))
    return value


def _shown(row: Row) -> str:
    return ", ".join("null" if value is None else str(value) for value in row)


# -- Order


def _keys(case: Golden, rows: list[Row]) -> list[Any]:
    """What of rows the order is about: of ORDER BY the keys that are output columns, up to another."""
    places = order_places(case)
    return [row[at] for at in places for row in rows]


def order_places(case: Golden) -> list[int]:
    """The output columns that the rows are ordered by."""
    if not re.search(r"order\s+by", case.text, re.IGNORECASE):
        return []
    try:
        tree = sqlglot.parse_one(case.text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return []
    order = tree.args.get("order") if isinstance(tree, exp.Query) else None
    names = [name.lower() for name, _ in case.columns]
    found: list[int] = []
    for ordered in order.expressions if order is not None else ():
        key = ordered.this
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.this) <= len(names):
            found.append(int(key.this) - 1)
        elif isinstance(key, exp.Column) and names.count(key.name.lower()) == 1:
            found.append(names.index(key.name.lower()))
        else:
            break
    return found
