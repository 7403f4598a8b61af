"""A log's name passes from file to file: copies go on, and what may have been in between is a gap."""

from __future__ import annotations

import gzip
import logging
import shutil
from pathlib import Path

import pytest

from elfmesh.ingest.sources import Tail, birth, succession
from elfmesh.ingest.sources.tail import GRACE_S
from tests.ingest.sources.tails import Clock, append, drain


def lines(first: int, last: int) -> str:
    return "".join(
        f"line {number} of a log whose lines are all of them different\n" for number in range(first, last)
    )


def follow(pattern: Path) -> tuple[Tail, Clock]:
    clock = Clock()
    return Tail(str(pattern), clock=clock), clock


def later(tail: Tail, clock: Clock) -> str:
    """What is read once a copy is taken for one."""
    found = drain(tail)
    clock.now += GRACE_S
    return found + drain(tail)


def test_a_copy_without_what_was_written_after_it_was_made_loses_and_doubles_nothing(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "t"
    append(log, lines(0, 40))
    tail, clock = follow(log)
    drain(tail)
    shutil.copy(log, copy)
    append(log, lines(40, 42))
    assert drain(tail) == lines(40, 42)
    append(log, lines(42, 43))
    copy.replace(log)
    append(log, lines(43, 45))
    assert later(tail, clock) == lines(42, 45)
    assert tail.gaps == []
    tail.close()


def test_lines_still_written_to_the_replaced_file_are_read(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "t"
    append(log, lines(0, 40))
    tail, clock = follow(log)
    drain(tail)
    with log.open("a") as writer:
        shutil.copy(log, copy)
        copy.replace(log)
        assert drain(tail) == ""
        assert not tail.at_end
        writer.write(lines(40, 42))
    assert later(tail, clock) == lines(40, 42)
    append(log, lines(42, 44))
    assert later(tail, clock) == lines(42, 44)
    assert tail.gaps == []
    tail.close()


def test_a_copy_that_is_replaced_by_another_before_it_was_read_is_no_gap(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "t"
    append(log, lines(0, 40))
    tail, clock = follow(log)
    drain(tail)
    for number in range(40, 43):
        shutil.copy(log, copy)
        copy.replace(log)
        append(log, lines(number, number + 1))
        assert drain(tail) == ""
    assert later(tail, clock) == lines(40, 43)
    assert tail.gaps == []
    tail.close()


def test_a_copy_that_is_rotated_before_it_was_read_goes_on_all_the_same(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "t"
    append(log, lines(0, 40))
    tail, clock = follow(log)
    drain(tail)
    shutil.copy(log, copy)
    copy.replace(log)
    append(log, lines(40, 41))
    drain(tail)
    log.rename(tmp_path / "log.1")
    append(log, lines(41, 42))
    assert sorted(later(tail, clock).splitlines()) == lines(40, 42).splitlines()
    assert tail.gaps == []
    tail.close()


def test_an_edit_below_the_first_kilobyte_is_read_from_there_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, copy = tmp_path / "log", tmp_path / "t"
    append(log, lines(0, 60))
    tail, clock = follow(log)
    drain(tail)
    copy.write_text(log.read_text().replace("line 50 of", "line 50, of"))
    copy.replace(log)
    with caplog.at_level(logging.WARNING, "elf.worker"):
        assert later(tail, clock) == lines(50, 60).replace("line 50 of", "line 50, of")
    (record,) = (each for each in caplog.records if each.name == "elf.worker")
    assert f"{log}: it was replaced by a changed copy of itself" in record.getMessage()
    assert f"from the line at byte {len(lines(0, 50)) + len('line 50')} on" in record.getMessage()
    tail.close()


def test_a_changed_beginning_is_read_again_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, copy = tmp_path / "log", tmp_path / "t"
    append(log, lines(0, 40))
    tail, clock = follow(log)
    drain(tail)
    copy.write_text(lines(1, 40))
    copy.replace(log)
    with caplog.at_level(logging.WARNING, "elf.worker"):
        assert later(tail, clock) == lines(1, 40)
    (record,) = (each for each in caplog.records if each.name == "elf.worker")
    assert "from the line at byte 0 on" in record.getMessage()
    assert tail.gaps == []
    tail.close()


def test_a_file_that_waits_and_is_deleted_is_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n")
    tail, clock = follow(log)
    drain(tail)
    log.rename(tmp_path / "log.1")
    packed = tmp_path / "log.2.gz"
    with gzip.open(packed, "wb") as file:
        file.write(b"0\n")
    append(log, "2\n")
    assert drain(tail) == "2\n"
    assert [state.at_end for state in tail.sources()].count(False) == 1
    packed.unlink()
    clock.now += 10
    assert drain(tail) == ""
    (gap,) = tail.gaps
    assert (gap.path, gap.why) == (str(packed), "it was deleted before it could be read")
    assert tail.at_end
    tail.close()


def test_where_no_time_of_birth_is_known_a_chain_is_not_taken_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(birth, "_LIBC", None)
    log = tmp_path / "log"
    append(log, lines(0, 3))
    tail, clock = follow(log)
    drain(tail)
    for _ in range(2):
        log.rename(tmp_path / "log.1")
        append(log, lines(3, 4))
    assert later(tail, clock) == lines(3, 4) * 2
    (gap,) = tail.gaps
    assert (gap.path, gap.why) == (str(log), succession.UNSEEN)
    tail.close()


def test_a_closed_file_whose_name_has_passed_on_when_it_is_gone_is_a_gap(tmp_path: Path) -> None:
    clock = Clock()
    tail = Tail(str(tmp_path / "*.log"), clock=clock, files_max=1)
    one, other = tmp_path / "1.log", tmp_path / "2.log"
    append(one, lines(0, 2))
    assert drain(tail) == lines(0, 2)
    append(other, lines(2, 3))
    assert drain(tail) == lines(2, 3)
    (tmp_path / "elsewhere").mkdir()
    one.rename(tmp_path / "elsewhere" / "1")
    append(one, lines(3, 4))
    assert drain(tail) == lines(3, 4)
    (gap,) = tail.gaps
    assert (gap.path, gap.why) == (str(one), succession.UNSEEN)
    tail.close()


@pytest.mark.parametrize("content", ["", lines(0, 1)])
def test_a_file_that_is_compressed_before_it_was_read_is_no_gap(tmp_path: Path, content: str) -> None:
    log = tmp_path / "log"
    log.touch()
    tail, clock = follow(log)
    tail.discover()
    append(log, content)
    log.rename(tmp_path / "log.1")
    with gzip.open(tmp_path / "log.1.gz", "wb") as file:
        file.write(content.encode())
    (tmp_path / "log.1").unlink()
    append(log, lines(1, 2))
    assert later(tail, clock) == lines(0 if content else 1, 2)
    assert tail.gaps == []
    tail.close()
