"""Patterns of dates: digits right behind digits are read as Java reads them, or the pattern is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from elfmesh.ql.values.patterns import PatternError, reader


@pytest.mark.parametrize(
    ("text", "pattern", "wanted"),
    [
        ("67802020", "SSSSyyyy", datetime(2020, 1, 1, 0, 0, 0, 678000)),
        ("6782020", "SSSSyyyy", None),
        (
            "12.12342019-10-06S10:11",
            "ss.SSSSyyyy-MM-dd'S'HH:mm",
            datetime(2019, 10, 6, 10, 11, 12, 123400),
        ),
        ("12.1232019-10-06S10:11", "ss.SSSSyyyy-MM-dd'S'HH:mm", None),
        ("12.1232019-10-06S10:11", "ss.SSSSyy-MM-dd'S'HH:mm", None),
        ("12.1234019-10-06S10:11", "ss.SSSSy-MM-dd'S'HH:mm", datetime(19, 10, 6, 10, 11, 12, 123400)),
        ("20200102030405", "yyyyMMddHHmmss", datetime(2020, 1, 2, 3, 4, 5)),
        ("2020-01-02 030405678", "yyyy-MM-dd HHmmssSSS", datetime(2020, 1, 2, 3, 4, 5, 678000)),
        ("2020-01-02 03:04:05.6", "yyyy-MM-dd HH:mm:ss.SSS", datetime(2020, 1, 2, 3, 4, 5, 600000)),
    ],
)
def test_adjacent_digits_are_read_as_spark_reads_them(
    text: str, pattern: str, wanted: datetime | None
) -> None:
    (found,) = reader(pattern)(pa.array([text])).to_pylist()
    assert found == (None if wanted is None else wanted.replace(tzinfo=UTC))


@pytest.mark.parametrize("pattern", ["yyyySSS", "yyyyMMddHHmmssSSS", "yyyyM", "Hm"])
def test_digits_that_java_never_reaches_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="is never reached"):
        reader(pattern)
