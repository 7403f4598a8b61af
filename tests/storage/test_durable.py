"""Votes and records of many jobs made durable by one sync: what a power cut takes from logs is put back."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pytest

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.protocol.events import Append, Persist, ReadLog
from elfmesh.errors import DiskFull, StorageError
from elfmesh.storage import durable as durable_module
from elfmesh.storage.durable import RECORD, Durable, Write
from elfmesh.storage.failpoints import armed
from elfmesh.storage.results import logs as resultslogs
from elfmesh.storage.results.journal import pack
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.statelog import NAME, StateLog
from elfmesh.storage.storage import DiskStorage
from tests.storage.results.records import record, rows

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
            if path.is_file() and not path.name.startswith("meta"):
                safe = min(self.synced.get(status.st_ino, 0), status.st_size)
                left = rng.choice([safe, rng.randint(safe, status.st_size), status.st_size])
                garbage = rng.choice([b"", rng.randbytes(min(9, status.st_size - left))])
                with path.open("r+b") as file:
                    file.truncate(left)
                    file.seek(0, os.SEEK_END)
                    file.write(garbage)


class Disk:
    """What one life of an agent has open."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.storage = directory, DiskStorage(directory)
        self.state = StateLog(self.storage)
        self.logs = ResultsLogs(directory / "results")
        self.durable = Durable(self.state, self.logs)

    def again(self) -> Disk:
        """The next boot; this one was killed."""
        self.storage.close()
        return Disk(self.directory)

    def held(self, job: bytes) -> list[int]:
        read = self.logs.read(ReadLog(1, job, None, None, 1000))
        assert not read.error
        return [each.index for each, _ in decode_page(read.page)]

    def votes(self) -> dict[bytes, bytes]:
        return {key: data for kind, key, data in self.state.items() if kind == "vote"}


def added(job: bytes, index: int, incarnation: str = "a") -> Append:
    return Append(job, incarnation, record(index), rows(index))


def closing(index: int, *jobs: bytes) -> list[Write]:
    """A vote for an interval of each job and then its record."""
    return [each for job in jobs for each in (Persist("vote", job, b"%d" % index), added(job, index))]


@pytest.mark.parametrize("seed", range(40))
def test_what_was_written_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng, power = random.Random(seed), Power(tmp_path, monkeypatch)
    assert ResultsLog.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(ResultsLog.__init__.__kwdefaults__, "segment_records", 7)
    monkeypatch.setattr(resultslogs, "LOGS_OPEN_MAX", rng.choice([1, 3, 256]))
    monkeypatch.setattr(durable_module, "RECORDS_BYTES_MAX", rng.choice([1, 3000, 1 << 20]))
    expected: dict[bytes, list[int]] = {job: [] for job in JOBS}
    votes: dict[bytes, bytes] = {}
    index = 0
    disk = Disk(tmp_path)
    for _ in range(4):
        disk = disk.again()
        assert {job: disk.held(job) for job in JOBS} == expected
        assert disk.votes() == votes
        for _ in range(rng.randrange(12)):
            batch: list[Write] = []
            for job in JOBS:
                for _ in range(rng.choice([0, 0, 1, 3])):
                    index += 1
                    some = closing(index, job)[rng.choice([0, 0, 1]) :]
                    batch += some
                    expected[job].append(index)
                    votes |= {each.key: each.data for each in some if isinstance(each, Persist)}
            if batch:
                disk.durable.write(batch)
                assert not batch
        power.cut(rng)
    disk = disk.again()
    assert {job: disk.held(job) for job in JOBS} == expected
    assert disk.votes() == votes


def test_without_putting_back_a_power_cut_takes_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(tmp_path, monkeypatch)
    disk = Disk(tmp_path)
    disk.durable.write(closing(1, *JOBS))
    power.cut(random.Random(0))
    monkeypatch.setattr(ResultsLogs, "put_back", lambda self, prepared: None)
    disk = disk.again()
    assert not all(disk.held(job) for job in JOBS)
    assert len(disk.votes()) == len(JOBS)


def test_whatever_comes_together_takes_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    disk.durable.write(closing(1, *JOBS))
    power = Power(tmp_path, monkeypatch)
    for index in range(2, 12, 2):
        disk.durable.write([*closing(index, *JOBS), *closing(index + 1, *JOBS)])
    assert power.syncs == 5
    disk.durable.write([added(JOBS[0], 20)])  # and the name of its file
    assert power.syncs == 7
    disk.durable.write([added(JOBS[0], 21)])
    disk.durable.write([Persist("vote", JOBS[0], b"v")])
    assert power.syncs == 9


@pytest.mark.parametrize(
    "place", ["persist", "storage.append", "storage.sync", "persisted", "results.append"]
)
def test_no_record_is_seen_before_the_votes_that_came_with_it_are_durable(tmp_path: Path, place: str) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    disk = Disk(tmp_path)
    disk.durable.write(closing(1, *JOBS))
    with armed(place, kill), pytest.raises(Killed):
        disk.durable.write(closing(2, *JOBS))
    seen = [disk.held(job) for job in JOBS]
    assert seen == [[1]] * len(JOBS)
    again = disk.again()
    survived = b"1" if place in ("persist", "storage.append") else b"2"
    assert again.votes() == dict.fromkeys(JOBS, survived)
    assert [again.held(job) for job in JOBS] == [[1] if survived == b"1" else [1, 2]] * len(JOBS)


def test_where_a_log_has_no_room_votes_are_kept_and_records_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    disk.durable.write(closing(1, *JOBS))
    left = closing(2, *JOBS)
    with monkeypatch.context() as patch:

        def full(self: ResultsLogs, effects: list[Append]) -> None:
            raise DiskFull("full")

        patch.setattr(ResultsLogs, "write", full)
        with pytest.raises(DiskFull):
            disk.durable.write(left)
        assert left == [each for each in closing(2, *JOBS) if isinstance(each, Append)]
        with pytest.raises(DiskFull):
            disk.durable.write(left)
    assert disk.votes() == dict.fromkeys(JOBS, b"2")
    disk.durable.write(left)
    assert [disk.held(job) for job in JOBS] == [[1, 2]] * len(JOBS)


def test_a_dropped_log_is_not_put_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.durable.write(closing(1, *JOBS))
    disk.logs.drop(JOBS[0])
    again = disk.again()
    assert again.held(JOBS[0]) == []
    assert {info.job for info in again.logs.found()} == set(JOBS[1:])


def test_a_later_incarnation_is_not_overwritten_by_an_earlier_one(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.durable.write(closing(9, *JOBS))
    disk.durable.write([added(JOBS[0], 3, "b")])
    assert [(info.job, info.incarnation, info.latest) for info in disk.again().logs.found()] == [
        (JOBS[0], "b", 3),
        *((job, "a", 9) for job in JOBS[1:]),
    ]


def test_the_first_records_of_a_new_incarnation_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(tmp_path, monkeypatch)
    disk = Disk(tmp_path)
    disk.durable.write(closing(9, *JOBS))
    disk.durable.write([*closing(9, JOBS[1]), added(JOBS[0], 3, "b"), added(JOBS[0], 4, "b")])
    power.cut(random.Random(3))
    found = disk.again().logs.found()
    assert [(info.incarnation, info.latest) for info in found] == [("b", 4), *[("a", 9)] * 3]


def test_the_state_log_does_not_grow_with_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_module, "RECORDS_BYTES_MAX", 20_000)
    disk = Disk(tmp_path)
    most = 0
    for index in range(0, 1200, 12):
        disk.durable.write([each for at in range(12) for each in closing(index + at, *JOBS)])
        most = max(most, (tmp_path / NAME).stat().st_size)
    assert (1 << 20) < most < (1 << 20) + 100_000
    assert sum(len(data) for kind, _, data in disk.state.items() if kind == RECORD) < 30_000
    assert [disk.logs.found()[0].latest] == [1199]


def test_a_record_that_is_damaged_in_its_place_is_reported(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.state.apply([Persist(RECORD, b"\0" * 28, b"\xc1")])
    with pytest.raises(StorageError, match="cannot put back results"):
        disk.again()


@pytest.mark.parametrize("torn", [False, True])
def test_the_journal_of_an_earlier_release_is_taken_over(tmp_path: Path, torn: bool) -> None:
    disk = Disk(tmp_path)
    disk.durable.write(closing(1, *JOBS))
    lost = [pack(added(JOBS[0], 2)), pack(added(JOBS[0], 3)), pack(added(JOBS[1], 2))]
    data = b"".join(len(each).to_bytes(4) + zlib.crc32(each).to_bytes(4) + each for each in lost)
    (tmp_path / "results" / "journal").write_bytes(data[:-5] + bytes(5) if torn else data)
    again = disk.again()
    assert [again.held(job) for job in JOBS] == [[1, 2, 3], [1] if torn else [1, 2], [1], [1]]
    assert not (tmp_path / "results" / "journal").exists()
