"""Patterns of dates: digits right behind digits are read as Java reads them, or the pattern is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.ql.values.patterns import PatternError, reader, writer


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


OLD, NIGHT, FAR = datetime(1, 1, 1, 12), datetime(2024, 12, 31), datetime(1582, 6, 1, 3, 33, 33, 123000)


@pytest.mark.parametrize(
    ("pattern", "at", "wanted"),
    [
        ("G GG GGG GGGG", OLD, "AD AD AD Anno Domini"),
        ("y yy yyy yyyy yyyyy yyyyyy", FAR, "1582 82 1582 1582 01582 001582"),
        ("q qq Q QQ QQQ QQQQ", NIGHT, "4 04 4 04 Q4 4th quarter"),
        ("L LL F", NIGHT, "12 12 3"),
        ("k kk K KK h hh", NIGHT, "24 24 0 00 12 12"),
        ("k K", OLD, "12 0"),
        ("z zz zzz zzzz VV", FAR, "UTC UTC UTC Coordinated Universal Time UTC"),
        ("X XXXX XXXXX Z ZZZZ ZZZZZ O OOOO", FAR, "Z Z Z +0000 GMT Z GMT GMT"),
        ("x xx xxx xxxx xxxxx", FAR, "+00 +0000 +00:00 +0000 +00:00"),
        ("[yyyy[-MM]]", FAR, "1582-06"),
        ("[a'['", FAR, "AM["),
    ],
)
def test_a_time_is_written_as_spark_writes_it(pattern: str, at: datetime, wanted: str) -> None:
    assert writer(pattern)(pa.array([at, None], pa.timestamp("us"))).to_pylist() == [wanted, None]


def test_a_year_of_more_digits_than_its_pattern_has_a_sign() -> None:
    stamps = pa.array([np.datetime64("12345-03-07", "us")], pa.timestamp("us"))
    assert writer("y yyy yyyy yyyyy yyyyyy")(stamps).to_pylist() == ["12345 12345 +12345 12345 012345"]


@pytest.mark.parametrize("pattern", ["]a", "GGGGG", "LLL", "VVV", "{", "w"])
def test_what_spark_does_not_write_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        writer(pattern)


def test_an_optional_section_is_not_read() -> None:
    with pytest.raises(PatternError, match="is not supported"):
        reader("yyyy[-MM]")
