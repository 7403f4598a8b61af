"""One version of a job: which records it counts, and which it leaves to the others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.stages import evaluations
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol import events as ctl
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import COUNT, FIRST_INDEX, Host, manifest, path, running, until
from tests.ingest.worker.test_staged import (
    HOP,
    LONG_US,
    UNDATED,
    has_read,
    reached,
    records_of,
    reported,
    staged,
    started,
    version,
)

__all__ = ["path"]


async def test_empty_counts_only_what_comes_after_the_boundary(path: Path) -> None:
    job, boundary = manifest(HOP), FIRST_INDEX + 2
    since_us = (boundary - 1) * 10_000_000 + 30_000_000
    stages = (Stage(FIRST, version(1, HOP), 1), Stage(boundary, version(2, HOP, since_us), 2))
    log = [(second, "k") for second in range(100)]
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write(*log[:35])
        await until(lambda: host.sealed(job))
        host.host.start_job(started(stages))
        host.write(*log[35:])
        await until(partial(reached, host, FIRST_INDEX + 6, 2))
        found, counts = reported(host, job), records_of(host, job)
    assert found[boundary - 1, 1] == {"k": 30}
    assert [found[index, 2]["k"] for index in range(boundary, boundary + 4)] == [10, 20, 30, 30]
    assert [counts[index][:2] for index in range(boundary, boundary + 3)] == [(10, 20), (20, 10), (30, 0)]


def evaluates(host: Host, job: Manifest, count: int) -> bool:
    """Whether the job has so many stages. While it begins again, the host has no job."""
    found = host.host._jobs.get(job.job_id)
    return found is not None and len(found.stages) == count


@pytest.mark.parametrize("closed", [4, 5])
@pytest.mark.parametrize("crash", [False, True])
async def test_a_version_comes_back_with_all_that_one_without_a_time_had_read(
    path: Path, closed: int, crash: bool
) -> None:
    """What comes back finds the records of its intervals, though the version before it dated none of them."""
    job, storage = manifest(), MemoryStorage()
    stages = staged(FIRST_INDEX + 4, COUNT, UNDATED)
    after = evaluations((*stages, Stage(FIRST_INDEX + closed, version(3, COUNT), 3)))
    async with running(path, storage) as host:
        host.host.start_job(started(stages))
        for second in range(0, 56, 8):  # in blocks: a place to read from is a block's beginning
            host.write(*((at, "k") for at in range(second, second + 8)))
            await until(partial(has_read, host))
        await until(partial(reached, host, FIRST_INDEX + 4, 1))
        if not crash:
            host.host.start_job(started(after))
            await until(partial(evaluates, host, job, len(evaluations(after))))
    storage.crash()
    async with running(path, storage) as host:
        host.host.start_job(started(after))
        host.write(*((at, "k") for at in range(56, 85)))
        await until(partial(has_read, host))
        host.now_us += LONG_US
        await until(partial(reached, host, FIRST_INDEX + 8, 3))
        found = reported(host, job)
    for index in range(closed, 8):
        assert found[FIRST_INDEX + index, 3] == {"k": 10}, index


async def test_lines_without_a_time_are_counted_once_across_restarts(path: Path) -> None:
    """They are read again for the version that may come back; what has sealed them has counted them."""
    job, storage = manifest(), MemoryStorage()
    stages = staged(FIRST_INDEX + 4, COUNT, UNDATED)
    hour_us, open_us = 3_600_000_000, FIRST_INDEX * 10_000_000
    async with running(path, storage) as host:
        host.now_us = open_us + 45_000_000
        host.host.start_job(started(stages))
        host.write(*((at, "k") for at in range(45)))
        await until(partial(reached, host, FIRST_INDEX + 4, 1))
        host.now_us = open_us + hour_us * 3 // 2
        host.write_raw('{"ts": "2015-05-17T12:20:00Z", "k": "k"}\n')
        await until(partial(has_read, host))
        host.now_us = open_us + hour_us * 13 // 6
        await until(partial(reached, host, FIRST_INDEX + 8, 2))
        assert sum(counts[2] for counts in records_of(host, job).values()) == 1
    storage.crash()
    async with running(path, storage) as host:
        host.host.start_job(started(stages))
        await until(partial(has_read, host))
        host.write_raw("no record\n")
        await until(partial(has_read, host))
        host.now_us += LONG_US
        await until(lambda: host.sealed(job)[-1].stop > FIRST_INDEX + 100_000)
        assert sum(counts[2] for counts in records_of(host, job).values()) == 2


async def test_a_job_with_an_end_contains_the_records_of_its_range_in_any_order(path: Path) -> None:
    job = manifest(HOP)
    since_us, until_us = (FIRST_INDEX * 10 + 15) * 1_000_000, (FIRST_INDEX * 10 + 45) * 1_000_000
    ranged = replace(job, since_us=since_us, until_us=until_us)
    stages = (Stage(FIRST, ranged, 1),)
    log = [(second, "k") for second in (*range(50, 100), *range(50))]
    async with running(path, MemoryStorage()) as host:
        host.write(*log)
        host.host.start_job(started(stages))
        await until(partial(reached, host, FIRST_INDEX + 5, 1))
        host.write((20, "late"), (60, "after"))
        await until(lambda: has_read(host))
        found = reported(host, job)
    assert {index - FIRST_INDEX: rows["k"] for (index, _), rows in found.items() if rows} == {
        -1: 5, 0: 15, 1: 25, 2: 25, 3: 15, 4: 5,
    }  # fmt: skip
