"""Which interval a line without a time belongs to, also when lives before had read farther."""

from __future__ import annotations

from elfmesh import ql
from elfmesh.ingest.worker.eventtimes import EventTimes

WINDOW = ql.parse("SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)").window


def test_a_new_line_follows_all_that_earlier_boots_had_read() -> None:
    times = EventTimes(WINDOW, 0, 0, None, newest=9)
    assert times.newest_at(None) == times.newest_ever == 9
    times.newest_us = 6_000_000  # a late record, the first that this boot has read
    assert times.newest_at(None) == 9
    assert times.newest_at(7) == 6, "a replay finds what was found when it was read first"
    times.newest_us = 11_500_000
    assert times.newest_at(None) == times.newest_at(7) == times.newest_ever == 11


def test_the_first_boot_knows_no_interval_before_its_first_record() -> None:
    times = EventTimes(WINDOW, 0, 0, None)
    assert times.newest_at(None) is None
    assert times.newest_at(3) is None
    assert EventTimes(None, 0, 0, None).newest_ever == 0, "without a window there is one"
