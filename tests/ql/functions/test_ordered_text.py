"""listagg(x) WITHIN GROUP (ORDER BY y): the bytes of keys are ordered as ORDER BY orders the values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.functions.ordered_text import _part
from tests.ql.conftest import run
from tests.ql.refusals import refusal

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals(-(10**20), 10**20, places=2),
)
VALUES = st.one_of(
    st.lists(NUMBERS, min_size=2, max_size=2),
    st.lists(st.binary(max_size=4), min_size=2, max_size=2),
    st.lists(st.text("a\0b\xff", max_size=4), min_size=2, max_size=2),
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.lists(st.datetimes(timezones=st.just(UTC)), min_size=2, max_size=2),
    st.lists(st.dates(), min_size=2, max_size=2),
)


def exact(value: Any) -> Any:
    """As ORDER BY compares: doubles by the decimal they are written as, texts by their bytes."""
    if isinstance(value, float) and abs(value) != float("inf"):
        return Decimal(repr(value))
    return value.encode() if isinstance(value, str) else value


@given(VALUES, st.sampled_from(["a", "d"]))
def test_keys_compare_as_values_do(values: list[Any], way: str) -> None:
    one, other = (_part(value, f"{way}l") for value in values)
    first, second = map(exact, values)
    below, above = (one < other, one > other) if way == "a" else (one > other, one < other)
    assert (below, above) == (first < second, first > second)


@given(VALUES)
def test_no_key_is_the_beginning_of_another(values: list[Any]) -> None:
    for way in ("af", "dl"):
        one, other = (_part(value, way) for value in values)
        assert one == other or not (one.startswith(other) or other.startswith(one))


@pytest.mark.parametrize("value", [float("nan"), -5, 5.0, "", b"\xff", date(1, 1, 1), datetime(9999, 1, 1)])
@pytest.mark.parametrize("direction", ["a", "d"])
def test_nulls_have_the_place_that_is_asked_for(value: Any, direction: str) -> None:
    assert _part(None, f"{direction}f") < _part(value, f"{direction}f")
    assert _part(None, f"{direction}l") > _part(value, f"{direction}l")


def test_nan_is_the_greatest_number() -> None:
    assert _part(float("nan"), "al") > _part(float("inf"), "al") > _part(10**18, "al")


ROWS = {"x": ["a", "b", "c", None], "y": [2, 1, None, 0], "z": [1, 1, 1, 1]}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("y", "c,b,a"),
        ("y DESC", "a,b,c"),
        ("y NULLS LAST", "b,a,c"),
        ("y DESC NULLS FIRST", "c,a,b"),
        ("z, x DESC", "c,b,a"),
    ],
)
def test_texts_are_joined_in_order(order: str, expected: str) -> None:
    (table,) = run(f"SELECT listagg(x, ',') WITHIN GROUP (ORDER BY {order}) AS t FROM s", ROWS).values()
    assert table.column("t").to_pylist() == [expected]


def test_what_has_no_order_is_refused() -> None:
    text = "SELECT listagg(x) WITHIN GROUP (ORDER BY split(x, ',')) AS t FROM s"
    assert "ORDER BY does not work on ARRAY<STRING> | Order by one of its fields." in refusal(text, x=["a"])
