"""What is closed is said to the frame log with the next frames, or soon, and never costs one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.read_loop import (
    POLL_BUSY_S,
    POLL_FEW_BYTES,
    POLL_FEW_S,
    POLL_MAX_S,
    pause_max_s,
    silent_max_s,
)
from elfmesh.ingest.worker.releases import Releases
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released, Sealed, SealedInterval
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import FIRST_INDEX, Host, until


def sealed(job: str, interval: int) -> Sealed:
    return Sealed(job, 1, interval, interval + 1, [SealedInterval(interval, [1], [b"x"])])


def test_the_newest_release_of_each_job_is_written_once() -> None:
    frames = FrameLog(MemoryStorage())
    releases = Releases(frames)
    for job in ("a", "b"):
        for interval in range(3):
            frames.append(sealed(job, interval))
    assert [releases.add(Released("a", 1)), releases.add(Released("a", 2, 7))] == [True, False]
    before = frames.size
    releases.write()
    one = frames.size - before
    assert (frames.released("a"), frames.received("a"), frames.released("b")) == (2, 7, None)
    assert releases.add(Released("b", 3))
    releases.tell()
    assert frames.size - before < 3 * one
    releases.write()
    assert [each.start for each in frames.unreleased("a")] == [2]


def test_a_full_disk_takes_no_release_and_the_next_one_will_do() -> None:
    storage = MemoryStorage()
    frames = FrameLog(storage)
    frames.append(sealed("a", 0))
    releases = Releases(frames)
    (file,) = storage.files.values()
    file.room = frames.size
    releases.add(Released("a", 1))
    releases.write()
    assert frames.released("a") is None
    file.room = None
    releases.add(Released("a", 2))
    releases.write()
    assert frames.released("a") == 2


async def seal_one(host: Host, job: Manifest) -> None:
    host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))
    host.write((1, "a"), (15, "a"))
    await until(lambda: host.sealed(job))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.mark.parametrize(
    ("nbytes", "since_us", "pause_s"),
    [
        (POLL_FEW_BYTES // 64, 250_000, POLL_FEW_S),
        (POLL_FEW_BYTES // 2, 250_000, 0.5),
        (POLL_FEW_BYTES, 1_000_000, POLL_FEW_S),
        (POLL_FEW_BYTES * 8, 250_000, POLL_BUSY_S),
        (POLL_FEW_BYTES, 0, POLL_BUSY_S),  # the first poll: the rate is unknown
    ],
)
def test_polls_are_further_apart_where_few_bytes_come(nbytes: int, since_us: int, pause_s: float) -> None:
    assert pause_max_s(nbytes, since_us) == pytest.approx(pause_s)


@pytest.mark.parametrize(("cost_s", "pause_s"), [(0.0, POLL_MAX_S), (0.001, 0.2), (0.05, POLL_BUSY_S)])
def test_a_silent_stream_of_many_jobs_is_looked_at_less_often(cost_s: float, pause_s: float) -> None:
    assert silent_max_s(cost_s) == pytest.approx(pause_s)
