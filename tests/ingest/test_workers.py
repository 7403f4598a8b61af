from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from elfmesh import ql
from elfmesh.cbt import decode_partial, finish
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.records import BUCKETS, FIRST, add_counts
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import QueryError
from elfmesh.ingest.host import InlineExecutor
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.ingest.workers import WorkerHost
from elfmesh.machine import Event
from elfmesh.storage.framelog import FILE_NAME, FrameLog
from elfmesh.storage.frames import Sealed
from elfmesh.storage.storage import MemoryStorage
from tests.patience import PATIENCE_S

COUNT = """CREATE JOB t.count AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"""


def manifest(text: str = COUNT) -> Manifest:
    job = ql.parse(text).job
    assert job is not None
    return new_manifest(job, text, "me", created=0, incarnation="i1")


ReadFrom = Literal["beginning", "end"]


class Host:
    """A worker host over one real file, and what it said."""

    def __init__(
        self,
        path: Path,
        storage: MemoryStorage,
        read_from: ReadFrom = "beginning",
        held_bytes_max: int = 1 << 20,
        **options: Any,
    ) -> None:
        self.path, self.storage = path, storage
        self.events, self.errors = list[Event](), list[BaseException]()
        self.now_us = 1_780_000_000_000_000
        config = StreamConfig(str(path), "json", read_from=read_from, idle="1 h")
        self.frames = FrameLog(storage)
        self.host = WorkerHost(
            self.events.append,
            streams={"log": config},
            open_reader=lambda name, config: StreamReader(config.path, StreamFormat(config.format)),
            frames=self.frames,
            wall_us=lambda: self.now_us,
            fatal=self.errors.append,
            held_bytes_max=held_bytes_max,
            **{"executor": InlineExecutor(), **options},
        )

    def counts(self, job: Manifest) -> dict[tuple[int, str], int]:
        """Records per interval and key; each interval must have been sealed once."""
        found: dict[tuple[int, str], int] = {}
        for sealed in self.sealed(job):
            for entry in sealed.parts[0]:
                payload = entry.payload
                if payload:
                    for row in finish(decode_partial(payload))["main"].to_pylist():
                        key = (entry.interval, row["k0"])
                        assert key not in found
                        found[key] = next(value for name, value in row.items() if name != "k0")
        return found

    def sealed(self, job: Manifest) -> list[ctl.Sealed]:
        return [e for e in self.events if isinstance(e, ctl.Sealed) and e.job == job.job_id]

    def write(self, *records: tuple[int, str]) -> None:
        with self.path.open("a") as file:
            for second, key in records:
                file.write(json.dumps({"ts": f"2015-05-17T10:{second // 60:02}:{second % 60:02}Z", "k": key}))
                file.write("\n")

    def write_raw(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)


FIRST_INDEX = 143185680  # 2015-05-17T10:00:00Z in slides of 10 s


@asynccontextmanager
async def running(
    path: Path, storage: MemoryStorage, read_from: ReadFrom = "beginning"
) -> AsyncIterator[Host]:
    host = Host(path, storage, read_from)
    yield host
    await host.host.close()
    assert host.errors == []


async def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - a condition on what was said, nothing sets an event
            await asyncio.sleep(0.005)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


async def test_intervals_are_sealed_once_the_watermark_has_passed_them(path: Path) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (2, "b"), (3, "a"), (12, "a"))
        await until(lambda: host.sealed(job))
        assert host.counts(job) == {(FIRST_INDEX, "a"): 2, (FIRST_INDEX, "b"): 1}
        assert host.sealed(job)[0].start == FIRST
        host.write((35, "c"))
        await until(lambda: len(host.sealed(job)) > 1)
        ranges = [(sealed.start, sealed.stop) for sealed in host.sealed(job)]
        assert ranges == [(FIRST, FIRST_INDEX + 1), (FIRST_INDEX + 1, FIRST_INDEX + 3)]


async def test_two_jobs_with_different_windows_share_one_reader(path: Path) -> None:
    first = manifest()
    second = manifest(COUNT.replace("t.count", "t.other").replace("'10' SECOND", "'1' MINUTE"))
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(first, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(first))
        host.host.start_job(ctl.StartWorker(second, FIRST))
        host.write((13, "b"), (130, "z"))
        await until(lambda: host.sealed(second) and host.sealed(first)[-1].stop == FIRST_INDEX + 13)
        assert sum(host.counts(first).values()) == 3
        assert {key: n for (_, key), n in host.counts(second).items()} == {"a": 2, "b": 1}
        reader = host.host.ingests["log"].stream.reader
        assert isinstance(reader, StreamReader)
        await until(lambda: reader.groups == 1)


async def test_a_job_that_ends_leaves_no_frames_and_others_go_on(path: Path) -> None:
    job, other = manifest(), manifest(COUNT.replace("t.count", "t.other"))
    async with running(path, MemoryStorage()) as host:
        for each in (job, other):
            host.host.start_job(ctl.StartWorker(each, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(job) and host.sealed(other))
        host.host.stop_job(ctl.StopWorker(job.job_id, "i1"))
        await until(lambda: host.frames.jobs == [LocalJob.frame_key(other.job_id, "i1")])
        host.write((25, "a"))
        await until(lambda: len(host.sealed(other)) == 2)
        assert len(host.sealed(job)) == 1


async def test_one_failing_job_is_reported_and_hurts_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = manifest(), manifest(COUNT.replace("t.count", "t.other"))
    async with running(path, MemoryStorage()) as host:
        for each in (bad, good):
            host.host.start_job(ctl.StartWorker(each, FIRST))
        await until(lambda: len(host.host.ingests["log"].stream.jobs) == 2)
        worker = host.host._jobs[bad.job_id].worker
        monkeypatch.setattr(worker.head, "seal", lambda upto: 1 // 0)
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(good))
        reports = [event for event in host.events if isinstance(event, ctl.WorkerReport)]
        assert [(report.job, report.error) for report in reports] == [
            (bad.job_id, "integer division or modulo by zero")
        ]
        host.write((25, "a"))
        await until(lambda: len(host.sealed(good)) == 2)


async def test_unparsable_lines_are_reported_with_samples(path: Path) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write_raw("{broken\n")
        await until(
            lambda: any(isinstance(event, ctl.WorkerReport) and event.samples for event in host.events)
        )


async def test_a_full_disk_holds_everything_back_and_loses_nothing(path: Path) -> None:
    job, storage = manifest(), MemoryStorage()
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "b"))
        await until(lambda: host.sealed(job))
        frames = storage.files[FILE_NAME]
        frames.room = len(frames.data)
        host.write((23, "c"), (34, "d"))
        host.host.release(job.job_id, FIRST_INDEX + 1, 0)
        for _ in range(50):
            await asyncio.sleep(0.01)
        assert len(host.counts(job)) == 1
        frames.room = None
        host.write((45, "e"))
        await until(lambda: len(host.counts(job)) == 4)
        assert set(host.counts(job).values()) == {1}
    storage.crash()
    async with running(path, storage) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((56, "f"))
        await until(lambda: (FIRST_INDEX + 4, "e") in host.counts(job))
        assert set(host.counts(job).values()) == {1}


async def test_a_failed_sync_ends_the_agent(path: Path) -> None:
    job, storage = manifest(), MemoryStorage()
    host = Host(path, storage)
    storage.open("frames.log").fail_sync = True
    host.host.start_job(ctl.StartWorker(job, FIRST))
    await until(lambda: host.errors)
    assert "cannot sync" in str(host.errors[0])
    host.host.kill()


async def test_a_job_that_cannot_be_begun_is_reported_and_hurts_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = manifest(), manifest(COUNT.replace("t.count", "t.other"))
    async with running(path, MemoryStorage()) as host:
        begin = LocalJob.begin

        def refuse(self: LocalJob, stream: Stream) -> Sealed | None:
            if self.manifest.job_id == bad.job_id:
                raise QueryError("no such function")
            return begin(self, stream)

        monkeypatch.setattr(LocalJob, "begin", refuse)
        for each in (bad, good):
            host.host.start_job(ctl.StartWorker(each, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(good))
        reports = [event for event in host.events if isinstance(event, ctl.WorkerReport)]
        assert [(report.job, report.error) for report in reports] == [(bad.job_id, "query: no such function")]


async def test_lines_that_were_lost_to_a_truncation_are_reported(path: Path) -> None:
    job = manifest()
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: host.sealed(job))
        os.truncate(path, 0)
        host.write((23, "a"))
        await until(lambda: len(host.sealed(job)) > 1)
        reports = [event for event in host.events if isinstance(event, ctl.WorkerReport)]
        assert [report.samples for report in reports] == [
            (f"{path}: lines may be lost: it was truncated or rewritten in place",)
        ]
        counts = [entry.counts for event in host.sealed(job) for entry in event.parts[0]]
        assert add_counts(counts)[BUCKETS.index("source_gap")] == 1


async def test_a_record_stamped_before_the_end_of_an_interval_and_written_just_after_counts(
    path: Path,
) -> None:
    """A writer reads the clock, then writes; the reader may look in between."""
    job = manifest(COUNT.replace("'10' SECOND", "'1' SECOND"))
    async with running(path, MemoryStorage()) as host:
        second = host.now_us // 1_000_000
        host.now_us = second * 1_000_000 - 500_000
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write_raw(json.dumps({"ts": second - 0.5, "k": "a"}) + "\n")
        await until(lambda: host.host._jobs and host.host._jobs[job.job_id].worker.totals[0] == 1)
        host.now_us = second * 1_000_000 + 2_000
        await asyncio.sleep(0.2)
        host.write_raw(json.dumps({"ts": second - 0.001, "k": "a"}) + "\n")
        await until(lambda: sum(host.host._jobs[job.job_id].worker.totals) == 2)
        host.now_us += 1_000_000
        await until(lambda: host.counts(job))
        assert host.counts(job) == {(second - 1, "a"): 2}


async def test_a_contribution_too_large_for_the_frame_log_ends_its_job_and_not_the_agent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = manifest()
    monkeypatch.setattr("elfmesh.ingest.worker.sealing.CONTRIBUTION_BYTES_MAX", 10)
    async with running(path, MemoryStorage()) as host:
        host.host.start_job(ctl.StartWorker(job, FIRST))
        host.write((1, "a"), (12, "a"))
        await until(lambda: [e for e in host.events if isinstance(e, ctl.WorkerReport) and e.error])
        (report,) = [event for event in host.events if isinstance(event, ctl.WorkerReport)]
        assert "over the limit of 10" in report.error
        assert host.sealed(job) == []


async def test_a_job_that_is_closed_while_it_is_being_held_back_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads may be busy with other streams when a job is to wait, and its intervals close meanwhile."""
    job = manifest()
    host = Host(path, MemoryStorage(), held_bytes_max=10)
    hold = LocalJob.hold
    held: list[str] = []

    def late(self: LocalJob, stream: Stream, reason: str, *rest: Any) -> None:
        if reason == "memory" and not held:
            held.append(reason)
            self.release(FIRST_INDEX + 1)  # as `WorkerHost._release` does, which finds the job not held yet
        hold(self, stream, reason, *rest)

    monkeypatch.setattr(LocalJob, "hold", late)
    host.host.start_job(ctl.StartWorker(job, FIRST))
    host.write((1, "a"), (12, "a"))
    await until(lambda: held)
    host.write((25, "a"))
    await until(lambda: len(host.sealed(job)) == 2)
    await host.host.close()
    assert host.errors == []
