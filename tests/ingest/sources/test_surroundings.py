"""Which files a pattern leads to, which lie beside them, and how often a directory is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elfmesh.ingest.sources import surroundings
from elfmesh.ingest.sources.file import SETTLED_S
from elfmesh.ingest.sources.rotated import RotatedFile, scan
from elfmesh.ingest.sources.surroundings import NOT_A_FILE, NeighbourFiles


def names(found: dict[tuple[int, int], RotatedFile]) -> list[str]:
    return sorted(Path(each.path).name for each in found.values())


def test_a_pattern_leads_to_regular_files_each_once(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "d.log").mkdir()
    (tmp_path / "e.log").symlink_to(tmp_path / "a.log")
    around = NeighbourFiles(str(tmp_path / "*.log"))
    assert names(around.listed()) == ["a.log", "b.log"]
    assert around.problems == {}


def test_what_cannot_be_read_is_a_problem_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "log"
    around = NeighbourFiles(str(path))
    assert around.listed() == {}
    assert "No such file" in around.problems[str(path)]
    os.mkfifo(path)
    around.listed()
    assert around.problems == {str(path): NOT_A_FILE}
    path.unlink()
    path.write_text("x")
    assert names(around.listed()) == ["log"]
    assert around.problems == {}


def test_rotated_forms_of_what_was_listed_lie_nearby(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    around = NeighbourFiles(str(tmp_path / "*.log"))
    around.listed()
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    assert around.is_rotated(str(tmp_path / "a.log.1"))
    assert not around.is_rotated(str(tmp_path / "other.log.1"))
    assert names(around.nearby(0.0)) == ["a.log.1"]


def test_a_directory_that_rests_is_read_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def counted(directory: str) -> list[RotatedFile]:
        looks.append(directory)
        return scan(directory)

    monkeypatch.setattr(surroundings, "scan", counted)
    (tmp_path / "log").write_text("x")
    around = NeighbourFiles(str(tmp_path / "log"))
    around.nearby(0.0)
    around.nearby(SETTLED_S + 0.1)
    assert len(looks) == 2, "it may have changed within one tick of the file system's clock"
    around.nearby(SETTLED_S + 0.2)
    assert len(looks) == 2
    around.nearby(SETTLED_S + 0.2, at_once=True)
    assert len(looks) == 3
    around.nearby(2 * SETTLED_S + 0.3)
    assert len(looks) == 4
