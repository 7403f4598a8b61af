from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import ConfigError, UsageError
from elfmesh.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration_us,
    parse_size,
    parse_time,
    unix_us,
)

NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "us"),
    [("30 s", 30_000_000), ("1 minute", 60_000_000), ("5 minutes", 300_000_000), ("250ms", 250_000),
     ("1.5 s", 1_500_000), ("1 h 30 min", 5_400_000_000), ("2 weeks", 1_209_600_000_000), ("0 s", 0)],
)  # fmt: skip
def test_durations(text: str, us: int) -> None:
    assert parse_duration_us(text) == us


@pytest.mark.parametrize("text", ["", "s", "30", "30 parsecs", "-1 s", "1 s and", "1e9 s"])
def test_the_error_of_a_wrong_duration_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        parse_duration_us(text)


@given(st.integers(0, 10**15))
def test_a_formatted_duration_reads_back_exactly(us: int) -> None:
    assert parse_duration_us(format_duration(us)) == us


@pytest.mark.parametrize(
    ("text", "size"), [("200 MB", 200_000_000), ("64KiB", 65536), ("0", 0), ("1.5 GB", 1_500_000_000)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-3 MB", "3 XB"])
def test_the_error_of_a_wrong_size_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size"):
        parse_size(text)


def test_a_time_is_iso_8601_or_that_long_ago() -> None:
    for text in ("10 min", "-10 min"):
        assert parse_time(text, NOW, "--since") == NOW - datetime.timedelta(minutes=10)
    for text in ("now", "2026-11-27T12:00", "2026-11-27T13:00+01:00"):
        assert parse_time(text, NOW, "--since") == NOW
    for text in ("50000 years", "yesterday", ""):
        with pytest.raises(UsageError):
            parse_time(text, NOW, "--since")


def test_a_time_in_microseconds_is_exact() -> None:
    assert unix_us(datetime.datetime(2026, 11, 27, 0, 0, 0, 1, datetime.UTC)) == 1_795_737_600_000_001


@given(st.integers(0, 10**15))
def test_a_formatted_size_reads_back_exactly(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(0, "0 B/s"), (850, "850 B/s"), (1500, "1.5 KB/s"), (27_400, "27 KB/s"), (2e6, "2.0 MB/s")],
)
def test_a_rate_is_short(rate: float, shown: str) -> None:
    assert format_rate(rate) == shown
