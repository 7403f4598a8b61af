"""A stream is read, parsed and evaluated in several threads, and no job may notice."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from elfmesh import ql
from elfmesh.cbt import decode_partial, finish, merge_partials
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import StorageError
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import BlockDelivery, StreamReader
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ingest.workers import WorkerHost
from elfmesh.machine import Event
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.storage import MemoryStorage
from tests.patience import PATIENCE_S

TEXT = """CREATE JOB t.j{} AS SELECT k, count(*) AS n FROM {}
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"""


class SmallPolls(StreamReader):
    """Reads a few lines a poll, so that there are many."""

    def poll(self, *args: Any, **options: Any) -> list[BlockDelivery]:
        return super().poll(3_000)


class Memory(MemoryBudget):
    """A budget that a test fills and empties."""

    full = False
    relieved = 0

    @property
    def over(self) -> bool:
        return self.full

    def relieve(self) -> None:
        self.relieved += 1


class Host:
    """A worker host with real threads, and what it said."""

    def __init__(self, paths: dict[str, Path], cpu_s: Callable[[], float] = lambda: 0.0) -> None:
        self.events: list[Event] = []
        self.errors: list[BaseException] = []
        self.memory = Memory(1 << 40, new_lock=threading.Lock)
        self.tidied: list[str] = []
        self.executor = ThreadExecutor()
        self.now_us = 1_780_000_000_000_000
        self.host = WorkerHost(
            self.events.append,
            streams={name: StreamConfig(str(path), "json", idle="1 h") for name, path in paths.items()},
            open_reader=lambda name, config: SmallPolls(
                config.path, StreamFormat(config.format), block_bytes=1_000
            ),
            frames=FrameLog(MemoryStorage()),
            executor=self.executor,
            wall_us=lambda: self.now_us,
            fatal=self.errors.append,
            memory=self.memory,
            tidy=lambda: self.tidied.append(threading.current_thread().name),
            cpu_s=cpu_s,
        )

    def start(self, job: Manifest) -> None:
        self.host.start_job(ctl.StartWorker(job, FIRST))

    def sealed(self, job: Manifest) -> list[ctl.Sealed]:
        return [e for e in self.events if isinstance(e, ctl.Sealed) and e.job == job.job_id]

    def counts(self, job: Manifest) -> Counter[tuple[int, str]]:
        """Records per interval and key; ranges must follow each other and say each interval once."""
        found: Counter[tuple[int, str]] = Counter()
        stop = FIRST
        for sealed in self.sealed(job):
            assert sealed.start == stop
            stop = sealed.stop
            for at, entry in enumerate(sealed.parts[0]):
                payload = merge_partials([run[at].payload for run in sealed.parts if run[at].payload])
                for row in finish(decode_partial(payload))["main"].to_pylist() if payload else ():
                    assert (entry.interval, row["k0"]) not in found
                    found[entry.interval, row["k0"]] = next(v for name, v in row.items() if name != "k0")
        return found


@asynccontextmanager
async def running(cpu_s: Callable[[], float] = lambda: 0.0, /, **paths: Path) -> AsyncIterator[Host]:
    host = Host(paths, cpu_s)
    yield host
    await host.host.close()
    host.executor.close()
    assert host.errors == []


def job_of(number: int = 0, stream: str = "log") -> Manifest:
    text = TEXT.format(number, stream)
    clause = ql.parse(text).job
    assert clause is not None
    return new_manifest(clause, text, "me", created=0, incarnation="i1")


async def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - a condition on what was said, nothing sets an event
            await asyncio.sleep(0.002)


def write(path: Path, seconds: range, rng: random.Random) -> Counter[tuple[int, str]]:
    """Some lines a second; returns the counts of all but the last interval, which stays open."""
    truth: Counter[tuple[int, str]] = Counter()
    with path.open("w") as file:
        for second in seconds:
            for _ in range(rng.randrange(8)):
                key = rng.choice("abc")
                file.write(json.dumps({"ts": second, "k": key}) + "\n")
                truth[second // 10, key] += 1
        file.write(json.dumps({"ts": seconds.stop + 10, "k": "z"}) + "\n")
    return truth


@pytest.mark.parametrize("seed", range(4))
async def test_commands_in_the_middle_of_blocks_lose_and_repeat_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("elfmesh.ingest.read_loop.BACKLOG_BYTES", 1)
    rng = random.Random(seed)
    feed = JobWorker.feed

    def slow(self: JobWorker, *args: Any) -> None:
        time.sleep(0.0005)
        feed(self, *args)

    monkeypatch.setattr(JobWorker, "feed", slow)
    paths = {"log": tmp_path / "log", "other": tmp_path / "other"}
    truths = {name: write(path, range(1_000, 2_500), rng) for name, path in paths.items()}
    jobs = [(job_of(number, stream), stream) for number, stream in enumerate(["log", "log", "other", "log"])]
    clock = random.Random(seed)  # by which a job seems to be slow now and then, and moves
    async with running(lambda: float(clock.random() < 0.3), **paths) as host:
        for job, _ in jobs[:3]:
            host.start(job)
        for step in range(60):
            job, _ = rng.choice(jobs)
            rng.choice([host.host.pause_job, host.host.resume_job, host.host.resume_job])(job.job_id)
            if step == 20:
                host.start(jobs[3][0])
            if rng.random() < 0.5:  # one that comes and goes, and takes nothing from the others
                host.start(job_of(9))
            else:
                host.host.stop_job(ctl.StopWorker(job_of(9).job_id, "i1"))
            host.memory.full = rng.random() < 0.2
            await asyncio.sleep(rng.random() * 0.01)
        host.memory.full = False
        for job, _ in jobs:
            host.host.resume_job(job.job_id)
        await until(lambda: all(host.sealed(job) and host.sealed(job)[-1].stop >= 250 for job, _ in jobs))
        for job, stream in jobs:
            assert host.counts(job) == truths[stream]


async def test_a_block_is_parsed_while_the_one_before_it_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elfmesh.ingest.read_loop.BACKLOG_BYTES", 1)
    path = tmp_path / "log"
    truth = write(path, range(1_000, 1_200), random.Random(1))
    polls = threading.Semaphore(0)
    overlapped: list[bool] = []
    poll, feed = SmallPolls.poll, JobWorker.feed

    def counted(self: SmallPolls, *args: Any, **options: Any) -> list[BlockDelivery]:
        found = poll(self, *args, **options)
        if found:
            polls.release()
        return found

    def waits(self: JobWorker, *args: Any) -> None:
        if not overlapped:
            polls.acquire(timeout=PATIENCE_S)
            overlapped.append(
                polls.acquire(timeout=PATIENCE_S)
            )  # the next poll ends while this block is in hand
        feed(self, *args)

    monkeypatch.setattr(SmallPolls, "poll", counted)
    monkeypatch.setattr(JobWorker, "feed", waits)
    job = job_of()
    async with running(log=path) as host:
        host.start(job)
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop >= 120)
        assert host.counts(job) == truth
    assert overlapped == [True]


async def test_streams_are_evaluated_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {"log": tmp_path / "log", "other": tmp_path / "other"}
    for path in paths.values():
        write(path, range(1_000, 1_030), random.Random(1))
    together = threading.Barrier(2, timeout=PATIENCE_S)
    feed = JobWorker.feed
    met: dict[int, int] = {}

    def meets(self: JobWorker, *args: Any) -> None:
        if id(self) not in met:
            met[id(self)] = -1
            met[id(self)] = together.wait()
        feed(self, *args)

    monkeypatch.setattr(JobWorker, "feed", meets)
    jobs = [job_of(0, "log"), job_of(1, "other")]
    async with running(**paths) as host:
        for job in jobs:
            host.start(job)
        await until(lambda: all(host.sealed(job) for job in jobs))
    assert sorted(met.values()) == [0, 1]


async def test_over_the_memory_budget_nothing_is_read_and_no_time_passes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="elf.worker")
    path = tmp_path / "log"
    path.touch()
    job = job_of()
    async with running(log=path) as host:
        host.start(job)
        await until(lambda: host.host._jobs)
        host.memory.full, host.memory.problem = True, StorageError("the disk is full")
        await until(lambda: "waits: the memory limit" in caplog.text)
        truth = write(path, range(1_000, 1_030), random.Random(1))
        host.now_us += 3_600_000_000 * 3
        await asyncio.sleep(0.3)
        assert sum(host.host._jobs[job.job_id].worker.totals) == 0
        assert host.memory.relieved
        assert not host.sealed(job)
        host.memory.full = False
        await until(lambda: host.sealed(job))
        assert host.counts(job) == truth
    reported = [record.message for record in caplog.records if "memory limit" in record.message]
    assert reported == ["stream log waits: the memory limit is reached (the disk is full)"]
    assert "stream log is read again" in caplog.text


async def test_over_the_memory_budget_what_is_at_its_end_is_still_sealed_by_the_clock(tmp_path: Path) -> None:
    """Only sealing frees the memory of open intervals: were time to stand still, it would for ever."""
    path = tmp_path / "log"
    path.touch()
    job = job_of()
    async with running(log=path) as host:
        host.start(job)
        await until(lambda: host.host._jobs)
        truth = write(path, range(1_000, 1_030), random.Random(1))
        host.now_us = 1_030_000_000
        await until(lambda: sum(host.host._jobs[job.job_id].worker.totals) >= 30)
        host.memory.full = True
        host.now_us += 3_600_000_000 * 3
        await until(lambda: host.counts(job) == truth)
        write(path, range(20_000, 20_010), random.Random(2))
        host.now_us += 3_600_000_000 * 3
        await asyncio.sleep(0.3)
        assert host.counts(job) == truth, "unread lines hold the watermark"


async def test_a_command_that_comes_when_the_loop_has_ended_is_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    async with running(log=path) as host:
        ingest = host.host.ingests["log"]
        await host.host.close()
        assert await ingest.at_rest(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await ingest.at_rest(lambda: 1 // 0)


async def test_a_job_that_ends_gives_its_memory_back_at_once(tmp_path: Path) -> None:
    write(tmp_path / "log", range(1_000, 1_200), random.Random(1))
    gc.collect()
    gc.disable()  # panes that only a collector would find would keep all streams waiting
    try:
        async with running(log=tmp_path / "log") as host:
            job = job_of()
            host.start(job)
            await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop >= 120)
            assert host.memory.nbytes > 0
            host.host.stop_job(ctl.StopWorker(job.job_id, "i1"))
            await until(lambda: host.memory.nbytes == 0)
    finally:
        gc.enable()


async def test_memory_is_tidied_when_intervals_were_sealed_and_never_on_the_loop(tmp_path: Path) -> None:
    truth = write(tmp_path / "log", range(1_000, 1_500), random.Random(1))
    job = job_of()
    async with running(log=tmp_path / "log") as host:
        host.start(job)
        await until(lambda: host.sealed(job) and host.sealed(job)[-1].stop >= 150 and host.tidied)
        assert len(host.tidied) <= len(host.sealed(job))
        assert all(name.startswith("elf-ingest") for name in host.tidied)
        assert host.counts(job) == truth
