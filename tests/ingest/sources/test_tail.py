from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from elfmesh.ingest.sources import Tail
from tests.ingest.sources.tails import Clock, append, drain, positions_after, text


def test_only_finished_lines_are_records(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "a\nb")
    tail = Tail(str(log))
    assert text(tail.poll()) == "a\n"
    assert tail.at_end
    append(log, "c\nd\n")
    (block,) = tail.poll()
    assert block.data == b"bc\nd\n"
    assert block.position is not None
    assert (block.position.offset, block.end) == (2, 7)
    tail.close()


def test_a_glob_finds_new_files_and_keeps_renamed_ones(tmp_path: Path) -> None:
    tail = Tail(str(tmp_path / "log*"))
    assert tail.poll() == []
    append(tmp_path / "log", "1\n")
    assert drain(tail) == "1\n"
    (tmp_path / "log").rename(tmp_path / "log.1")
    append(tmp_path / "log", "2\n")
    assert drain(tail) == "2\n"
    tail.close()


def test_a_deleted_file_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n")
    tail = Tail(str(log), grace_s=0)
    tail.discover()
    append(log, "2\n")
    log.unlink()
    assert drain(tail) == "1\n2\n"
    tail.poll()
    assert tail.sources() == []
    assert "No such file" in tail.problems[str(log)]
    tail.close()


def test_a_truncated_file_is_read_from_its_start_and_counted_as_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "old 1\nold 2\n")
    tail = Tail(str(log))
    drain(tail)
    log.write_text("new\n")
    assert drain(tail) == "new\n"
    assert len(tail.gaps) == 1
    log.write_text("another beginning and longer than before\n")
    assert drain(tail) == "another beginning and longer than before\n"
    assert len(tail.gaps) == 2
    tail.close()


def test_reading_resumes_at_stored_positions(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n2\n")
    positions = positions_after(log)
    append(log, "3\n")
    second = Tail(str(log), positions=positions)
    assert drain(second) == "3\n"
    assert len(second.gaps) == 0
    second.close()


def test_what_is_no_regular_file_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    append(tmp_path / "real.log", "1\n")
    tail = Tail(str(tmp_path / "*.log"))
    assert drain(tail) == "1\n"
    assert tail.problems == {str(tmp_path / "pipe.log"): "not a regular file"}
    assert tail.at_end
    tail.close()


def test_a_file_that_cannot_be_read_any_more_is_a_problem_not_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    append(log, "1\n")
    tail = Tail(str(log))
    assert drain(tail) == "1\n"
    append(log, "2\n")

    def broken(fd: int, length: int, offset: int) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", broken)
        assert drain(tail) == ""
        assert tail.problems == {str(log): "Input/output error"}
        assert not tail.at_end
    assert drain(tail) == "2\n"
    tail.close()


def test_reading_from_the_end_skips_what_was_there_but_not_later_files(tmp_path: Path) -> None:
    append(tmp_path / "log.a", "old\nhalf")
    tail = Tail(str(tmp_path / "log*"), read_from="end")
    assert drain(tail) == ""
    append(tmp_path / "log.a", " a line\n")
    append(tmp_path / "log.b", "new\n")
    assert drain(tail) == "half a line\nnew\n"
    tail.close()


def test_compressed_files_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log.1.gz").write_bytes(b"\x1f\x8b" + b"x" * 50)
    tail = Tail(str(tmp_path / "log*"))
    assert tail.poll() == []
    assert tail.poll() == []
    assert tail.problems == {str(tmp_path / "log.1.gz"): "compressed files are not followed"}
    tail.close()


def test_no_block_crosses_a_boundary_or_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "1\n2\n3\n4\n")
    first = Tail(str(log))
    first.discover()
    (start,) = first.positions()
    first.close()
    tail = Tail(str(log), boundaries=[start.at(4)])
    assert [block.data for block in tail.poll(limits={start.key: 6})] == [b"1\n2\n", b"3\n"]
    assert [state.at_end for state in tail.sources()] == [False]
    assert text(tail.poll()) == "4\n"
    assert [state.at_end for state in tail.sources()] == [True]
    tail.close()


def test_an_overlong_line_is_counted_once_and_memory_stays_small(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(str(log), line_bytes_max=100, block_bytes=64)
    append(log, "a\n" + "x" * 1000)
    blocks = tail.poll()
    append(log, "x" * 1000 + "\nb\n")
    blocks += tail.poll()
    assert text(blocks) == "a\nb\n"
    assert sum(block.overlong for block in blocks) == 1
    (position,) = tail.positions()
    assert position.offset == log.stat().st_size
    tail.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "a\n")
    log.chmod(0)
    tail = Tail(str(log))
    assert tail.poll() == []
    assert tail.problems == {str(log): "Permission denied"}
    log.chmod(0o600)
    assert drain(tail) == "a\n"
    tail.close()


class Rotation(RuleBasedStateMachine):
    """Writes, rotations, compression and restarts in any order lose and double no line."""

    def __init__(self) -> None:
        super().__init__()
        self.room = tempfile.TemporaryDirectory()
        self.log = Path(self.room.name) / "log"
        self.log.touch()
        self.written = 0
        self.rotations = 0
        self.read: list[str] = []
        self.clock = Clock()
        self.tail = Tail(str(self.log), block_bytes=16, clock=self.clock)
        self.tail.discover()

    @rule(count=st.integers(1, 5), finished=st.booleans())
    def write(self, count: int, finished: bool) -> None:
        for _ in range(count):
            append(self.log, f"line {self.written}\n")
            self.written += 1
        if not finished:
            append(self.log, "line ")
            append(self.log, f"{self.written}\n")
            self.written += 1

    @rule()
    def rotate(self) -> None:
        self.rotations += 1
        self.log.rename(self.log.with_name(f"log.{self.rotations}"))
        self.log.touch()

    @rule(amount=st.integers(1, 60))
    def poll(self, amount: int) -> None:
        self.read += text(self.tail.poll(amount)).splitlines()

    @rule()
    def restart(self) -> None:
        self.tail.discover()
        stored = (*self.tail.positions(), *self.tail.known())
        self.tail.close()
        self.tail = Tail(str(self.log), block_bytes=16, positions=stored, clock=self.clock)
        self.tail.discover()

    @rule(which=st.integers(1, 9))
    def compress(self, which: int) -> None:
        plain = self.log.with_name(f"log.{which}")
        if plain.exists() and plain.stat().st_size:
            with gzip.open(f"{plain}.gz", "wb") as target:
                target.write(plain.read_bytes())
            os.link(plain, self.log.with_name(f"kept-{self.rotations}-{which}"))  # its inode stays its own
            plain.unlink()

    @rule(seconds=st.sampled_from([0.5, 2, 20]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def lines_come_once(self) -> None:
        assert len(self.read) == len(set(self.read))

    def teardown(self) -> None:
        try:
            for _ in range(3):
                self.clock.now += 2
                self.read += drain(self.tail).splitlines()
            assert sorted(self.read) == sorted(f"line {n}" for n in range(self.written))
            assert self.tail.gaps == []
        finally:
            self.tail.close()
            self.room.cleanup()


Rotation.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestRotation = Rotation.TestCase
