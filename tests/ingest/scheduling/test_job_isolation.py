"""What one job waits for or works off, the others of its stream do not see; no record is lost or repeated."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.functions.evaluator import local_evaluator
from elfmesh.ingest.host import APART, SLOW, InlineExecutor
from elfmesh.ingest.scheduling import job_isolation
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.sources import StreamReader
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.scheduling.test_job_isolation_moves import OTHER
from tests.ingest.test_workers import COUNT, FIRST_INDEX, Host, manifest, until
from tests.sim.world.vloop import run

T = TypeVar("T")
Counts = Counter[tuple[int, str]]
HANG_S = 4.0
"""Of virtual time: two time limits of 2 s, for each block."""

IN_TIME_S = 0.3
"""Two looks at a silent stream and a little: what an interval takes without any other job."""

BACKLOG_LINES = 3000
LATEST = 600
FUNCTION = """CREATE JOB t.other AS
WITH FUNCTION f(k STRING) RETURNS STRING LANGUAGE PYTHON AS $$
def f(k):
    return k
$$
SELECT f(k) AS k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), f(k)"""


class Hanging(InlineExecutor):
    """Every call in some lanes takes long, and all others go on."""

    def __init__(self, lanes: str) -> None:
        self.lanes, self.hang_s, self.hung = lanes, HANG_S, 0

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        if lane.startswith(self.lanes) and self.hang_s:
            self.hung += 1
            await asyncio.sleep(self.hang_s)
        return await super().run(lane, work)


class Shop:
    """A host, what was written, and how long intervals took to be sealed."""

    def __init__(self, host: Host) -> None:
        self.host, self.written, self.second = host, Counts(), 0

    def write(self, lines: int, rng: random.Random) -> None:
        """Lines of the last interval and the next one."""
        records = []
        for _ in range(lines):
            self.second += rng.random() < 0.02
            key = rng.choice("abc")
            self.written[FIRST_INDEX + self.second // 10, key] += 1
            records.append((self.second, key))
        self.host.write(*records)

    async def late_s(self, job: Manifest, rng: random.Random) -> float:
        """How long after its last line an interval of a job is sealed."""
        self.write(3, rng)
        self.second += 10
        began = asyncio.get_running_loop().time()
        self.write(1, rng)
        stop = FIRST_INDEX + self.second // 10
        await until(lambda: any(each.stop >= stop for each in self.host.sealed(job)), 60.0)
        return asyncio.get_running_loop().time() - began

    async def check(self, *jobs: Manifest) -> None:
        """Close all that was written, and see that it was counted once."""
        self.host.write((self.second + LATEST, "end"))
        for job in jobs:
            await until(partial(self._is_whole, job), 400.0)

    def _is_whole(self, job: Manifest) -> bool:
        return self.host.counts(job) == dict(self.written)


def start(host: Host, job: Manifest) -> None:
    host.host.start_job(ctl.StartWorker(job, FIRST_INDEX))


def homes(host: Host) -> dict[str, set[str]]:
    described = cast(dict[str, dict[str, list[str]]], host.host.describe())
    return {name: set(each["jobs"]) for name, each in described.items()}


def trusting() -> AuthorityGate:
    """Lets everything pass, and evaluates in real processes."""
    gate: Any = SimpleNamespace(
        admit=lambda stages: {},
        policy=SimpleNamespace(grant=lambda namespace: None),
        functions=SimpleNamespace(
            open=lambda stages, admissions, note: {
                each.evaluated: local_evaluator(ql.parse(each.manifest.text), note)
                for each in stages
                if ql.parse(each.manifest.text).functions
            }
        ),
    )
    return cast(AuthorityGate, gate)


@pytest.mark.parametrize(
    ("lanes", "text", "backlog"),
    [(SLOW, FUNCTION, 10), (f"{APART}work:", OTHER, BACKLOG_LINES)],
    ids=["a function that hangs", "a backlog that takes long"],
)
def test_ordinary_intervals_close_in_time_beside_a_job_that_waits(
    tmp_path: Path, lanes: str, text: str, backlog: int
) -> None:
    async def main() -> None:
        rng, executor = random.Random(1), Hanging(lanes)
        (path := tmp_path / "log").touch()
        shop = Shop(host := Host(path, MemoryStorage(), executor=executor, gate=trusting()))
        ordinary, waiting = manifest(), manifest(text)
        start(host, ordinary)
        shop.write(backlog, rng)
        await until(lambda: host.sealed(ordinary) or backlog < BACKLOG_LINES)
        await asyncio.sleep(1.0)
        start(host, waiting)
        await until(lambda: executor.hung)
        late_s = [await shop.late_s(ordinary, rng) for _ in range(10)]
        assert max(late_s) < IN_TIME_S, late_s
        assert not host.counts(waiting), "it hangs"
        executor.hang_s = 0.0
        await shop.check(ordinary, waiting)
        if text == OTHER:
            await until(lambda: homes(host) == {"log": {ordinary.qualified, waiting.qualified}})
            reader = host.host.ingests["log"].stream.reader
            assert isinstance(reader, StreamReader)
            await until(lambda: reader.groups == 1)
            assert await shop.late_s(waiting, rng) < IN_TIME_S
        await host.host.close()
        assert host.errors == []

    run(main())


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_catches_up_by_itself_loses_and_repeats_nothing_in_a_crash(
    tmp_path: Path, seed: int
) -> None:
    async def main() -> None:
        rng, storage = random.Random(seed), MemoryStorage()
        (path := tmp_path / "log").touch()
        jobs = [manifest(COUNT.replace("t.count", f"t.job{number}")) for number in range(3)]
        executor = Hanging(f"{APART}work:")
        executor.hang_s = 0.05
        shop = Shop(host := Host(path, storage, executor=executor))
        start(host, jobs[0])
        shop.write(BACKLOG_LINES, rng)
        await until(lambda: host.sealed(jobs[0]))
        await asyncio.sleep(1.0)
        start(host, jobs[1])
        for _ in range(rng.randrange(1, 30)):
            await asyncio.sleep(0.02)
            shop.write(2, rng)
            if rng.random() < 0.2:
                host.host.pause_job(jobs[1].job_id)
                host.host.resume_job(jobs[1].job_id)
        assert executor.hung
        host.host.kill()
        storage.crash()
        shop.host = again = Host(path, storage, executor=executor)
        for job in jobs:
            start(again, job)
        for _ in range(20):
            await asyncio.sleep(rng.random() / 10)
            shop.write(rng.randrange(5), rng)
        again.host.stop_job(ctl.StopWorker(jobs[0].job_id, jobs[0].incarnation))
        await shop.check(*jobs[1:])
        await until(lambda: homes(again) == {"log": {job.qualified for job in jobs[1:]}})
        await again.host.close()
        assert again.errors == []

    run(main())


def test_a_job_that_is_slow_with_its_backlog_stays_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        rng, seconds = random.Random(2), [0.0]

        def cpu_s() -> float:
            seconds[0] += 1.0
            return seconds[0]

        (path := tmp_path / "log").touch()
        shop = Shop(host := Host(path, MemoryStorage(), cpu_s=cpu_s))
        ordinary, slow = manifest(), manifest(OTHER)
        start(host, ordinary)
        shop.write(BACKLOG_LINES, rng)
        await until(lambda: host.sealed(ordinary))
        await asyncio.sleep(1.0)
        start(host, slow)
        await shop.check(ordinary, slow)
        await asyncio.sleep(1.0)
        assert homes(host) == {"log": {ordinary.qualified}, f"log for {slow.qualified}": {slow.qualified}}
        host.host.stop_job(ctl.StopWorker(slow.job_id, slow.incarnation))
        await until(lambda: homes(host) == {"log": {ordinary.qualified}})
        await host.host.close()
        assert host.errors == []

    run(main())


def test_where_too_many_catch_up_the_rest_have_their_turns_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_isolation, "BEHIND_MAX", 2)

    async def main() -> None:
        rng, executor = random.Random(3), Hanging(f"{APART}work:")
        executor.hang_s = 0.2
        (path := tmp_path / "log").touch()
        shop = Shop(host := Host(path, MemoryStorage(), executor=executor))
        jobs = [manifest(COUNT.replace("t.count", f"t.job{number}")) for number in range(7)]
        start(host, jobs[0])
        shop.write(BACKLOG_LINES, rng)
        await until(lambda: host.sealed(jobs[0]))
        await asyncio.sleep(1.0)
        for job in jobs[1:]:
            start(host, job)
        most = 0
        for each in range(100):
            await asyncio.sleep(0.02)
            most = max(most, len(homes(host)) - 1)
            if each == 5:  # one waits, is begun again and waits again; another one waits no more
                start(host, jobs[4])
                host.host.stop_job(ctl.StopWorker(jobs[3].job_id, jobs[3].incarnation))
                stopped = host.host._jobs[jobs[3].job_id]
                assert stopped in host.host._isolation._waiting
                await until(lambda: jobs[3].job_id not in host.host._jobs)
                assert stopped not in host.host._isolation._waiting
        left = [job for job in jobs if job is not jobs[3]]
        await shop.check(*left)
        await until(lambda: homes(host) == {"log": {job.qualified for job in left}})
        assert executor.hung
        assert most == 2
        await host.host.close()
        assert host.errors == []

    run(main())


def test_more_jobs_than_eight_are_set_apart_and_share_one_allowance(tmp_path: Path) -> None:
    async def main() -> None:
        (path := tmp_path / "log").touch()
        scheduler = Scheduler(None, 0.5, clock=lambda: 0.0, used_s=lambda: 0.0)
        shop = Shop(host := Host(path, MemoryStorage(), scheduler=scheduler))
        jobs = [manifest(COUNT.replace("t.count", f"t.job{number}")) for number in range(13)]
        for job in jobs:
            start(host, job)
        await until(lambda: len(homes(host)["log"]) == len(jobs))
        for job in jobs[1:]:
            host.host._too_slow(job.job_id)
        await until(lambda: homes(host)["log"] == {jobs[0].qualified})
        await until(lambda: len(homes(host)) == len(jobs))
        shop.write(20, random.Random(4))
        await shop.check(*jobs)
        costs = [job.cost.allowance for job in host.host._jobs.values()]
        assert costs == [None, *[scheduler.apart] * 12]
        await host.host.close()
        assert host.errors == []

    run(main())
