"""An agent at its limit: reading waits, the worst job gives way, everything is counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import pytest

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.budget.costs import SEAL_S, JobCost
from elfmesh.ingest.host import InlineExecutor
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.scheduling import job_isolation
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.scheduling.shares import WINDOW, Limit, Use
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.workers import WorkerHost
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.budget.test_allowance import Clock
from tests.ingest.test_workers import until

TEXT = """CREATE JOB t.{name} AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"""


def manifest(name: str) -> Manifest:
    text = TEXT.format(name=name)
    job = ql.parse(text).job
    assert job is not None
    return new_manifest(job, text, "me", created=0, incarnation="i1")


class Room:
    """One agent's workers over one log, with a budget on clocks that stand still."""

    def __init__(self, path: Path, policy: Literal["wait", "shed"]) -> None:
        self.path, self.clock, self.used, self.thread = path, Clock(), Clock(), Clock()
        self.scheduler = Scheduler(0.5, 0.5, clock=self.clock, used_s=self.used)
        config = StreamConfig(str(path), "json", idle="1 h", on_overload=policy)
        self.errors: list[BaseException] = []
        self.host = WorkerHost(
            lambda event: None,
            streams={"log": config},
            open_reader=lambda name, config: StreamReader(config.path, StreamFormat(config.format)),
            frames=FrameLog(MemoryStorage()),
            executor=InlineExecutor(),
            wall_us=lambda: 1_780_000_000_000_000,
            fatal=self.errors.append,
            cpu_s=self.thread,
            scheduler=self.scheduler,
        )

    async def start(self, *names: str) -> None:
        for name in names:
            self.host.start_job(ctl.StartWorker(manifest(name), 0))
        await self.until(lambda: len(self.host._jobs) == len(names) and self.host._task_queue.idle)

    def write(self, lines: int, second: int = 0) -> None:
        line = json.dumps({"ts": f"2015-05-17T10:05:{second:02}Z", "k": "a"})
        with self.path.open("a") as log:
            log.write(f"{line}\n" * lines)

    def counted(self, name: str) -> dict[str, int]:
        reported = self.host.describe_jobs()[f"t/{name}"]
        counts = reported["counts"]
        assert isinstance(counts, dict)
        return {bucket: number for bucket, number in counts.items() if number}

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition, 20.0)


def key(name: str) -> str:
    each = manifest(name)
    return f"{each.job_id.hex()}:{each.incarnation}"


async def test_the_worst_job_of_a_stream_that_sheds_sheds_alone_and_is_let_go(tmp_path: Path) -> None:
    room = Room(tmp_path / "log", "shed")
    room.path.touch()
    await room.start("good", "bad")
    room.write(5)
    await room.until(lambda: room.counted("bad") == {"contributed": 5} == room.counted("good"))
    room.host._isolation.hold(Limit(key("bad"), 0.001, 0.9))
    job = room.host._jobs[manifest("bad").job_id]
    assert job.cost.allowance is not None
    job.cost.allowance.charge(1.0)
    room.write(7, 1)
    await room.until(lambda: room.counted("good") == {"contributed": 12})
    await room.until(lambda: room.counted("bad") == {"contributed": 5, "shed": 7})
    assert "gets 0.1 %" in room.scheduler.describe()["slowed"]["t/bad"]
    assert room.host.describe_jobs()["t/bad"]["lines_shed"] == 7
    assert job.home == "log", "it is not read twice to be shed"
    room.host._isolation.hold(Limit(key("bad"), None))
    room.write(3, 2)
    await room.until(lambda: room.counted("bad") == {"contributed": 8, "shed": 7})
    assert room.scheduler.slowed == {}
    await room.host.close()
    assert room.errors == []


async def test_the_worst_job_of_a_stream_that_loses_nothing_waits_alone(tmp_path: Path) -> None:
    room = Room(tmp_path / "log", "wait")
    room.path.touch()
    await room.start("good", "bad")
    room.host._isolation.hold(Limit(key("bad"), 0.001, 0.9))
    job = room.host._jobs[manifest("bad").job_id]
    assert job.cost.allowance is not None
    job.cost.allowance.charge(1.0)
    await room.until(lambda: job.home != "log")
    room.write(7)
    await room.until(lambda: room.counted("good") == {"contributed": 7})
    assert room.counted("bad") == {}, "its allowance is used up and the clock stands still"
    room.clock.now += 5.0
    await room.until(lambda: room.counted("bad") == {"contributed": 7})
    await room.host.close()
    assert room.errors == []


async def test_reading_waits_for_the_agents_allowance_and_commands_do_not(tmp_path: Path) -> None:
    room = Room(tmp_path / "log", "wait")
    room.path.touch()
    await room.start("good")
    room.used.now += 0.75
    room.write(4)
    await room.start("good", "later")  # obeyed while reading waits
    assert room.counted("good") == {}
    assert room.host.ingests["log"].account.delay_s(0.0, lambda: 0) == pytest.approx(1.0)
    room.clock.now += 1.1
    await room.until(lambda: room.counted("good") == {"contributed": 4})
    await room.host.close()


def test_the_job_for_which_reading_waits_is_named(tmp_path: Path) -> None:
    clock, used = Clock(), Clock()
    scheduler = Scheduler(0.5, 0.5, clock=clock, used_s=used)
    loop, costs, found = scheduler.open(1), {"a": 0.0, "bad": 0.0}, list[Limit]()
    for _ in range(WINDOW + 1):
        used.now += 5.0
        assert loop.delay_s(clock.now, lambda: 0) > 0
        clock.now += 1.0
        costs = {"a": costs["a"] + 0.1, "bad": costs["bad"] + 0.4}
        found += scheduler.observe(clock.now, {job: Use(cpu_s) for job, cpu_s in costs.items()})
    assert [each.job for each in found] == ["bad"]
    assert scheduler.waited_s == pytest.approx(WINDOW + 1.0)
    cost = JobCost()
    for cores in (0.2, 0.1):
        scheduler.hold(Limit("bad", cores, 0.4), cost, "t/bad", is_apart=False)
        assert (cost.describe()["cores_max"], scheduler.slowed) == (cores, {"t/bad": cost.slowed})
    assert "took 40 % of a core and gets 20 %" in cost.slowed, "the reason does not change every few seconds"
    assert scheduler.apart is not None
    restarted = JobCost(allowance=scheduler.apart)
    scheduler.hold(Limit("bad", 0.1, 0.4), restarted, "t/bad", is_apart=True)
    assert (restarted.describe()["cores_max"], scheduler.apart.cores) == (0.1, 0.25), (
        "that of all others stays"
    )
    for is_apart, left in ((True, scheduler.apart), (False, None)):
        scheduler.hold(Limit("bad", None), cost, "t/bad", is_apart=is_apart)
        assert (cost.allowance, cost.slowed, scheduler.slowed) == (left, "", {})


async def test_without_a_limit_no_loop_waits_and_no_job_is_observed(tmp_path: Path) -> None:
    scheduler = Scheduler(None, 0.5)
    assert scheduler.open(1).delay_s(0.0, lambda: 0) == 0.0
    assert scheduler.observe(0.0, {"a": Use(1e6)}) == []
    assert scheduler.apart is not None
    assert scheduler.apart.cores == 0.5
    assert Scheduler().apart is None


async def test_jobs_are_observed_once_a_second_until_the_agent_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_isolation, "WATCH_S", 0.001)
    room, seen = Room(tmp_path / "log", "wait"), list[Mapping[str, Use]]()
    room.path.touch()
    await room.start("good")

    def observe(now_s: float, jobs: Mapping[str, Use]) -> list[Limit]:
        seen.append(jobs)
        return [Limit("a job that has just ended", 0.1), Limit(key("good"), 0.2, 0.4)]

    monkeypatch.setattr(room.scheduler, "observe", observe)
    await room.until(lambda: len(seen) > 2)
    assert seen[-1].keys() == {key("good")}
    assert room.host.describe_jobs()["t/good"]["cores_max"] == 0.2
    await room.host.close()
    ended = len(seen)
    await asyncio.sleep(0.02)
    assert len(seen) == ended
    assert room.errors == []


def test_an_allowance_pays_for_closing_what_was_sealed_and_the_job_s_own_figure_does_not() -> None:
    scheduler = Scheduler(None, 0.5, clock=lambda: 0.0, used_s=lambda: 0.0)
    cost = JobCost(allowance=scheduler.apart)
    cost.charge(0.125, 0.125)
    assert cost.delay_s == 0.0, "a burst may take that"
    cost.charge(0.0, 0.0, intervals=100)
    assert cost.delay_s == pytest.approx(100 * SEAL_S / 0.5)
    assert cost.cpu_s == 0.25
    assert JobCost(allowance=scheduler.apart).delay_s == cost.delay_s, "they share it"
