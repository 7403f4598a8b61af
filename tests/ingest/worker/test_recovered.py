"""What a job is given back of its frames after a restart, and what is made again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from elfmesh.control.jobs.records import FIRST, LATE
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol import events as ctl
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import COUNT, FIRST_INDEX, manifest, path, running, until
from tests.ingest.worker.test_staged import (
    filtered,
    reached,
    records_of,
    reported,
    staged,
    started,
    version,
)

__all__ = ["path"]


async def test_what_was_sealed_beyond_the_boundary_is_made_again_from_the_log(path: Path) -> None:
    job, storage = manifest(), MemoryStorage()
    log = [(second, "x" if second % 3 else "y") for second in range(100)]
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write(*log)
        host.write_raw("no json\n")
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 9)
        host.host.release(job.job_id, FIRST_INDEX + 2, 0)
        host.host.start_job(started(staged(FIRST_INDEX + 4, COUNT, filtered(COUNT))))
        await until(lambda: host.sealed(job)[-1].evaluated == 2)
        await until(lambda: host.sealed(job)[-1].stop == FIRST_INDEX + 9)
        found, counts = reported(host, job), records_of(host, job)
    for index in range(FIRST_INDEX + 4, FIRST_INDEX + 9):
        assert found[index, 2] == {"y": sum(key == "y" for at, key in log if at // 10 == index - FIRST_INDEX)}
        assert sum(counts[index][:2]) == 10
    storage.crash()
    async with running(path, storage) as host:
        host.host.start_job(started(staged(FIRST_INDEX + 4, COUNT, filtered(COUNT))))
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop == FIRST_INDEX + 9)
        again = reported(host, job)
        host.write((125, "y"))
        await until(lambda: host.sealed(job)[-1].stop == FIRST_INDEX + 12)
        rest = reported(host, job)
    assert {key: rows for key, rows in again.items() if key[0] >= FIRST_INDEX + 4} == {
        key: rows for key, rows in found.items() if key[1] == 2
    }
    assert rest[FIRST_INDEX + 9, 2] == {"y": 4}


async def test_what_is_closed_and_not_released_is_not_made_again(path: Path) -> None:
    """An agent hears late that intervals are closed, together with the version that follows."""
    job, closed = manifest(), FIRST_INDEX + 6
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write(*((second, "k") for second in range(100)))
        await until(partial(reached, host, FIRST_INDEX + 9, 1))
        host.host.release(job.job_id, FIRST_INDEX + 2, 0)
        host.host.start_job(started((Stage(closed, version(2, filtered(COUNT)), 2),)))
        await until(partial(reached, host, FIRST_INDEX + 9, 2))
        again = [index for index, evaluated in reported(host, job) if evaluated == 2]
        counts = records_of(host, job)
    assert again == [*range(closed, FIRST_INDEX + 9)]
    assert {counts[index] for index in range(FIRST_INDEX, FIRST_INDEX + 9)} == {(10, 0, 0)}


async def test_a_change_within_what_was_read_from_an_empty_file_counts_nothing_twice(path: Path) -> None:
    """The place to go back to was taken before the file had a beginning to be known by."""
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        await until(lambda: host.frames.jobs)
        host.write(*((second, "k") for second in range(0, 45, 3)))  # short: a later reader knows it by more
        await until(partial(reached, host, FIRST_INDEX + 4, 1))
        host.write(*((second, "k") for second in range(45, 65)))
        host.host.start_job(started(staged(FIRST_INDEX + 2, COUNT, filtered(COUNT))))
        await until(partial(reached, host, FIRST_INDEX + 6, 2))
        late = [entry.counts[LATE] for each in host.sealed(job) for entry in each.parts[0]]
        found = reported(host, job)
    assert not any(late)
    assert [found[FIRST_INDEX + index, 2]["k"] for index in range(2, 6)] == [3, 4, 6, 10]
