"""Records of many jobs made durable by one sync: what a power cut takes from logs, the journal puts back."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from elfmesh.control.events import Append, ReadLog
from elfmesh.control.results import journal as resultsjournal
from elfmesh.control.results import logs as resultslogs
from elfmesh.control.results.journal import Entry, Journal
from elfmesh.control.results.log import ResultsLog
from elfmesh.control.results.logs import ResultsLogs
from elfmesh.control.results.pages import decode_page, encode_frame
from tests.control.test_resultslog import record, rows

JOBS = tuple(bytes([number]) * 20 for number in range(4))


class Power:
    """Knows what of each file was synced, and takes the rest away, or some of it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.synced = directory, dict[int, int]()
        self.syncs = 0
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._sync)

    def _sync(self, fd: int) -> None:
        status = os.fstat(fd)
        self.synced[status.st_ino] = status.st_size
        self.syncs += 1

    def cut(self, rng: random.Random) -> None:
        for path in sorted(self.directory.rglob("*")):
            status = path.stat()
            if path.is_file() and path.name != "meta":
                safe = min(self.synced.get(status.st_ino, 0), status.st_size)
                left = rng.choice([safe, rng.randint(safe, status.st_size), status.st_size])
                garbage = rng.choice([b"", rng.randbytes(min(9, status.st_size - left))])
                with path.open("r+b") as file:
                    file.truncate(left)
                    file.seek(0, os.SEEK_END)
                    file.write(garbage)


def held(logs: ResultsLogs, job: bytes) -> list[int]:
    read = logs.read(ReadLog(1, job, None, None, 1000))
    assert not read.error
    return [each.index for each, _ in decode_page(read.page)]


def append(logs: ResultsLogs, index: int, jobs: tuple[bytes, ...], incarnation: str = "a") -> None:
    logs.append(*(Append(job, incarnation, record(index), rows(index)) for job in jobs))


@pytest.mark.parametrize("seed", range(40))
def test_what_was_appended_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng, power = random.Random(seed), Power(tmp_path, monkeypatch)
    assert ResultsLog.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(ResultsLog.__init__.__kwdefaults__, "segment_records", 7)
    monkeypatch.setattr(resultslogs, "LOGS_OPEN_MAX", rng.choice([1, 3, 256]))
    expected: dict[bytes, list[int]] = {job: [] for job in JOBS}
    index = 0
    for _ in range(4):
        logs = ResultsLogs(tmp_path, journal_bytes_max=rng.choice([1, 3000, 1 << 20]))
        assert {job: held(logs, job) for job in JOBS} == expected
        for _ in range(rng.randrange(12)):
            index += 1
            some = tuple(job for job in JOBS if rng.random() < 0.6)
            if not some:
                continue
            append(logs, index, some)
            for job in some:
                expected[job].append(index)
        power.cut(rng)
    assert {job: held(ResultsLogs(tmp_path), job) for job in JOBS} == expected


def test_without_the_journal_a_power_cut_takes_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(tmp_path, monkeypatch)
    monkeypatch.setattr(Journal, "append", lambda self, entries: None)
    append(ResultsLogs(tmp_path), 1, JOBS)
    power.cut(random.Random(0))
    assert not all(held(ResultsLogs(tmp_path), job) for job in JOBS)


def test_many_records_take_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = ResultsLogs(tmp_path)
    append(logs, 1, JOBS)
    power = Power(tmp_path, monkeypatch)
    for index in range(2, 12):
        append(logs, index, JOBS)
    assert power.syncs == 10


def test_a_dropped_log_is_not_put_back(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    append(logs, 1, JOBS)
    logs.drop(JOBS[0])
    again = ResultsLogs(tmp_path)
    assert held(again, JOBS[0]) == []
    assert {info.job for info in again.found()} == set(JOBS[1:])


def test_a_later_incarnation_is_not_overwritten_by_an_earlier_one(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path)
    append(logs, 9, JOBS, "a")
    append(logs, 3, JOBS[:1], "b")
    again = ResultsLogs(tmp_path)
    assert [(info.job, info.incarnation, info.latest) for info in again.found()] == [
        (JOBS[0], "b", 3),
        *((job, "a", 9) for job in JOBS[1:]),
    ]


def test_a_journal_is_emptied_when_it_is_long(tmp_path: Path) -> None:
    logs = ResultsLogs(tmp_path, journal_bytes_max=5000)
    sizes = []
    for index in range(60):
        append(logs, index, JOBS)
        sizes.append((tmp_path / resultsjournal.FILE_NAME).stat().st_size)
    assert max(sizes) <= 5000
    assert 0 in sizes
    assert [held(logs, job) for job in JOBS] == [list(range(60))] * len(JOBS)


@pytest.mark.parametrize("place", range(0, 120, 7))
def test_a_torn_entry_and_all_behind_it_are_cut_off(tmp_path: Path, place: int) -> None:
    path = tmp_path / "journal"
    frame = encode_frame(record(4), rows(1))
    journal = Journal(path)
    journal.append([Entry(JOBS[0], "a", frame), Entry(JOBS[1], "a", frame), Entry(JOBS[2], "a", frame)])
    whole = path.read_bytes()
    size = len(whole) // 3
    broken = bytearray(whole)
    broken[size + place] ^= 0xFF
    path.write_bytes(broken)
    again = Journal(path)
    assert [entry.job for entry in again.entries()] == [JOBS[0]]
    assert path.read_bytes() == whole[:size]
    again.append([Entry(JOBS[3], "b", frame)])
    assert [(entry.job, entry.result()[0].index) for entry in Journal(path).entries()] == [
        (JOBS[0], 4),
        (JOBS[3], 4),
    ]
