"""The rotation matrix: whatever happens to a log, its records are exact or in a declared bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.rotation.cases import CASES, Case
from tests.ingest.rotation.station import PATIENT, PROMPT, Station
from tests.ingest.rotation.table import page
from tests.reliability import PAGE

MODES = {"running": (False, PATIENT), "replaying": (True, PATIENT), "resuming": (True, PROMPT)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story.__name__)
def test_what_happens_to_a_log_is_exact_or_declared(tmp_path: Path, case: Case, mode: str) -> None:
    crashing, text = MODES[mode]
    if text == PROMPT and not case.prompt:
        pytest.skip("its lines come late by nature")
    station = Station(tmp_path, crashing=crashing, pattern=case.pattern, text=text)
    case.story(station)
    station.finish()
    at = list(MODES).index(mode)
    lost, expected, again = (
        each if isinstance(each, int) else each[at] for each in (case.lost, case.gaps, case.again)
    )
    buckets = case.buckets[at] if isinstance(case.buckets, tuple) else case.buckets
    totals = station.totals()
    gaps = totals.pop("source_gap", 0)
    assert station.again() == again, "records were counted twice"
    assert station.lost() == lost, (totals, gaps, station.samples)
    contributed = len(station.written) - lost + again
    assert totals == {"contributed": contributed, **buckets}, station.samples
    assert gaps == expected, station.samples


def test_the_published_matrix_is_the_tested_one() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run python -m tests.ingest.rotation.table"
