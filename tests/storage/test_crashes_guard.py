"""A job that gets the process killed at one place again and again is held; the other jobs go on."""

from __future__ import annotations

import errno
import json
import logging
import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.storage.crashes import DEATHS_FILE, EVALUATING_FILE, HOLD_S, CrashGuard


class Host:
    """A data directory whose process dies."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.now_s = directory, 1e9
        self.never_left: list[AbstractContextManager[None]] = []

    def start(self) -> CrashGuard:
        return CrashGuard(self.directory, lambda: self.now_s)

    def die(self, job: str, place: str) -> None:
        """Start, and be killed while the job is evaluated."""
        self.enter(self.start(), job, place)

    def enter(self, guard: CrashGuard, job: str, place: str) -> None:
        """Begin to evaluate, and never end."""
        block = guard.evaluating(job, place)
        block.__enter__()
        self.never_left.append(block)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_one_death_holds_nothing(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.die("shop/top", "byte 0 of a.log")
    with caplog.at_level(logging.WARNING):
        host.start().check("shop/top")
    assert "killed while job shop/top was evaluated at byte 0 of a.log (1 times)" in caplog.text
    assert host.start().held == {}


def test_two_deaths_at_one_place_hold_the_job_and_no_other(host: Host) -> None:
    for _ in range(2):
        host.die("shop/top", "byte 0 of a.log")
    guard = host.start()
    with pytest.raises(RuntimeFailure, match=r"killed 2 times while .* at byte 0 of a\.log"):
        guard.check("shop/top")
    guard.check("shop/other")
    with pytest.raises(RuntimeFailure):  # and so it stays over orderly restarts
        host.start().check("shop/top")


def test_deaths_at_different_places_are_no_fault_of_the_job(host: Host) -> None:
    for offset in range(5):
        host.die("shop/top", f"byte {offset} of a.log")
    host.start().check("shop/top")


def test_the_hold_ends(host: Host) -> None:
    for _ in range(2):
        host.die("shop/top", "here")
    host.start()
    host.now_s += HOLD_S
    host.start().check("shop/top")
    host.die("shop/top", "here")
    with pytest.raises(RuntimeFailure, match="3 times"):
        host.start().check("shop/top")


def test_what_was_evaluated_and_done_is_no_death(host: Host) -> None:
    for _ in range(3):
        guard = host.start()
        with guard.evaluating("shop/top", "here"), guard.evaluating("shop/other", "there"):
            pass
    guard.check("shop/top")
    assert not (host.directory / DEATHS_FILE).exists()


def test_a_process_that_was_asked_to_stop_does_not_die_of_a_job(host: Host) -> None:
    for _ in range(3):
        guard = host.start()
        host.enter(guard, "shop/top", "here")
        guard.stop()
        host.enter(guard, "shop/top", "here")
    host.start().check("shop/top")


@pytest.mark.parametrize("rot", [b"", b"\x01" * 65536, b"\xff" * 1000, b"\x01[1,2]"])
def test_damage_of_either_file_holds_nothing(host: Host, rot: bytes) -> None:
    host.die("shop/top", "here")
    (host.directory / EVALUATING_FILE).write_bytes(rot)
    (host.directory / DEATHS_FILE).write_bytes(rot)
    host.start().check("shop/top")


@pytest.mark.parametrize(
    ("job", "place"),
    [
        ("shop/top", "byte 0 of /" + "x" * 4_000),
        ("shop/" + "j" * 10_000, "here"),
        ("shop/" + "\x01" * 600, "\x01" * 600),
        ("shop/" + "\u00e4" * 600, "\U0001f600" * 600),
    ],
    ids=["a long path", "a long name", "escaped", "not ascii"],
)
def test_deaths_at_very_long_names_count(host: Host, job: str, place: str) -> None:
    host.die(job, place + "1")
    host.die(job, place + "2")
    host.start().check(job)  # two places
    host.die(job, place + "2")
    guard = host.start()
    with pytest.raises(RuntimeFailure, match="killed 2 times"):
        guard.check(job)
    guard.check(job + "k")  # another job, whose name begins alike


def test_the_deaths_are_readable_by_people(host: Host) -> None:
    host.die("shop/top", "here")
    host.start()
    assert json.loads((host.directory / DEATHS_FILE).read_bytes())["shop/top"]["count"] == 1


def test_a_full_disk_costs_the_memory_of_deaths_and_not_the_process(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with caplog.at_level(logging.WARNING):
        guard = host.start()
    assert "evaluating cannot be written" in caplog.text
    with guard.evaluating("shop/top", "here"):
        guard.check("shop/top")


def test_the_blocks_of_the_mapped_file_are_on_the_disk(host: Host) -> None:
    host.start()
    found = (host.directory / EVALUATING_FILE).stat()
    assert found.st_blocks * 512 >= found.st_size > 0


def test_a_held_job_is_reported_with_its_reason_until_the_hold_ends(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        host.die("shop/top", "here")
    with caplog.at_level(logging.ERROR):
        guard = host.start()
    assert (
        "killed while job shop/top was evaluated at here (2 times), it is not tried again now" in caplog.text
    )
    (reported,) = guard.held.items()
    assert reported[0] == "shop/top"
    assert (
        "killed 2 times while job shop/top was evaluated at here; the last time at 2001-09-09T01:46:40Z"
        in reported[1]
    )
    host.now_s += HOLD_S
    assert guard.held == {}


def test_two_intervals_that_were_made_at_once_are_each_counted(host: Host) -> None:
    for _ in range(2):
        guard = host.start()
        for interval in (5, 6):
            block = guard.making("the rows of shop/top", interval)
            block.__enter__()
            host.never_left.append(block)
    guard = host.start()
    for interval in (5, 6):
        with (
            pytest.raises(RuntimeFailure, match=f"interval {interval} were made"),
            guard.making("the rows of shop/top", interval),
        ):
            pass
    with guard.making("the rows of shop/top", 7), guard.making("the rows of shop/top", 56):
        guard.check("shop/top")
