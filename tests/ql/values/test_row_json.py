"""Result rows and times as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.row_json import encode_json, iso_us, rows_to_json


def test_values_are_written_without_a_loss() -> None:
    moment = datetime(2015, 5, 17, 10, 5, 0, 250_000, tzinfo=UTC)
    table = pa.table(
        {
            "i": pa.array([2**62 + 1], pa.int64()),
            "d": pa.array([Decimal("12345678901234567890.12")], pa.decimal128(38, 2)),
            "f": pa.array([0.1], pa.float64()),
            "nan": pa.array([float("nan")], pa.float64()),
            "inf": pa.array([float("-inf")], pa.float64()),
            "t": pa.array([moment], pa.timestamp("us", tz="UTC")),
            "ns": pa.array([1_431_857_100_000_001_000], pa.timestamp("ns", tz="UTC")),
            "b": pa.array([True]),
            "n": pa.nulls(1),
            "s": pa.array(["\x1b[2J"]),
            "l": pa.array([[1, None]]),
            "o": pa.array([{"a": moment}]),
            "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
        }
    )
    (line,) = rows_to_json(table)
    text = encode_json(line).decode()
    assert '"d":12345678901234567890.12' in text
    read = json.loads(text)
    assert read == {
        "i": 2**62 + 1,
        "d": pytest.approx(1.2345678901234567e19),
        "f": 0.1,
        "nan": "NaN",
        "inf": "-Infinity",
        "t": "2015-05-17T10:05:00.250Z",
        "ns": "2015-05-17T10:05:00.000001Z",
        "b": True,
        "n": None,
        "s": "\x1b[2J",
        "l": [1, None],
        "o": {"a": "2015-05-17T10:05:00.250Z"},
        "m": {"k": 1.5},
    }


@given(st.integers(-62_000_000_000_000_000, 250_000_000_000_000_000))
def test_times_are_read_back_as_they_were(us: int) -> None:
    text = iso_us(us)
    assert text is not None
    assert text.endswith("Z")
    read = datetime.fromisoformat(text)
    delta = read - datetime(1970, 1, 1, tzinfo=UTC)
    assert (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds == us


def test_a_time_no_calendar_has_is_its_number() -> None:
    assert iso_us(2**62) == str(2**62)
    assert iso_us(None) is None


def test_dates_and_times_outside_of_pythons_years_are_written() -> None:
    """Python has the years 1 to 9999. A record's number of days may lead beyond them."""
    days = pa.array([2_933_300, -719_900, 19_756, None], pa.date32())
    micros = pa.array([10**18, None], pa.timestamp("us", tz="UTC"))
    dates = ["10001-02-07", "-0002-12-25", "2024-02-03", None]
    table = pa.table(
        {
            "d": days,
            "l": pa.ListArray.from_arrays([0, 1, 2, 3, 4], days),
            "o": pa.StructArray.from_arrays([days], ["a"]),
            "t": pa.ListArray.from_arrays([0, 1, 2, 2, 2], micros),
        }
    )
    assert rows_to_json(table) == [
        {"d": each, "l": [each], "o": {"a": each}, "t": times}
        for each, times in zip(dates, ([10**18], [None], [], []), strict=True)
    ]
