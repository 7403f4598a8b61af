"""Segments of a log that is open: damage is found by the next read, and hides nothing that comes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from elfmesh.storage.results.log import ResultsLog
from tests.storage.results.damage import (
    CHANGES,
    INDICES,
    damaged,
    held,
    lacking,
    record,
    rows,
    written,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs with and without records that name the one before, and one of another job; written once."""
    root = tmp_path_factory.mktemp("logs")
    written(root / "chained")
    written(root / "old", chained=False)
    written(root / "other", job="shop/other")
    return root


@pytest.mark.parametrize("name", ["rows of the middle record", "zeros", "empty", "cut within a record"])
@pytest.mark.parametrize("at", range(3))
def test_damage_under_a_log_that_is_open_is_found_by_the_next_read(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int, name: str
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", at)
    log = ResultsLog(directory, "a", segment_records=4)
    path.write_bytes(CHANGES[name](path.read_bytes()))
    there = held(log)
    assert log.latest == INDICES[-1]
    assert {each.index for each, _ in there} | lacking(log) == set(INDICES)
    assert any(each.levelno >= logging.WARNING and str(path) in each.getMessage() for each in caplog.records)
    log.append(record(30, INDICES[-1]), rows(30))
    full = held(ResultsLog(whole / "chained", "a"))
    for hole in list(log.holes):
        log.mend(*hole, [each for each in full if hole[0] <= each[0].index < hole[1]])
    assert [each.index for each, _ in held(log)] == [*INDICES, 30]
    again = ResultsLog(directory, "a", segment_records=4)
    assert (again.holes, [each.index for each, _ in held(again)]) == ([], [*INDICES, 30])


def test_damage_under_a_log_that_is_written_does_not_hide_what_comes(whole: Path, tmp_path: Path) -> None:
    directory, path = damaged(whole, tmp_path, "chained", 2)
    log = ResultsLog(directory, "a", segment_records=9)
    path.write_bytes(path.read_bytes()[:-30])
    log.append(record(30, INDICES[-1]), rows(30))
    assert [each.index for each, _ in held(log)] == [*INDICES[:-1], 30]
    assert log.holes == [(INDICES[-2] + 1, INDICES[-1] + 1)]
    assert ResultsLog(directory, "a").holes == log.holes
