"""A job that holds up the others of its stream is read by itself; no record is lost or counted twice."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.stream import LONG_SEAL_S
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.reader import Reader
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.test_workers import COUNT, FIRST_INDEX, Host, manifest, until

OTHER = COUNT.replace("t.count", "t.other")


class Clock:
    """CPU time in which the evaluations of one of two jobs take long."""

    def __init__(self) -> None:
        self._now, self._calls = 0.0, itertools.count()

    def __call__(self) -> float:
        self._now += 1.0 if next(self._calls) % 4 == 3 else 0.0
        return self._now


@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_is_moved_loses_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        rng = random.Random(seed)
        path, storage = tmp_path / "log", MemoryStorage()
        path.touch()
        host = Host(path, storage, cpu_s=Clock())
        jobs = [manifest(), manifest(OTHER)]
        for job in jobs:
            host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))
        written: Counter[tuple[int, str]] = Counter()
        for second in range(120):
            for _ in range(rng.randrange(4)):
                key = rng.choice("abc")
                written[FIRST_INDEX + second // 10, key] += 1
                host.write((second, key))
            if second % 7 == seed:
                host.write_raw('{"ts": "2015-05-17T10:')  # half a line, to be continued
                await asyncio.sleep(rng.random() * 0.06)
                host.write_raw(f'{second // 60:02}:{second % 60:02}Z", "k": "d"}}\n')
                written[FIRST_INDEX + second // 10, "d"] += 1
            if second == 60:
                host.host.pause_job(jobs[1].job_id)
                host.host.resume_job(jobs[1].job_id)
            await asyncio.sleep(rng.random() * 0.02)
        host.write((600, "end"))
        await until(lambda: all(host.counts(job) == dict(written) for job in jobs))
        described = cast(dict[str, dict[str, list[str]]], host.host.describe())
        places = {name: set(each["jobs"]) for name, each in described.items()}
        moved = next(job for job in jobs if f"log for {job.qualified}" in places)
        stayed = next(job for job in jobs if job is not moved)
        assert places == {"log": {stayed.qualified}, f"log for {moved.qualified}": {moved.qualified}}
        host.host.stop_job(ctl.StopWorker(moved.job_id, moved.incarnation))
        await until(lambda: set(host.host.describe()) == {"log"})
        await host.host.close()
        assert host.errors == []

    asyncio.run(run())


def test_jobs_of_one_name_are_read_apart_from_each_other(tmp_path: Path) -> None:
    """Two creators may have jobs of one name, and a job may begin at its other placement before it ends."""

    async def run() -> None:
        path = tmp_path / "log"
        path.touch()
        host = Host(path, MemoryStorage())
        job = manifest()
        jobs = [job, replace(job, creator="you", job_id=ids.job_id(job.qualified, "you"))]
        for each in jobs:
            host.host.start_job(ctl.StartWorker(each, FIRST_INDEX))
        await until(lambda: {each.job_id for each in jobs} <= set(host.host._jobs))
        for each in jobs:
            host.host._too_slow(each.job_id)
        await until(lambda: host.host._task_queue.idle)
        assert len(host.host.describe()) == 1 + len(jobs)
        host.host.stop_job(ctl.StopWorker(jobs[0].job_id, jobs[0].incarnation))
        host.host.pause_job(jobs[1].job_id)
        host.host.resume_job(jobs[1].job_id)
        host.write((0, "a"), (600, "end"))
        await until(lambda: host.counts(jobs[1]) == {(FIRST_INDEX, "a"): 1})
        await host.host.close()
        assert host.errors == []

    asyncio.run(run())


async def moving(tmp_path: Path, meanwhile: Callable[[Host, Manifest], None]) -> Host:
    """A host that moves a job to a read loop of its own, and what happens when that is made."""
    path = tmp_path / "log"
    path.touch()
    host = Host(path, MemoryStorage())
    job = manifest()
    host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))
    await until(lambda: job.job_id in host.host._jobs)
    open_reader = host.host._open_reader

    def opens(name: str, config: StreamConfig) -> Reader:
        meanwhile(host, job)
        return open_reader(name, config)

    host.host._open_reader = opens
    host.host._too_slow(job.job_id)
    return host


def test_a_job_that_fails_while_it_is_moved_leaves_no_reader_behind(tmp_path: Path) -> None:
    async def run() -> None:
        host = await moving(tmp_path, lambda host, job: host.host._ended(job.job_id))  # its block has failed
        await until(lambda: host.host._task_queue.idle)
        await asyncio.sleep(0)
        assert set(host.host.describe()) == {"log"}
        await host.host.close()
        assert host.errors == []

    asyncio.run(run())


def test_an_agent_that_stops_while_a_job_is_moved_ends(tmp_path: Path) -> None:
    """The read loop of the job was made before the stop, and begins after it."""

    async def run() -> None:
        stopping: list[asyncio.Task[None]] = []

        def stop(host: Host, job: Manifest) -> None:
            stopping.append(asyncio.get_running_loop().create_task(host.host.close()))

        host = await moving(tmp_path, stop)
        await until(lambda: stopping and stopping[0].done())
        assert host.errors == []

    asyncio.run(run())


def test_what_the_others_have_sealed_does_not_wait_for_a_slow_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        path, syncs = tmp_path / "log", list[int]()
        path.touch()
        host = Host(path, MemoryStorage())
        jobs = [manifest(COUNT.replace("t.count", f"t.job{number}")) for number in range(4)]
        for job in jobs:
            host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))
        await until(lambda: len(host.host._jobs) == len(jobs))
        sync = host.frames.sync

        def counted() -> None:
            syncs.append(len(host.events))
            sync()

        monkeypatch.setattr(host.frames, "sync", counted)
        for slow in jobs[:2]:
            host.host._jobs[slow.job_id].cost.seal_s = LONG_SEAL_S
        host.write((1, "a"), (12, "a"))
        await until(lambda: all(host.sealed(job) for job in jobs))
        order = [event.job for event in host.events if isinstance(event, ctl.Sealed)]
        assert order == [job.job_id for job in (jobs[2], jobs[3], jobs[0], jobs[1])]
        assert list(dict.fromkeys(syncs)) == [0, 2], "the quick ones do not wait for the rest"
        assert host.host._jobs[jobs[0].job_id].cost.seal_s == 0.0, "it is quick now"
        host.write((23, "a"))
        await until(lambda: all(len(host.sealed(job)) == 2 for job in jobs))
        assert [each for each in syncs if each] == [2, 4], "and waits for no other job"
        await host.host.close()
        assert host.errors == []

    asyncio.run(run())
