"""A worker whose frame log rots: what it read again counts once, and what may be lost is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.control.jobs.records import FIRST, SOURCE_GAP
from elfmesh.control.protocol import events as ctl
from elfmesh.storage.framelog import FILE_NAME
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import FIRST_INDEX, manifest, running, until


@pytest.mark.parametrize("rot", ["the last frame", "all of it"])
async def test_what_rot_takes_of_the_frame_log_is_one_source_gap_and_no_record_counts_twice(
    tmp_path: Path, rot: str
) -> None:
    """A job whose frames are all gone reads its file again, and says that more may be lost."""
    path = tmp_path / "log"
    path.touch()
    job, storage = manifest(), MemoryStorage()
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"), (13, "b"), (21, "a"))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 2)
    data = storage.files[FILE_NAME].data
    data[:] = bytes(data[:-1]) + bytes([data[-1] ^ 1]) if rot == "the last frame" else b"\xff" * len(data)
    host.write((31, "z"))
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 3)
        assert host.counts(job) == {
            (FIRST_INDEX, "a"): 1,
            (FIRST_INDEX + 1, "a"): 1,
            (FIRST_INDEX + 1, "b"): 1,
            (FIRST_INDEX + 2, "a"): 1,
        }
        entries = [entry for sealed in host.sealed(job) for entry in sealed.parts[0]]
        assert sum(entry.counts[SOURCE_GAP] for entry in entries if entry.counts) == 1
    async with running(path, storage) as host:  # said once, also over the next restart
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 3)
        entries = [entry for sealed in host.sealed(job) for entry in sealed.parts[0]]
        assert sum(entry.counts[SOURCE_GAP] for entry in entries if entry.counts) == 1
