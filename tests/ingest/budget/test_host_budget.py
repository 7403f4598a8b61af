"""An agent at its limit: reading waits, the worst job gives way, everything is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.budget.costs import SEAL_S, JobCost
from elfmesh.ingest.budget.host import HostBudget
from elfmesh.ingest.budget.watchdog import Cost, ThrottleOrder
from elfmesh.ingest.host import InlineExecutor
from elfmesh.ingest.parsers import StreamFormat
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
        self.budget = HostBudget(0.5, 0.5, clock=self.clock, used_s=self.used)
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
            budget=self.budget,
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
    room.host._slow_down(ThrottleOrder(key("bad"), 0.001, 0.9))
    job = room.host._jobs[manifest("bad").job_id]
    assert job.cost.allowance is not None
    job.cost.allowance.charge(1.0)
    room.write(7, 1)
    await room.until(lambda: room.counted("good") == {"contributed": 12})
    await room.until(lambda: room.counted("bad") == {"contributed": 5, "shed": 7})
    assert "gets 0.1 %" in room.budget.describe()["slowed"]["t/bad"]
    assert room.host.describe_jobs()["t/bad"]["lines_shed"] == 7
    assert job.home == "log", "it is not read twice to be shed"
    room.host._slow_down(ThrottleOrder(key("bad"), None))
    room.write(3, 2)
    await room.until(lambda: room.counted("bad") == {"contributed": 8, "shed": 7})
    assert room.budget.slowed == {}
    await room.host.close()
    assert room.errors == []


async def test_the_worst_job_of_a_stream_that_loses_nothing_waits_alone(tmp_path: Path) -> None:
    room = Room(tmp_path / "log", "wait")
    room.path.touch()
    await room.start("good", "bad")
    room.host._slow_down(ThrottleOrder(key("bad"), 0.001, 0.9))
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
    assert room.budget.delay_s("log") == pytest.approx(1.0)
    room.clock.now += 1.1
    await room.until(lambda: room.counted("good") == {"contributed": 4})
    await room.host.close()


async def test_the_watchdog_names_whom_reading_waits_for(tmp_path: Path) -> None:
    clock, used = Clock(), Clock()
    budget = HostBudget(0.5, 0.5, clock=clock, used_s=used)
    costs, reported = {"a": 0.0, "bad": 0.0}, list[ThrottleOrder]()
    for _ in range(6):
        used.now += 5.0
        assert budget.delay_s("log") > 0
        clock.now += 1.0
        costs = {"a": costs["a"] + 0.1, "bad": costs["bad"] + 0.4}
        seen = {job: Cost(cpu_s) for job, cpu_s in costs.items()}
        budget._look(partial(dict, seen), reported.append)
        budget.close()
    assert [(each.job, each.cores) for each in reported] == [("bad", 0.25)]
    assert budget.waited_s == pytest.approx(6.0)


async def test_without_a_limit_nobody_waits_and_nobody_watches() -> None:
    budget = HostBudget(None, 0.5)
    assert budget.delay_s("log") == 0.0
    budget.watch(dict, lambda verdict: None)
    assert budget._timer is None
    assert budget.of_apart.cores == 0.5


def test_an_allowance_pays_for_closing_what_was_sealed_and_the_job_s_own_figure_does_not() -> None:
    budget = HostBudget(None, 0.5, clock=lambda: 0.0, used_s=lambda: 0.0)
    cost = JobCost(allowance=budget.of_apart)
    cost.charge(0.125, 0.125)
    assert cost.delay_s == 0.0, "a burst may take that"
    cost.charge(0.0, 0.0, intervals=100)
    assert cost.delay_s == pytest.approx(100 * SEAL_S / 0.5)
    assert cost.cpu_s == 0.25
    assert JobCost(allowance=budget.of_apart).delay_s == cost.delay_s, "they share it"
