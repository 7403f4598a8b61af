"""A worker whose frame log rots: what it read again counts once, and what may be lost is declared."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST, SOURCE_GAP
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.worker.recovered import Recovered, recover
from elfmesh.storage.framelog import FILE_NAME, FrameLog
from elfmesh.storage.frames import RevisedInterval, Sealed
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import FIRST_INDEX, Host, manifest, running, until
from tests.storage.rot.station import MANIFEST
from tests.storage.test_framelog import sealed

STAGES = (Stage(FIRST, MANIFEST, 1),)


def gaps(host: Host, job: Manifest) -> int:
    """How many losses the contributions of a job count, each interval in its newest contribution."""
    entries = {entry.interval: entry for sealed in host.sealed(job) for entry in sealed.parts[0]}
    return sum(entry.counts[SOURCE_GAP] for entry in entries.values() if entry.counts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


async def damaged(path: Path, storage: MemoryStorage, rot: str) -> Manifest:
    """A job that has sealed two intervals, whose frame log is damaged afterwards."""
    job = manifest()
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"), (13, "b"), (21, "a"))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 2)
    data = storage.files[FILE_NAME].data
    data[:] = bytes(data[:-1]) + bytes([data[-1] ^ 1]) if rot == "the last frame" else b"\xff" * len(data)
    return job


async def sealed_up_to(host: Host, job: Manifest, stop: int) -> None:
    await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == stop)


@pytest.mark.parametrize("rot", ["the last frame", "all of it"])
async def test_what_rot_takes_of_the_frame_log_is_one_source_gap_and_no_record_counts_twice(
    path: Path, rot: str
) -> None:
    """A job whose frames are all gone reads its file again, and says that more may be lost."""
    storage = MemoryStorage()
    job = await damaged(path, storage, rot)
    async with running(path, storage) as host:
        host.write((31, "z"))
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await sealed_up_to(host, job, FIRST_INDEX + 3)
        assert host.counts(job) == {
            (FIRST_INDEX, "a"): 1,
            (FIRST_INDEX + 1, "a"): 1,
            (FIRST_INDEX + 1, "b"): 1,
            (FIRST_INDEX + 2, "a"): 1,
        }
        assert gaps(host, job) == 1
    async with running(path, storage) as host:  # said once, also over the next restart
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await sealed_up_to(host, job, FIRST_INDEX + 3)
        assert gaps(host, job) == 1


@pytest.mark.parametrize("rot", ["the last frame", "all of it"])
async def test_a_job_that_is_begun_again_does_not_declare_the_same_damage_again(path: Path, rot: str) -> None:
    """A change of the version, or another roster, begins the worker again in the same life of the agent."""
    storage = MemoryStorage()
    job = await damaged(path, storage, rot)
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((31, "z"))
        await sealed_up_to(host, job, FIRST_INDEX + 3)
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: host.sealed(job)[-1].again)
        host.write((41, "z"))
        await sealed_up_to(host, job, FIRST_INDEX + 4)
        assert gaps(host, job) == 1


def log_of(frames: list[Sealed], damaged: int) -> MemoryStorage:
    """A frame log with a wrong bit in one of its frames, which was written whole."""
    storage, ends = MemoryStorage(), []
    log = FrameLog(storage)
    for frame in frames:
        log.append(msgspec.structs.replace(frame, positions=(), restart=()))
        ends.append(log.size)
    log.sync()
    storage.files[FILE_NAME].data[ends[damaged] - 1] ^= 1
    return storage


def damaged_end() -> MemoryStorage:
    return log_of([sealed("j", index) for index in range(3)], damaged=2)


def lost(found: Recovered) -> list[tuple[int | None, int]]:
    """What a job has lost according to its frames: (interval in which it counts, losses)."""
    assert found.last is not None
    return [(index, counts[SOURCE_GAP]) for index, _, counts in found.last.carried or ()]


def test_a_job_declares_a_gap_where_the_end_of_the_frame_log_was_damaged() -> None:
    found = recover(FrameLog(damaged_end()), "j", 0, STAGES, 1)
    assert lost(found) == [(2, 1)]
    assert "damaged" in found.lost[0]


def test_a_job_that_begins_again_goes_on_with_the_gap_that_it_has_declared() -> None:
    log = FrameLog(damaged_end())
    (declared,) = recover(log, "j", 0, STAGES, 1).frames
    log.append(declared)
    again = recover(log, "j", 0, STAGES, 1)
    assert (lost(again), again.frames, again.lost) == ([(2, 1)], [], ())
    log.append(sealed("j", 2))
    assert lost(recover(log, "j", 0, STAGES, 1)) == []


def test_a_crash_before_the_next_contribution_does_not_forget_the_damage() -> None:
    storage = damaged_end()
    log = FrameLog(storage)
    for frame in recover(log, "j", 0, STAGES, 1).frames:
        log.append(frame)
    log.sync()
    storage.crash()
    again = FrameLog(storage)
    assert (again.recovery.rotten, lost(recover(again, "j", 0, STAGES, 1))) == (False, [(2, 1)])
    assert [frame.stop for frame in again.unreleased("j")] == [1, 2, 2]


def test_a_gap_of_a_member_whose_frames_are_all_annulled_is_in_no_interval_before_the_log() -> None:
    """A record of the interval FIRST has times that no message can hold, which ended the master's agent."""
    stages = (Stage(FIRST, msgspec.structs.replace(MANIFEST, version=2), 2),)
    founding = msgspec.structs.replace(sealed("j", 0), start=FIRST)
    log = FrameLog(log_of([founding, sealed("j", 1), sealed("j", 2)], damaged=2))
    found = recover(log, "j", FIRST, stages, 1)
    assert (found.last and found.last.stop, lost(found)) == (FIRST, [(None, 1)])


def test_a_version_that_annuls_contributions_of_a_damaged_log_declares_the_gap_in_the_same_frame() -> None:
    stages = (*STAGES, Stage(1, msgspec.structs.replace(MANIFEST, version=2), 2))
    found = recover(FrameLog(damaged_end()), "j", 0, stages, 1)
    assert found.last is not None
    assert (found.last.annuls, found.last.stop) == (1, 1)
    assert found.frames == [found.last]
    assert lost(found) == [(1, 1)]


def test_a_revision_that_damage_took_is_declared_once_in_a_boot_of_the_agent() -> None:
    frames = [sealed("j", 0)]
    for seq in (1, 2):
        revised = [RevisedInterval(0, seq + 1, [1], [b"late"], [1], seq, 1)]
        frames.append(msgspec.structs.replace(sealed("j", seq), revised=revised, seq=seq))
    log = FrameLog(log_of(frames, damaged=1))
    assert log.recovery.torn == {"j": 1}
    (declared,) = recover(log, "j", 0, STAGES, 1).frames
    log.append(declared)
    assert lost(recover(log, "j", 0, STAGES, 1)) == [(3, 1)]
