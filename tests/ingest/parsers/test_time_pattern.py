"""Event times by a pattern of the stream: `ts_format` and `elf run --ts-format`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elfmesh
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.time_pattern import check_pattern, times_by
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig, parse_stream
from elfmesh.ql.values.patterns import writer
from elfmesh.ql.values.types import TIMESTAMP

LOGCAT = r"regex:^(?P<ts>\S+ \S+) +(?P<pid>\d+) +(?P<tid>\d+) (?P<level>\w) (?P<tag>[^:]+): (?P<message>.*)$"
LINES = """\
06-15 14:22:01.123  1234  5678 I ActivityManager: start
02-29 23:59:59.000  1234  5678 W Foo: leap
soon 14:22:04.000  1234  5678 E Bar: no time
"""


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def micros(text: str) -> int:
    return (instant(text) - instant("1970-01-01")) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    "pattern", ["yyyy-MM-dd HH:mm:ss.SSSSSS", "d MMM yyyy hh:mm:ss.SSSSSS a", "yyyyMMddHHmmss"]
)
@given(stamps=st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_a_pattern_reads_what_date_format_writes_with_it(pattern: str, stamps: list[datetime]) -> None:
    if "S" not in pattern:
        stamps = [each.replace(microsecond=0) for each in stamps]
    texts = writer(pattern)(pa.array(stamps, pa.timestamp("us")))
    found = times_by(pattern, texts, year=None, limit_us=0)
    assert found.to_pylist() == [each.replace(tzinfo=UTC) for each in stamps]


@given(
    seconds=st.lists(st.integers(0, 3 * 365 * 86_400), min_size=1, max_size=5),
    limit=st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)),
)
@settings(max_examples=30, deadline=None)
def test_a_time_without_a_year_is_the_latest_that_is_not_after_the_limit(
    seconds: list[int], limit: datetime
) -> None:
    limit = limit.replace(microsecond=0)
    stamps = [limit - timedelta(seconds=each % (364 * 86_400)) for each in seconds]
    texts = pa.array([f"{each:%m-%d %H:%M:%S}" for each in stamps])
    limit_us = micros(limit.isoformat())
    found = times_by("MM-dd HH:mm:ss", texts, year=None, limit_us=limit_us)
    assert found.to_pylist() == [each.replace(tzinfo=UTC) for each in stamps]


def test_the_day_of_a_leap_year_is_looked_for_in_leap_years() -> None:
    texts = pa.array(["02-29", "02-30", None, " 03-01 "])
    found = times_by("MM-dd", texts, year=None, limit_us=micros("2027-01-01"))
    assert found.to_pylist() == [instant("2024-02-29"), None, None, instant("2026-03-01")]
    assert times_by("MM-dd", texts, year=2023, limit_us=0).to_pylist()[0] is None
    assert times_by("MM-dd", pa.nulls(2, pa.string()), year=None, limit_us=0) == pa.nulls(2, TIMESTAMP)


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("%Y-%m-%d", "`Y` cannot be read", "without %"),
        ("HH:mm:ss", "has no month", "to_timestamp"),
        ("yyyy-MM HH", "has no day", "to_timestamp"),
        ("yyyy-MM-dd 'T", "is not terminated", "in quotes"),
        ("yyyy-MM-dd yyyy", "duplicated", ""),
    ],
)
def test_a_wrong_pattern_is_refused_with_its_place(pattern: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="ts_format") as caught:
        check_pattern(pattern)
    assert message in str(caught.value)
    assert hint in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        format_of(StreamConfig(path="x", format="json", ts_format=pattern), name="phones")
    assert caught.value.where == "streams.phones.ts_format"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("auto", "needs a format with a name"),
        ("combined", "have one form"),
        ("journald", "have one form"),
        ("docker", "have one form"),
    ],
)
def test_a_format_that_would_not_use_the_pattern_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamFormat(name, clock=LocalClock(pattern="yyyy-MM-dd"))


def rows(text: str, path: Path, **settings: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = elfmesh.run(text, str(path), **settings)[0].to_pylist()
    return found


def test_a_log_of_a_phone_is_read_with_its_pattern(tmp_path: Path) -> None:
    (path := tmp_path / "logcat").write_text(LINES)
    found = rows("SELECT ts, level FROM log", path, format=LOGCAT, ts_format="MM-dd HH:mm:ss.SSS", year=2024)
    assert [row["ts"] for row in found] == [
        instant("2024-06-15T14:22:01.123"),
        instant("2024-02-29T23:59:59"),
        None,
    ]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("csv", 'frame.time,n\n"Jun 5, 2024 14:22:01.123456789",1\n"2024-06-05 14:22:01",2\n'),
        ("json", '{"frame.time": "Jun 5, 2024 14:22:01.123456789", "n": 1}\n{"frame.time": "1", "n": 2}\n'),
        ("logfmt", 'frame.time="Jun 5, 2024 14:22:01.123456789" n=1\nframe.time=2024-06-05 n=2\n'),
    ],
)  # fmt: skip
def test_only_the_pattern_is_read_in_the_zone_of_the_stream(tmp_path: Path, name: str, data: str) -> None:
    (path := tmp_path / "log").write_text(data)
    given = {"format": name, "ts": "frame.time", "ts_format": "MMM d, yyyy HH:mm:ss.SSSSSSSSS"}
    found = rows("SELECT n, ts FROM log", path, timezone="Europe/Berlin", **given)
    wall = datetime(2024, 6, 5, 14, 22, 1, 123456, tzinfo=ZoneInfo("Europe/Berlin"))
    assert [(int(row["n"]), row["ts"]) for row in found] == [(1, wall), (2, None)]


def test_a_zone_of_the_pattern_is_used(tmp_path: Path) -> None:
    (path := tmp_path / "log").write_text('{"at": "05.06.2024 14:22 +0200"}\n')
    found = rows(
        "SELECT ts FROM log",
        path,
        format="json",
        ts="at",
        ts_format="dd.MM.yyyy HH:mm Z",
        timezone="Asia/Tokyo",
    )
    assert found == [{"ts": instant("2024-06-05T12:22")}]


def test_digits_of_a_number_are_read_by_the_pattern(tmp_path: Path) -> None:
    (path := tmp_path / "log").write_text(
        '{"at": 20240605142201}\n{"at": 1.5}\n{"at": true}\n{"at": "20240605142202"}\n'
    )
    found = rows("SELECT ts FROM log", path, format="json", ts="at", ts_format="yyyyMMddHHmmss")
    seconds = [instant("2024-06-05T14:22:01"), None, None, instant("2024-06-05T14:22:02")]
    assert [row["ts"] for row in found] == seconds


def test_a_pattern_with_a_comma_is_one_option() -> None:
    text = "wire=/tmp/w.csv,format=csv,ts=frame.time,ts_format=MMM d, yyyy HH:mm,timezone=Asia/Tokyo"
    assert parse_stream(text)[1] == {
        "path": "/tmp/w.csv", "format": "csv", "ts": "frame.time", "ts_format": "MMM d, yyyy HH:mm",
        "timezone": "Asia/Tokyo",
    }  # fmt: skip
