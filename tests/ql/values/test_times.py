"""Event times: every shape a log writes is read, and nothing else is."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.values.civil import days_from_civil, valid_date
from elfmesh.ql.values.times import to_timestamp_us
from elfmesh.ql.values.types import TIMESTAMP

UTC = dt.UTC
AT = dt.datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
HALF = AT.replace(microsecond=500_000)

TEXTS: list[tuple[str, dt.datetime | None]] = [
    ("2015-05-17T10:05:03Z", AT),
    ("2015-05-17 10:05:03", AT),
    ("2015-05-17T10:05:03.5Z", HALF),
    ("2015-05-17T10:05:03,500", HALF),
    ("2015-05-17T10:05:03.500000000+00:00", HALF),
    ("2015-05-17T12:05:03+02:00", AT),
    ("2015-05-17T12:05:03+0200", AT),
    ("2015-05-17 05:05:03 -05", AT),
    ("2015-05-17t10:05:03z", AT),
    ("  2015-05-17T10:05:03Z  ", AT),
    ("2015-05-17T10:05", AT.replace(second=0)),
    ("2015-05-17", AT.replace(hour=0, minute=0, second=0)),
    ("2015-5-7 1:02:03", dt.datetime(2015, 5, 7, 1, 2, 3, tzinfo=UTC)),
    ("17/May/2015:10:05:03 +0000", AT),
    ("[17/May/2015:12:05:03 +0200]", AT),
    ("17/may/2015:10:05:03", AT),
    ("01/Jul/1995:00:00:01 -0400", dt.datetime(1995, 7, 1, 4, 0, 1, tzinfo=UTC)),
    ("Sun, 17 May 2015 10:05:03 GMT", AT),
    ("17 May 2015 12:05:03 +0200", AT),
    ("Sun, 17 May 2015 03:05:03 -0700 (PDT)", AT),
    ("Sunday, 17-May-2015 10:05:03 UTC", AT),
    ("Fri Feb 08 01:10:17 +0000 2013", dt.datetime(2013, 2, 8, 1, 10, 17, tzinfo=UTC)),
    ("Sun May 17 10:05:03 2015", AT),
    ("Sun May 17 10:05:03.500000 2015", HALF),
    ("Thu Feb  5 01:10:17 2015", dt.datetime(2015, 2, 5, 1, 10, 17, tzinfo=UTC)),
    ("1431857103", AT),
    ("1431857103.5", HALF),
    ("1431857103500", HALF),
    ("1431857103500000", HALF),
    ("1431857103500000000", HALF),
    ("-1", dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("", None),
    ("x", None),
    ("2015-02-30T00:00:00Z", None),
    ("2015-13-01", None),
    ("2015-05-17T25:00:00Z", None),
    ("2015-05-17T10:61:00Z", None),
    ("17/Foo/2015:10:05:03 +0000", None),
    ("32/May/2015:10:05:03 +0000", None),
    ("2015-05-17T10:05:03+99:00", None),
    ("2015-05-17T10:05:03Z and more", None),
    ("-", None),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_each_shape_is_read(text: str, expected: dt.datetime | None) -> None:
    assert to_timestamp_us(pa.array([text])).to_pylist() == [expected]


def test_shapes_mixed_in_one_column_are_read_row_by_row() -> None:
    texts = [text for text, _ in TEXTS] + [None]
    result = to_timestamp_us(pa.array(texts))
    assert result.type == TIMESTAMP
    assert result.to_pylist() == [expected for _, expected in TEXTS] + [None]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1431857103, None]), [AT, None]),
        (pa.array([1431857103500]), [HALF]),
        (pa.array([1431857103500000]), [HALF]),
        (pa.array([1431857103500000000]), [HALF]),
        (pa.array([1431857103], pa.uint64()), [AT]),
        (pa.array([1431857103], pa.uint32()), [AT]),
        (pa.array([1431857103.5, float("nan"), float("inf"), None]), [HALF, None, None, None]),
        (pa.array([1431857103500.0]), [HALF]),
        (pa.array([AT], pa.timestamp("s", "UTC")), [AT]),
        (pa.array([AT], pa.timestamp("ns", "Europe/Berlin")), [AT]),
        (pa.array([dt.datetime(2015, 5, 17, 10, 5, 3)], pa.timestamp("ms")), [AT]),
        (pa.array([dt.date(2015, 5, 17)]), [dt.datetime(2015, 5, 17, tzinfo=UTC)]),
        (pa.array(["2015-05-17T10:05:03Z", None]).dictionary_encode(), [AT, None]),
        (pa.array(["2015-05-17T10:05:03Z"], pa.large_string()), [AT]),
        (pa.chunked_array([["1431857103"], ["2015-05-17 10:05:03"]]), [AT, AT]),
        (pa.array([True, None]), [None, None]),
        (pa.nulls(2), [None, None]),
        (pa.array([], pa.string()), []),
        (pa.array([None, None], pa.string()), [None, None]),
        (pa.array([[1]]), [None]),
    ],
)
def test_each_type_is_read(array: Any, expected: list[dt.datetime | None]) -> None:
    result = to_timestamp_us(array)
    assert result.type == TIMESTAMP
    assert result.to_pylist() == expected


def test_a_slice_of_a_clf_column_reads_its_own_rows() -> None:
    column = pa.array([f"{day:02}/May/2015:10:05:03 +0000" for day in range(1, 11)])
    assert [at.day for at in to_timestamp_us(column.slice(3, 4)).to_pylist()] == [4, 5, 6, 7]


_STAMPS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC))


@given(st.lists(_STAMPS, min_size=1, max_size=20), st.integers(-720, 840))
def test_iso_clf_and_rfc_texts_read_back(stamps: list[dt.datetime], minutes: int) -> None:
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    local = [stamp.astimezone(zone) for stamp in stamps]
    whole = [stamp.replace(microsecond=0) for stamp in stamps]
    assert to_timestamp_us(pa.array([at.isoformat() for at in local])).to_pylist() == stamps
    clf = [at.strftime("%d/%b/") + f"{at.year:04}" + at.strftime(":%H:%M:%S %z") for at in local]
    assert to_timestamp_us(pa.array(clf)).to_pylist() == whole
    assert to_timestamp_us(pa.array([*clf, "x"])).to_pylist() == [*whole, None]
    rfc = [at.strftime("%a, %d %b ") + f"{at.year:04}" + at.strftime(" %H:%M:%S %z") for at in local]
    assert to_timestamp_us(pa.array(rfc)).to_pylist() == whole


@given(st.lists(st.text(max_size=30), max_size=10))
def test_any_text_is_a_time_or_null(texts: list[str]) -> None:
    assert len(to_timestamp_us(pa.array(texts, pa.string()))) == len(texts)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10), st.lists(st.floats(), max_size=10))
def test_any_number_is_a_time_or_null(ints: list[int], floats: list[float]) -> None:
    assert len(to_timestamp_us(pa.array(ints, pa.int64()))) == len(ints)
    assert len(to_timestamp_us(pa.array(floats, pa.float64()))) == len(floats)


@given(st.integers(-2000, 4000), st.integers(-1, 14), st.integers(-1, 33))
def test_civil_dates_agree_with_the_calendar(year: int, month: int, day: int) -> None:
    columns = [pa.array([part], pa.int64()).to_numpy() for part in (year, month, day)]
    try:
        expected = dt.date(year, month, day).toordinal() - 719163 if year >= 1 else None
        exists = True
    except ValueError:
        expected, exists = None, False
    if year >= 1:
        assert bool(valid_date(*columns)[0]) == exists
    if expected is not None:
        assert int(days_from_civil(*columns)[0]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2015-05-17T10",
        "2015-05-17 10",
        "2015-05-17T10Z",
        "2015-05-17T10:00:00+19:00",
        "2015-05-17T10:00:00-23:59",
        "2015-05-17T10:00:00+24:00",
        "17/May/2015:10:05:03 +2359",
        "17/May/2015:10:05:03 +9999",
        "17/May/2015:10:05:03 -0060",
    ],
)
def test_a_time_means_the_same_whatever_stands_beside_it(text: str) -> None:
    alone = to_timestamp_us(pa.array([text]))
    beside = to_timestamp_us(pa.array([text, "Sun May 17 10:00:00 2015", None]))
    assert alone[0] == beside[0]


@pytest.mark.parametrize("word", ["TIMESTAMP 'noon'", "TIMESTAMP '2020-01-01 25:00:00'", "DATE 'x'"])
def test_a_literal_that_is_no_time_is_an_error_of_the_query(word: str) -> None:
    kind, _, text = word.partition(" ")
    with pytest.raises(QueryError, match=f"{text} is not a {kind}"):
        parse(f"SELECT {word} AS t FROM s")
    parse(f"SELECT CAST({text} AS {kind}) AS t FROM s")  # null, as in Spark
