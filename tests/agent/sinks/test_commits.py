"""The log of commits beside Parquet files: the newest line of an interval is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.agent.sinks import commits
from elfmesh.agent.sinks.base import LostIntervals, Position, Unavailable
from elfmesh.agent.sinks.commits import Commits
from tests.agent.sinks.rig import item


def test_commits_in_many_files_are_one_log(tmp_path: Path) -> None:
    log = Commits(tmp_path, file_bytes_max=300)
    for index in range(20):
        with log.locked():
            log.append(item(index), file=None, rows=0, sha256=None)
    for rev in range(1, 9):
        with log.locked():
            log.append(item(20, state="TENTATIVE", rev=rev), file=None, rows=0, sha256=None)
    again = Commits(tmp_path, file_bytes_max=300)
    assert (again.position, again.shown) == (Position(20, 1), {20: (1, 8)})
    assert len(list(tmp_path.rglob("*.jsonl"))) > 5


def test_a_line_that_was_cut_off_is_taken_away_and_the_next_one_is_whole(tmp_path: Path) -> None:
    log = Commits(tmp_path)
    with log.locked():
        log.append(item(1), file="1.parquet", rows=2, sha256="ab")
    (path,) = tmp_path.rglob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"interval": 2, "sta')
    again = Commits(tmp_path)
    assert (again.position, path.read_bytes()) == (Position(2, 1), whole)


def test_a_terminal_record_takes_the_place_of_what_was_shown(tmp_path: Path) -> None:
    log = Commits(tmp_path)
    with log.locked():
        for index in (1, 2, 3):
            log.append(item(index, state="TENTATIVE", rev=index, epoch=4), file=None, rows=0, sha256=None)
        assert (log.position, log.shown) == (None, {1: (4, 1), 2: (4, 2), 3: (4, 3)})
        log.append(item(2, epoch=5), file=None, rows=0, sha256=None)
        assert (log.position, log.shown) == (Position(3, 5), {3: (4, 3)})
        log.declare(LostIntervals(3, 9, "gone"))
        log.compacted({"id": 1})
    assert log.position == Commits(tmp_path).position == Position(10, 5)


def test_open_intervals_that_are_remembered_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "SHOWN_MAX", 2)
    log = Commits(tmp_path)
    with log.locked():
        for index in (5, 3, 4):
            log.append(item(index, state="TENTATIVE"), file=None, rows=0, sha256=None)
    assert sorted(log.shown) == [4, 5]


def test_one_process_writes_at_a_time_and_sees_what_the_other_has_written(tmp_path: Path) -> None:
    one, other = Commits(tmp_path), Commits(tmp_path)
    with one.locked():
        with pytest.raises(Unavailable, match="another process writes to"), other.locked():
            pass
        one.append(item(1), file=None, rows=0, sha256=None)
    with other.locked():
        assert other.position == Position(2, 1)
