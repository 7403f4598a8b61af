"""Durations, times and sizes as people write them: "30 s", "2026-11-27T12:00", "200 MB".

Times inside are integer microseconds.
"""

from __future__ import annotations

import datetime
import re

from elfmesh.errors import ConfigError, UsageError

MICROS = 1_000_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DURATION_US = {
    **dict.fromkeys(("us", "microsecond"), 1),
    **dict.fromkeys(("ms", "millisecond"), 1_000),
    **dict.fromkeys(("s", "sec", "second"), MICROS),
    **dict.fromkeys(("m", "min", "minute"), 60 * MICROS),
    **dict.fromkeys(("h", "hour"), 3_600 * MICROS),
    **dict.fromkeys(("d", "day"), 86_400 * MICROS),
    "week": 7 * 86_400 * MICROS,
}
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
LARGEST = 2.0**62
"""Microseconds or bytes: what still fits a signed 64-bit number, with room to add two."""

_NUMBER_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def unit_us(unit: str) -> int | None:
    """Microseconds of one `unit` (any case, singular or plural), or None if it is no unit of time."""
    name = unit.lower()
    return _DURATION_US.get(name) or (_DURATION_US.get(name[:-1]) if name.endswith("s") else None)


def parse_duration_us(text: str) -> int:
    """Microseconds of a duration such as "30 s", "1.5 minutes" or "1 h 30 min".

    Raises:
        ConfigError: not a number and a unit, or not a whole number of microseconds.
    """
    total, position = 0.0, 0
    while position < len(text):
        match = _NUMBER_UNIT.match(text, position)
        scale = unit_us(match[2]) if match else None
        if match is None or scale is None:
            break
        total += float(match[1]) * scale
        position = match.end()
    if not text.strip() or position < len(text):
        raise ConfigError(
            f"{text!r} is not a duration", hint='Write a number and a unit: "30 s", "5 minutes".'
        )
    if total > LARGEST:
        raise ConfigError(f"{text!r} is longer than any clock runs", hint="Write at most 100,000 years.")
    return round(total)


def format_duration(us: int) -> str:
    """The shortest exact spelling of a duration: "30 s", "1500 ms", "2 h"."""
    for name, scale in (
        ("d", 86400 * MICROS),
        ("h", 3600 * MICROS),
        ("min", 60 * MICROS),
        ("s", MICROS),
        ("ms", 1000),
    ):
        if us and us % scale == 0:
            return f"{us // scale} {name}"
    return f"{us} us" if us else "0 s"


def format_size(count: int) -> str:
    """The shortest exact spelling of a size: "2 MB", "64 KiB", "1500 B"."""
    units = (("GB", 10**9), ("GiB", 2**30), ("MB", 10**6), ("MiB", 2**20), ("KB", 10**3), ("KiB", 2**10))
    for name, scale in units:
        if count and count % scale == 0:
            return f"{count // scale} {name}"
    return f"{count} B"


def shown_size(count: float) -> str:
    """Bytes for people, with two or three digits: "850 B", "1.5 KB", "27 MB"."""
    for name, scale in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= scale:
            value = count / scale
            return f"{value:.1f} {name}" if value < 10 else f"{value:.0f} {name}"
    return f"{count:.0f} B"


def format_rate(bytes_s: float) -> str:
    """Bytes per second for people: "850 B/s", "1.5 KB/s", "27 MB/s"."""
    return f"{shown_size(bytes_s)}/s"


def parse_time(text: str, now: datetime.datetime, where: str) -> datetime.datetime:
    """Return a time: ISO 8601, in UTC unless it names an offset; a duration before `now`; or "now".

    Raises:
        UsageError: it is none of them.
    """
    if text.strip().lower() == "now":
        return now
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - datetime.timedelta(microseconds=parse_duration_us(text.removeprefix("-")))
        except (ConfigError, OverflowError):
            hint = 'Write a time ("2026-11-27T12:00") or how long ago it is ("10 min").'
            raise UsageError(f"{text!r} is not a time", where=where, hint=hint) from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def unix_us(time: datetime.datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - EPOCH) // datetime.timedelta(microseconds=1)


def parse_size(text: str) -> int:
    """Bytes of a size such as "200 MB" or "64KiB".

    Raises:
        ConfigError: not a number and a unit of size.
    """
    match = _NUMBER_UNIT.fullmatch(text)
    scale = _SIZES.get(match[2].lower()) if match else None
    if match is None or scale is None:
        raise ConfigError(f"{text!r} is not a size", hint='Write a number and a unit: "200 MB", "64 KiB".')
    size = float(match[1]) * scale
    if size > LARGEST:
        raise ConfigError(f"{text!r} is more than any machine has", hint='Write "4 GB", for example.')
    return round(size)
