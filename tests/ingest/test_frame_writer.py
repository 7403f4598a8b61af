"""Frames on their way to disk, and what is released with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest import frame_writer
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import FIRST_INDEX, Host, manifest, running, until


async def test_what_is_released_is_on_disk_with_the_next_frame_or_soon(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_writer, "WAIT_S", 3600.0)
    storage, job = MemoryStorage(), manifest()
    key = f"{job.job_id.hex()}:i1"
    async with running(path, storage) as host:
        await seal_one(host, job)
        host.host.release(job.job_id, FIRST_INDEX + 1, 0)
        assert host.frames.released(key) is None  # no job was woken for it
        host.write((25, "a"), (45, "a"))
        await until(lambda: host.frames.released(key) == FIRST_INDEX + 1)
        monkeypatch.setattr(frame_writer, "WAIT_S", 0.0)
        host.host.release(job.job_id, FIRST_INDEX + 2, 0)
        await until(lambda: host.frames.released(key) == FIRST_INDEX + 2)
        monkeypatch.setattr(frame_writer, "WAIT_S", 3600.0)
        host.host.release(job.job_id, FIRST_INDEX + 3, 0)
    assert FrameLog(storage).released(key) == FIRST_INDEX + 3  # an agent that stops says it


async def seal_one(host: Host, job: Manifest) -> None:
    host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))
    host.write((1, "a"), (15, "a"))
    await until(lambda: host.sealed(job))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path
