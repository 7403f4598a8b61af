"""A job that compares a column of a log with what is no value of it says so, with file and value."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.ingest.rotation.station import PROMPT, Station


def test_a_job_reports_once_that_it_compares_in_vain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    station = Station(tmp_path, text=PROMPT.replace("FROM log", "FROM log WHERE id <> 'five'"))
    with caplog.at_level(logging.WARNING, "elf.worker"):
        for _ in range(3):
            station.write()
            station.step()
        station.finish()
    (record,) = [each for each in caplog.records if "has an impossible comparison" in each.getMessage()]
    notified = (
        f"id <> 'five': in {station.log} (such as 0) id is BIGINT and 'five' is not: no value satisfies it."
    )
    assert notified in record.getMessage()
    assert any(notified in sample for sample in station.samples)
    assert station.totals() == {"filtered": 9}
