"""Creation times of files: later ones are younger, and a file system that keeps none says so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from elfmesh.ingest.sources.birth import born_ns, is_younger


def test_a_file_is_younger_than_one_created_before_it_whatever_is_written_afterwards(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    before = time.time_ns()
    old.touch()
    if born_ns(str(old)) is None:
        pytest.skip("the file system keeps no creation times")
    while not new.exists() or new.stat().st_ctime_ns == old.stat().st_ctime_ns:
        new.unlink(missing_ok=True)
        new.touch()
    old.write_text("written last")
    assert is_younger(str(new), str(old))
    assert not is_younger(str(old), str(new))
    assert not is_younger(str(old), str(old))
    born = born_ns(str(old))
    assert born is not None
    assert abs(born - before) < 60 * 10**9


def test_a_file_that_is_not_there_has_no_creation_time_and_is_not_younger(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    assert born_ns(str(tmp_path / "gone")) is None
    assert not is_younger(str(tmp_path / "gone"), str(there))
    assert not is_younger(str(there), str(tmp_path / "gone"))
