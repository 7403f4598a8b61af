"""Files that are not open: how one is known again, and when a compressed one is complete."""

from __future__ import annotations

import gzip
from pathlib import Path

from elfmesh.ingest.sources.file import SETTLED_S
from elfmesh.ingest.sources.known import KnownFile, Settling, remembered
from elfmesh.ingest.sources.position import FINISHED, FOREIGN, READING
from elfmesh.ingest.sources.rotated import RotatedFile, scan

LINE_MAX = 1 << 16


def entry(directory: Path) -> RotatedFile:
    (found,) = scan(str(directory))
    return found


def known(directory: Path, role: int = FINISHED) -> KnownFile:
    found = remembered(entry(directory), role, LINE_MAX)
    assert found is not None
    return found


def test_a_file_that_was_read_is_known_until_it_changes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    found = known(tmp_path)
    assert found.position.offset == 8
    assert found.is_still(entry(tmp_path))
    log.write_bytes(b"ONE\ntwo\n")
    assert not found.is_still(entry(tmp_path))


def test_an_unfinished_line_makes_it_one_to_go_on_with(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntw")
    found = known(tmp_path)
    assert found.position.offset == 4
    assert found.stored().role == READING
    (tmp_path / "log").write_bytes(b"one\ntwo\n")
    assert known(tmp_path).stored().role == FINISHED


def test_a_foreign_file_that_shrinks_is_another(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    found = known(tmp_path, FOREIGN)
    log.write_bytes(b"one\ntwo\nthree\n")
    assert found.is_still(entry(tmp_path))
    log.write_bytes(b"one\n")
    assert not found.is_still(entry(tmp_path))


def test_a_name_that_means_another_file_by_now_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\n")
    listed = entry(tmp_path)
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").write_bytes(b"new\n")
    assert remembered(listed, FINISHED, LINE_MAX) is None


def test_a_compressed_file_is_complete_when_it_has_not_grown_for_a_while(tmp_path: Path) -> None:
    archive = tmp_path / "log.gz"
    archive.write_bytes(gzip.compress(b"one\n"))
    settling = Settling()
    assert not settling.is_settled(entry(tmp_path), 0.0)
    archive.write_bytes(gzip.compress(b"one\ntwo and more\n" * 9))
    assert not settling.is_settled(entry(tmp_path), SETTLED_S), "it has grown"
    assert not settling.is_settled(entry(tmp_path), 1.9 * SETTLED_S)
    assert settling.is_settled(entry(tmp_path), 2 * SETTLED_S)
