"""Whatever happens to a file of a results log: what is good stays, what lacks is known, and can be filled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from elfmesh.storage.results import salvage
from tests.storage.results.damage import (
    CHANGES,
    check_filled,
    damaged,
    written,
)

CASES = [
    (kind, at, name)
    for kind in ("chained", "old")
    for at in range(3)
    for name in CHANGES
    if not (kind == "old" and at < 2 and name.startswith("cut between"))  # nothing says that there was more
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs with and without records that name the one before, and one of another job; written once."""
    root = tmp_path_factory.mktemp("logs")
    written(root / "chained")
    written(root / "old", chained=False)
    written(root / "other", job="shop/other")
    return root


@pytest.mark.parametrize(("kind", "at", "name"), CASES)
def test_a_damaged_segment_costs_what_was_in_it_and_can_be_filled(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, at: int, name: str
) -> None:
    directory, path = damaged(whole, tmp_path, kind, at)
    path.write_bytes(CHANGES[name](path.read_bytes()))
    check_filled(directory, whole, kind, caplog)


@pytest.mark.parametrize("at", range(3))
def test_a_segment_that_is_gone_is_a_hole(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", at)
    path.unlink()
    check_filled(directory, whole, "chained", caplog)


@pytest.mark.parametrize("at", range(3))
def test_records_of_another_job_are_damage(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    directory, path = damaged(whole, tmp_path, "chained", at)
    shutil.copy(salvage.segment_paths(whole / "other")[at], path)
    check_filled(directory, whole, "chained", caplog)
    assert path.with_name(path.name + ".damaged").exists()
