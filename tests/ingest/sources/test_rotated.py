"""What a log file is called after it was rotated, and which files a directory has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elfmesh.ingest.sources.rotated import bases, is_rotated, scan


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("access.log.1", ["access.log"]),
        ("access.log-20260521", ["access.log"]),
        ("access-20260521.log", ["access.log"]),
        ("access-2026-05-21.3.log", ["access.log"]),
        ("access.log.2.gz", ["access.log.2", "access.log"]),
        ("access.log.zst", ["access.log"]),
        ("access.log", []),
        (".1", []),
        ("1", []),
        ("", []),
        ("app.log.old", []),
    ],
)
def test_the_names_before_a_rotation(name: str, found: list[str]) -> None:
    assert bases(name) == found


@pytest.mark.parametrize(
    ("path", "known", "rotated"),
    [
        ("/var/log/a.log.1", ["/var/log/a.log"], True),
        ("/var/log/a.log.1", ["/other/a.log"], False),
        ("a.log.1", ["a.log"], True),
        ("/var/log/a.log", ["/var/log/a.log"], False),
        ("/var/log/b.log.1", ["/var/log/a.log"], False),
    ],
)
def test_a_rotated_file_lies_beside_its_log(path: str, known: list[str], rotated: bool) -> None:
    assert is_rotated(path, known) is rotated


def test_files_are_listed_oldest_first_and_directories_are_none(tmp_path: Path) -> None:
    for name, at in (("new", 20), ("old", 10), ("also old", 10)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (at, at))
    (tmp_path / "directory").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    found = scan(str(tmp_path))
    assert [Path(each.path).name for each in found] == ["also old", "old", "new"]
    assert found[0].size == len("also old")
    assert found[0].id == (os.stat(found[0].path).st_dev, os.stat(found[0].path).st_ino)  # noqa: PTH116 - compared with it


def test_a_directory_that_cannot_be_read_has_no_files(tmp_path: Path) -> None:
    assert scan(str(tmp_path / "nowhere")) == []
