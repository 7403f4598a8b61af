"""A damaged log is written again: good records stay, and what was fetched goes into the hole."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from elfmesh.storage.results.log import ResultsLog
from tests.storage.results.damage import (
    INDICES,
    damaged,
    held,
    record,
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


def test_a_hole_is_filled_from_its_beginning_and_what_is_left_survives_a_restart(
    whole: Path, tmp_path: Path
) -> None:
    full = {each.index: (each, data) for each, data in held(ResultsLog(whole / "old", "a"))}
    directory, path = damaged(whole, tmp_path, "old", 1)
    path.write_bytes(bytes(path.stat().st_size))
    log = ResultsLog(directory, "a", segment_records=4)
    assert log.holes == [(5, 16)]
    log.mend(5, 10, [full[9]])
    assert log.holes == [(10, 16)]
    log = ResultsLog(directory, "a", segment_records=4)
    assert log.holes == [(10, 16)]
    log.mend(10, 16, [full[10], full[11], full[15]])
    assert held(ResultsLog(directory, "a")) == [full[index] for index in INDICES]


def test_a_declared_loss_is_a_record_of_the_epoch_before_it(whole: Path, tmp_path: Path) -> None:
    directory, path = damaged(whole, tmp_path, "chained", 1)
    path.unlink()
    log = ResultsLog(directory, "a")
    ((start, stop),) = log.holes
    reported = replace(record(stop - 1, None), state="SKIPPED", reason="lost: so", since=start, epoch=0)
    log.mend(start, stop, [(reported, b"")])
    again = ResultsLog(directory, "a")
    assert again.holes == []
    assert again.describe(1).lost == ((5, 15),)
    (found,) = [each for each, _ in held(again) if each.lost]
    assert (found.index, found.first, found.epoch) == (15, 5, 2)
