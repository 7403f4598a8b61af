"""Calendar arithmetic on whole columns, without a time zone database: civil dates to microseconds.

Proleptic Gregorian and UTC, on numpy int64. Validity is a separate array, because an impossible date is null.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DAY_US = 86_400_000_000
SECOND_US = 1_000_000
YEAR_MAX = 290_000
"""Maximum year: later timestamps in microseconds do not fit into 64 bits."""

_MONTH_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CODES = [int.from_bytes(name.encode()) for name in MONTHS]
_MONTH_CODES = np.array(sorted(_CODES), dtype=np.int32)
_MONTH_OF_CODE = np.array([_CODES.index(code) + 1 for code in sorted(_CODES)], dtype=np.int64)


def days_from_civil(year: Ints, month: Ints, day: Ints) -> Ints:
    """Return the days since 1970-01-01 of valid dates (Hinnant's algorithm)."""
    shifted = year - (month <= 2)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return np.asarray(era * 146_097 + day_of_era - 719_468, dtype=np.int64)


def valid_date(year: Ints, month: Ints, day: Ints) -> Bools:
    sane_month = (month >= 1) & (month <= 12)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = _MONTH_DAYS[np.where(sane_month, month, 1)] + (leap & (month == 2))
    return np.asarray(sane_month & (day >= 1) & (day <= last) & (np.abs(year) <= YEAR_MAX))


def compose_us(
    date: tuple[Ints, Ints, Ints], time: tuple[Ints, Ints, Ints, Ints], offset_s: Ints | int = 0
) -> tuple[Ints, Bools]:
    """Return the microseconds since the epoch of civil times minus `offset_s`, and where they are valid."""
    year, month, day = date
    hour, minute, second, micro = time
    valid = valid_date(year, month, day)
    valid &= (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    days = days_from_civil(np.where(valid, year, 1970), np.where(valid, month, 1), np.where(valid, day, 1))
    seconds = hour * 3600 + minute * 60 + second - offset_s
    return np.asarray(days * DAY_US + seconds * SECOND_US + micro, dtype=np.int64), valid


def month_number(letters: npt.NDArray[np.uint8]) -> Ints:
    """Return 1..12 for English three-letter month names (uint8[rows, 3], any case); 0 for others."""
    folded = letters.astype(np.int32) | 32
    codes = (folded[:, 0] << 16) | (folded[:, 1] << 8) | folded[:, 2]
    places = np.minimum(np.searchsorted(_MONTH_CODES, codes), len(MONTHS) - 1)
    return np.where(_MONTH_CODES[places] == codes, _MONTH_OF_CODE[places], 0)
