"""Event times by a pattern of the stream (`ts_format`), in the letters of `to_timestamp`: `MM-dd HH:mm:ss`.

A pattern must contain a month and a day. Without a year, the year is chosen as for other times without one
(see `clock`). A text that does not match is no time, and is never read in another way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ql.values.patterns import PatternError, pieces, reader
from elfmesh.ql.values.types import STRING, TIMESTAMP

LEAP_YEARS_APART = 8
"""Years back in which there is always a 29 February (the longest gap was 1896 to 1904)."""
WHERE = "ts_format"
_HINT = "Write it as for to_timestamp: yyyy-MM-dd HH:mm:ss.SSS, with literal letters in quotes: 'T'."
_STRFTIME = "The letters are those of to_timestamp, without %: yyyy-MM-dd HH:mm:ss.SSS."


def check_pattern(pattern: str) -> None:
    """Raise ConfigError for a pattern that cannot be read or has no date."""
    hint = _STRFTIME if "%" in pattern else _HINT
    try:
        reader(pattern)
    except PatternError as error:
        raise ConfigError(f"the time pattern {pattern!r}: {error}", where=WHERE, hint=hint) from None
    missing = [what for letter, what in (("M", "month"), ("d", "day")) if not _has(pattern, letter)]
    if missing:
        raise ConfigError(f"the time pattern {pattern!r} has no {missing[0]}", where=WHERE, hint=hint)


def has_zone(pattern: str) -> bool:
    return _has(pattern, "ZXx")


def has_year(pattern: str) -> bool:
    return _has(pattern, "yu")


def _has(pattern: str, letters: str) -> bool:
    return any(is_letters and text[0] in letters for text, is_letters in pieces(pattern))


def times_by(pattern: str, texts: pa.Array, *, year: int | None, limit_us: int) -> pa.Array:
    """Return the times of texts; null if a text does not match. Times without a zone are read as UTC.

    A pattern without a year uses `year`, or else the latest year in which the time is at most `limit_us`.
    Cost: one regular expression; without a year, one for each year in which there are times.
    """
    texts = pc.utf8_trim_whitespace(texts)
    if has_year(pattern):
        return reader(pattern)(texts)
    if year is not None:
        return _of_year(pattern, texts, year)
    found = pa.nulls(len(texts), TIMESTAMP)
    left = pc.if_else(_of_year(pattern, texts, 2000).is_valid(), texts, None)  # each date exists in 2000
    latest = int(np.datetime64(limit_us, "us").astype("datetime64[Y]").astype(np.int64)) + 1970
    limit = pa.scalar(limit_us, pa.int64()).cast(TIMESTAMP)
    for number in range(latest, latest - LEAP_YEARS_APART - 1, -1):
        if left.null_count == len(left):
            break
        stamps = _of_year(pattern, left, number)
        found = pc.coalesce(found, pc.if_else(pc.less_equal(stamps, limit), stamps, None))
        left = pc.if_else(found.is_null(), left, None)
    return found


def _of_year(pattern: str, texts: pa.Array, year: int) -> pa.Array:
    return reader(f"yyyy {pattern}")(pc.binary_join_element_wise(f"{year:04d}", texts, " "))


def as_texts(values: Sequence[object]) -> pa.Array:
    """Return decoded values as texts, numbers as their digits (20240615142201); anything else is null."""
    return pa.array(
        [value if isinstance(value, str) else str(value) if type(value) is int else None for value in values],
        STRING,
    )
