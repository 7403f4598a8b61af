"""Time zones: what their clocks show, and which instant a clock means when it goes back or forward."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.types import TIMESTAMP
from elfmesh.ql.values.zones import UnknownZone, to_instant, to_local, zone


def stamps(*at: dt.datetime | None) -> pa.Array:
    return pa.array([None if each is None else each.replace(tzinfo=dt.UTC) for each in at], TIMESTAMP)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("+02:00", 7200), ("-05:30", -19800), ("+18:00", 64800), ("-18:00", -64800)],
)
def test_an_offset_is_so_many_seconds_to_the_east(name: str, seconds: int) -> None:
    assert zone(name) == seconds


@pytest.mark.parametrize(
    "name", ["+18:01", "+19:00", "+02:60", "Middle/Earth", "", "../etc/passwd", "Europe"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(UnknownZone):
        zone(name)


NOON = dt.datetime(2024, 7, 1, 12)


@pytest.mark.parametrize(
    ("where", "hour"), [("Asia/Tokyo", 21), ("Europe/Berlin", 14), (7200, 14), (-3600, 11)]
)
def test_the_clock_of_a_zone(where: str | int, hour: int) -> None:
    (there, null) = to_local(stamps(NOON, None), where).to_pylist()
    assert (there.hour, null) == (hour, None)


@pytest.mark.parametrize(
    ("wall", "instant"),
    [
        (
            dt.datetime(2026, 3, 29, 2, 30),
            dt.datetime(2026, 3, 29, 1, 30),
        ),  # never shown: with the offset before
        (dt.datetime(2026, 10, 25, 2, 30), dt.datetime(2026, 10, 25, 0, 30)),  # shown twice: the first time
        (dt.datetime(2026, 3, 29, 3, 0), dt.datetime(2026, 3, 29, 1, 0)),
    ],
)
def test_a_clock_that_goes_forward_or_back_means_one_instant(wall: dt.datetime, instant: dt.datetime) -> None:
    assert to_instant(stamps(wall), "Europe/Berlin").to_pylist() == [instant.replace(tzinfo=dt.UTC)]


@given(
    st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2036, 1, 1)),
    st.sampled_from(["Asia/Tokyo", "America/New_York", "Australia/Lord_Howe", 3600, -7200]),
)
def test_a_clock_leads_back_to_what_it_shows(at: dt.datetime, where: str | int) -> None:
    shown = to_local(stamps(at), where)
    again = to_local(to_instant(shown, where), where)
    assert again.to_pylist() == shown.to_pylist()


def test_a_time_beyond_all_is_null() -> None:
    last = pa.array([2**63 - 1, -(2**63)], pa.int64()).view(TIMESTAMP)
    found = to_local(last, 3600).view(pa.int64()).to_pylist()
    assert found == [None, -(2**63) + 3_600_000_000]
