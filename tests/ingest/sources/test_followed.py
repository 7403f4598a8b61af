"""Files of a stream that were read before: found again after a restart, or said to be gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from elfmesh.ingest.sources import Tail
from tests.ingest.sources.tails import Clock, append, drain, let_file_clock_pass, positions_after


def test_rename_rotation_finishes_the_old_file_then_the_new(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    append(log, "1\n")
    tail = Tail(str(log), clock=clock)
    assert drain(tail) == "1\n"
    append(log, "2\n")
    log.rename(tmp_path / "log.1")
    append(log, "3\n")
    append(tmp_path / "log.1", "2b\n")
    assert drain(tail) == "2\n2b\n3\n"
    append(tmp_path / "log.1", "late\n")
    clock.now = 4
    assert drain(tail) == "late\n"
    clock.now = 20
    tail.poll()
    clock.now = 30
    tail.poll()
    assert len(tail.sources()) == 1
    assert len(tail.gaps) == 0
    tail.close()


def test_a_file_rotated_while_the_agent_was_down_is_found_by_its_inode(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n")
    positions = positions_after(log)
    append(log, "2\n")
    log.rename(tmp_path / "log.1")
    append(log, "3\n")
    second = Tail(str(log), positions=positions)
    assert drain(second) == "2\n3\n"
    assert len(second.gaps) == 0
    second.close()


def test_a_new_log_with_the_inode_of_a_replaced_one_is_not_a_truncation(tmp_path: Path) -> None:
    """`cp log t; mv t log`, then a rotation by renaming: the freed inode often goes to the next log."""
    log = tmp_path / "log"
    append(log, "1\n")
    positions = positions_after(log)
    copy = tmp_path / "t"
    append(copy, "1\n2\n")
    copy.replace(log)
    log.rename(tmp_path / "log.1")
    let_file_clock_pass(tmp_path / "clock")
    append(log, "3\n")
    reused = [replace(each, inode=log.stat().st_ino) for each in positions]
    second = Tail(str(log), positions=reused)
    assert drain(second) == "2\n3\n"
    assert second.gaps == []
    second.close()


def test_a_log_that_was_copied_and_truncated_is_declared(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n")
    positions = positions_after(log)
    append(tmp_path / "log.1", "1\n2\n")
    log.write_text("3\n")
    second = Tail(str(log), positions=positions)
    assert drain(second) == "2\n3\n"
    assert [str(gap) for gap in second.gaps] == [
        f"{log}: lines may be lost: it was truncated or rewritten in place; all lines except those between "
        f"the copy and the truncation are in {log}.1"
    ]
    second.close()


@pytest.mark.parametrize("content", ["other\n", "1\n"])
def test_a_stored_offset_is_not_used_in_another_generation(tmp_path: Path, content: str) -> None:
    log = tmp_path / "log"
    append(log, "1\n2\n")
    positions = positions_after(log)
    log.write_text(content)
    second = Tail(str(log), positions=positions)
    assert drain(second) == content
    assert len(second.gaps) == 1
    second.close()


def test_a_stored_file_that_is_gone_is_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n")
    positions = positions_after(log)
    log.unlink()
    second = Tail(str(log), positions=positions)
    second.poll()
    assert len(second.gaps) == 1
    second.close()


def test_another_file_under_the_inode_of_a_stored_one_is_not_read(tmp_path: Path) -> None:
    log, other = tmp_path / "log", tmp_path / "notes.txt"
    append(log, "1\n")
    tail = Tail(str(log))
    drain(tail)
    (stored,) = tail.positions()
    tail.close()
    log.rename(other)
    other.write_text("not a log\n")
    append(log, "2\n")
    again = Tail(str(log), positions=[stored])
    assert drain(again) == "2\n"
    assert len(again.gaps) == 1
    again.close()
