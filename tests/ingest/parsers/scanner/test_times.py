"""Event times agree, whatever text or number they are in and whatever stands beside them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import scanner
from elfmesh.ingest.parsers.cells import CellField, Grid
from elfmesh.ingest.parsers.schema import timestamps

TIMES = [
    *(
        "17/May/2015:10:05:03 +0000",
        "17/May/2015:10:05:04 +0000",
        "17/May/2015:10:05:14 +0000",
        "18/May/2015:10:05:14 +0000",
    ),
    *(
        "2016-02-29",
        "2015-02-29",
        "1900-02-29",
        "2000-02-29",
        "2000-02-29T00:00:00Z",
        "1900-02-29 00:00:00",
        "0000-02-29",
    ),
    *(
        "2015-05-17T10:05:03+02:00",
        "2015-05-17T10:05:03-02:00",
        "17/May/2015:10:05:03 +0200",
        "17/May/2015:10:05:03 -0200",
    ),
    *(
        "2015-05-17T10:05:03Z",
        "2015-05-17T10:05:04Z",
        "2015-05-18T10:05:03Z",
        "2025-05-17T10:05:03Z",
        "2015-05-17T20:05:03Z",
    ),
    *(
        "2015-05-17T10:05:03.9999999Z",
        "2015-05-17T10:05:03,5",
        "0001-01-01T00:00:00+23:59",
        "1969-12-31T23:59:59.999999Z",
    ),
    *(
        "29/Feb/2015:00:00:00 +0000",
        "29/Feb/2016:00:00:00 +0000",
        "30/Apr/2015:23:59:59 +0000",
        "31/Apr/2015:23:59:59 +0000",
    ),
    *(
        -1,
        -1001,
        -(10**17) - 1,
        -(10**17) - 999,
        10**17 + 999,
        1.5,
        -0.0000005,
        0.0000005,
        0.0000015,
        1e11,
        1.1e14,
        1.2e17,
        -1.2e17,
    ),
]


def test_times_that_are_nearly_alike() -> None:
    found = field_of(TIMES).times().view(pa.int64()).to_pylist()
    assert found == [timestamps([item]).view(pa.int64())[0].as_py() for item in TIMES]
    backwards = field_of(TIMES[::-1]).times().view(pa.int64()).to_pylist()
    assert backwards == found[::-1]


clock = st.sampled_from(
    ["10:05:03", "23:59:59", "24:00:00", "10:60:00", "1:05:03", "10:05", "10", "10:05:03.5", "10:05:60"]
)
fraction = st.sampled_from(["", ".1", ".123456", ".1234567", ".123456789", ".1234567890", ",25", ".", ".x"])
zone = st.sampled_from(
    [
        "",
        "Z",
        "z",
        "+00:00",
        "+0530",
        "-08",
        "+18:00",
        "+19:00",
        "-23:59",
        "+24:00",
        "+1",
        " +0200",
        "+05:60",
        " UTC",
        "Zx",
    ]
)
date = st.one_of(
    st.dates().map(str),
    st.sampled_from(
        [
            "2015-02-29",
            "2016-02-29",
            "2015-13-01",
            "0000-01-01",
            "1900-02-29",
            "2000-02-29",
            "2015-5-7",
            "20150517",
        ]
    ),
)
iso_text = st.tuples(date, st.sampled_from(["T", " ", "t", "  ", ""]), clock, fraction, zone).map("".join)
clf_text = st.tuples(
    st.sampled_from(["17", "31", "30", "29", "00", "7", " 7"]),
    st.sampled_from(["/", "/", "-"]),
    st.sampled_from(["May", "feb", "NOV", "Mai", "Dec", "ſep"]),
    st.sampled_from(["/2015:", "/2016:", "/0000:", "/9999:", "/15:"]),
    clock,
    st.sampled_from(
        [" +0000", " -0700", " +1830", " +2359", " +2400", " +0060", "", " Z", " +9999", " +00:0"]
    ),
).map("".join)
any_time = st.one_of(
    iso_text,
    clf_text,
    clf_text.map(lambda text: f"[{text}]"),
    st.datetimes().map(str),
    st.sampled_from(
        [
            "Sun May 17 10:00:00 2015",
            "Sun, 17 May 2015 10:00:00 GMT",
            "soon",
            "",
            "1431856800",
            " 12.5 ",
            "2015-05-17",
        ]
    ),
    st.text(max_size=30),
)
time_value = st.one_of(
    any_time,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.none(),
    st.booleans(),
    st.just([]),
    st.sampled_from(
        [10**11, 10**11 + 1, 10**14, 10**14 + 1, 10**17, 10**17 + 1, -(10**17) - 1, 9.2e18, 1e17, 0.5e-6]
    ),
)


def field_of(values: list[Any]) -> CellField:
    grid = Grid(scanner.active, b"a block", 1, len(values))
    for row, item in enumerate(values):
        grid.put(0, row, item)
    return grid.field([0])


@settings(max_examples=400, deadline=None)
@given(st.lists(time_value, max_size=6))
def test_event_times_agree_whatever_stands_beside_them(values: list[Any]) -> None:
    found = field_of(values).times()
    found.validate(full=True)
    micros = found.view(pa.int64()).to_pylist()
    assert micros == timestamps(values).view(pa.int64()).to_pylist()
    assert micros == [timestamps([item]).view(pa.int64())[0].as_py() for item in values]


@settings(max_examples=150, deadline=None)
@given(st.lists(time_value, max_size=6))
def test_cells_give_back_what_was_put_in(values: list[Any]) -> None:
    numbers = [value for value in values if value == value]
    assert field_of(numbers).values() == numbers
