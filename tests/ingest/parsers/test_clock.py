"""Times of logs: years, zones and local times that lines do not state."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.clock import LocalClock
from tests.ingest.parsers.reading import read


def test_a_date_without_a_year_is_of_the_files_own_time(tmp_path: Path) -> None:
    log = tmp_path / "messages"
    log.write_text("Dec 31 23:59:59 h a: x\nJan  2 00:00:00 h a: y\nFeb 29 00:00:00 h a: z\n")
    changed = datetime(2022, 1, 2, 12, tzinfo=UTC).timestamp()
    os.utime(log, (changed, changed))
    parser = StreamFormat("syslog").parser(str(log))
    for _ in range(2):  # whatever the clock says meanwhile
        found = parser.parse(log.read_bytes(), ["ts"]).batch.column(0).to_pylist()
        assert [(ts.year, ts.month) for ts in found] == [(2021, 12), (2022, 1), (2020, 2)]
    assert read("syslog", log.read_bytes(), ["ts"], clock=LocalClock(year=1999)) == [
        (datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),),
        (datetime(1999, 1, 2, tzinfo=UTC),),
        (None,),
    ]


def test_a_time_without_a_zone_is_of_the_declared_one_and_others_stay() -> None:
    text = "2021-07-01 12:00:00|a\n2021-07-01T12:00:00Z|b\n1625140800|c\n2021-01-01 12:00:00+02:00|d\n"
    clock = LocalClock("Europe/Berlin")
    found = read(r"regex:(?P<ts>[^|]*)\|(?P<x>.)", text, ["x", "ts"], clock=clock)
    assert {x: ts.hour for x, ts in found} == {"a": 10, "b": 12, "c": 12, "d": 10}


def test_a_local_time_that_never_was_goes_on_with_the_offset_before_it() -> None:
    clock = LocalClock("Europe/Berlin")
    text = "2026-03-29 02:30:00\n2026-10-25 02:30:00\n"
    found = read("regex:(?P<ts>.*)", text, ["ts"], clock=clock)
    assert [ts.isoformat() for (ts,) in found] == ["2026-03-29T01:30:00+00:00", "2026-10-25T00:30:00+00:00"]


@pytest.mark.parametrize("options", [{"zone": "Middle/Earth"}, {"year": 12}, {"zone": "../etc/passwd"}])
def test_no_such_zone_or_year(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LocalClock(**options)
