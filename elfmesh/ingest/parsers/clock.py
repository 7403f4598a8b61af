"""Times without a zone or a year, interpreted so that reading a line again gives the same time.

A time without a zone uses the stream's declared zone, UTC by default. A time without a year (RFC 3164's `Oct
11 22:14:15`) uses the declared year, or else the latest year in which it is not after the file's modification
time (plus a day, because clocks differ). A line that is read again within a year gets the same year. The
clock is read only for standard input.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
from msgspec import field

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.cells import event_times
from elfmesh.ingest.parsers.time_pattern import LEAP_YEARS_APART, check_pattern, has_zone, times_by
from elfmesh.ql.values.civil import DAY_US, MONTHS, compose_us, days_from_civil, valid_date
from elfmesh.ql.values.columns import from_numpy, null_mask
from elfmesh.ql.values.compared import PartlyCompared
from elfmesh.ql.values.times import fraction_us, number_field
from elfmesh.ql.values.zones import to_instant, zone

YEAR_FROM, YEAR_TO = 1970, 9999

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_CLOCK = r"(?P<h>\d{1,2}):(?P<mi>\d{2}):(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?"
_MONTH = r"(?P<mon>" + "|".join(MONTHS) + r")[a-z]*"
_YEARLESS = (
    r"(?i)^\s*(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]* )?"
    + _MONTH
    + r" +(?P<d>\d{1,2}) +"
    + _CLOCK
    + r"\s*$",
    r"^(?P<m>\d{2})(?P<d>\d{2}) " + _CLOCK + r"$",
)
_MONTH_FIRST = r"(?i)^\s*" + _MONTH + r" +(?P<d>\d{1,2}),? +(?P<y>\d{4}),? +" + _CLOCK + r"\s*$"
_RESPELT = (
    (r"^\s*(\d{4})/(\d{2})/(\d{2})([ T-]\d)", r"\1-\2-\3\4"),
    (r"^(\d{4})(\d{2})(\d{2}) (\d{2}:\d{2}:\d{2}(?:\.\d+)?)$", r"\1-\2-\3 \4"),
)
"""Patterns that become ISO-8601 by replacing separators."""

_RARE_FIRST = re.compile(r"[A-Za-z]{3} [ \d]\d |\d{4}/|\d{4} \d|\d{8} ")
PEEK_MAX = 16
_ZONED = r"(?i)\d:\d{2}(?::\d{2})?(?:[.,]\d+)?\s*(?:z|utc|gmt|ut|[+-]\d{2}(?::?\d{2})?)(?:\s|\]|\(|$)"
_NUMBER = r"^\s*[+-]?\d+(?:\.\d+)?\s*$"


class LocalClock(PartlyCompared, frozen=True):
    """Interpretation of times: the IANA zone, the year (None: by the file's modification time), the pattern.

    With a pattern, all times are read by it (see `time_pattern`).
    """

    aside: ClassVar[frozenset[str]] = frozenset({"_began_us"})
    zone: str = "UTC"
    year: int | None = None
    pattern: str = ""
    _began_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigError(
                f"{self.zone!r} is not a time zone", where="timezone", hint='As in "Europe/Berlin".'
            ) from None
        if self.pattern:
            check_pattern(self.pattern)
        if self.year is not None and not YEAR_FROM <= self.year <= YEAR_TO:
            raise ConfigError(
                f"{self.year} is not a valid year", where="year", hint=f"Between {YEAR_FROM} and {YEAR_TO}."
            )

    def reference_us(self, source: str) -> int:
        """Return an upper bound for the times in a file; if there is no file, the time when reading began."""
        try:
            return Path(source).stat().st_mtime_ns // 1000 if source and source != "-" else self._began_us
        except (OSError, ValueError):
            return self._began_us

    def times(self, texts: pa.Array, scan: Any, source: str) -> pa.Array:
        if self.pattern:
            limit_us = self.reference_us(source) + DAY_US
            known = times_by(self.pattern, texts, year=self.year, limit_us=limit_us)
            return known if self.zone == "UTC" or has_zone(self.pattern) else self._to_utc(known)
        # No text matches two patterns, so their order affects only the cost.
        first = next((text for text in texts[:PEEK_MAX].to_pylist() if text), "")
        readers = [lambda left: event_times(left, scan), lambda left: self._rare(left, source)]
        if _RARE_FIRST.match(first):
            readers.reverse()
        known = readers[0](texts)
        missing = pc.and_(known.is_null(), texts.is_valid())
        if pc.any(missing).as_py():
            known = pc.coalesce(known, readers[1](pc.if_else(missing, texts, None)))
        if self.zone == "UTC" or known.null_count == len(known):
            return known
        local = pc.invert(
            pc.or_(pc.match_substring_regex(texts, _ZONED), pc.match_substring_regex(texts, _NUMBER))
        )
        return pc.if_else(local.fill_null(False), self._to_utc(known), known)

    def _to_utc(self, times: pa.Array) -> pa.Array:
        """Convert local times of the zone, which were read as UTC, to UTC, as the query language does."""
        return to_instant(times, zone(self.zone))

    def _rare(self, texts: pa.Array, source: str) -> pa.Array:
        found = pa.nulls(len(texts), _TIMESTAMP)
        for shape, iso in _RESPELT:
            alike = pc.match_substring_regex(texts, shape)
            if pc.any(alike).as_py():
                spelt = pc.replace_substring_regex(pc.if_else(alike, texts, None), shape, iso)
                found = pc.coalesce(found, event_times(spelt))
        for shape in (*_YEARLESS, _MONTH_FIRST):
            left = pc.and_(found.is_null(), texts.is_valid())
            if not pc.any(left).as_py():
                break
            whole = pc.all(left).as_py()
            found = pc.coalesce(
                found, self._dated(texts if whole else pc.if_else(left, texts, None), shape, source)
            )
        return found

    def _dated(self, texts: pa.Array, shape: str, source: str) -> pa.Array:
        parts = pc.extract_regex(texts, shape)
        null = null_mask(parts)
        if null.all():
            return pa.nulls(len(texts), _TIMESTAMP)
        if parts.type.get_field_index("mon") >= 0:
            names = pc.utf8_slice_codeunits(pc.utf8_lower(parts.field("mon")), 0, 3)
            month = pc.index_in(names, value_set=pa.array(MONTHS)).fill_null(-1).to_numpy() + 1
        else:
            month = number_field(parts, "m", 0)
        month, day = month.astype(np.int64), number_field(parts, "d", 0)
        clock = (
            number_field(parts, "h", 0),
            number_field(parts, "mi", 0),
            number_field(parts, "s", 0),
            fraction_us(parts),
        )
        if parts.type.get_field_index("y") >= 0:
            year = number_field(parts, "y", 0)
        else:
            year = self._years(month, day, clock, source)
        micros, valid = compose_us((year, month, day), clock)
        return from_numpy(micros, null | ~valid, _TIMESTAMP)

    def _years(self, month: Any, day: Any, clock: tuple[Any, ...], source: str) -> Any:
        if self.year is not None:
            return np.full(len(month), self.year, np.int64)
        limit = self.reference_us(source) + DAY_US
        latest = int(np.datetime64(limit, "us").astype("datetime64[Y]").astype(np.int64)) + 1970
        year = np.full(len(month), latest, np.int64)
        second = clock[0] * 3600 + clock[1] * 60 + clock[2]
        for _ in range(LEAP_YEARS_APART):
            exists = valid_date(year, month, day)
            days = days_from_civil(year, np.where(exists, month, 1), np.where(exists, day, 1))
            fits = exists & (days * DAY_US + second * 1_000_000 <= limit)
            if fits.all():
                break
            year = np.where(fits, year, year - 1)
        return year
