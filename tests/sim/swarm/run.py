"""One seed from beginning to end: calm, faults, calm again; what happened is for the invariants to judge."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from elfmesh.agent.core import codec
from elfmesh.control.pages import decode_page
from elfmesh.control.records import FIRST
from elfmesh.errors import ElfError
from tests.sim import vloop
from tests.sim.swarm import invariants
from tests.sim.swarm.aftermath import limits_broken, truths
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.history import History, Incarnation
from tests.sim.swarm.host import Host, Killed, Surroundings
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.invariants import LIVENESS_S, Outcome, Published
from tests.sim.swarm.nemesis import Nemesis
from tests.sim.swarm.network import SwarmNetwork
from tests.sim.swarm.scenario import Job, Scenario, draw
from tests.sim.wall import EPOCH_US

WRITE_EVERY_S = 0.25
FOLLOW_EVERY_S = 2.0
HOSTS_MAX = 10
SEED_CPU_S_MAX = 120.0
READ_S_MAX = 60.0


class Swarm:
    """All hosts of one run."""

    def __init__(
        self, scenario: Scenario, system: SimOS, path: type[SimPath], on_log: Callable[[str], None] | None
    ) -> None:
        loop = asyncio.get_running_loop()
        system.now_ns = lambda: round((EPOCH_US * 1e3) + loop.time() * 1e9)
        self.scenario = scenario
        self.rng = random.Random(f"swarm/{scenario.seed}")
        self.history = History(loop.time, on_log=on_log)
        self.network = SwarmNetwork(scenario.seed, codec(), keep=scenario.replay)
        self.around = Surroundings(scenario, system, self.network, self.history, path, self.seeds)
        self.hosts: list[Host] = []
        system.on_open = self._opened
        for number in range(scenario.hosts):
            self.hosts.append(Host(self.around, number))
        self.jobs: dict[Incarnation, Job] = {}
        self.current: dict[str, Incarnation] = {}
        self.founders: dict[Incarnation, tuple[str, ...]] = {}
        self.faults = 0
        self._silent_until: dict[int, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def say(self, text: str) -> None:
        self.history.say(text)

    def seeds(self, host: Host) -> tuple[tuple[str, int], ...]:
        """Where a host that starts asks for the others: its configuration does not change with who is up."""
        others = [other for other in self.hosts[:4] if other is not host]
        if all(other.lives == 0 for other in others):
            return ()
        return tuple((f"10.0.0.{other.number + 1}", 7400) for other in others)

    def _opened(self, path: str, inode: int) -> None:
        name = next((host.name for host in self.hosts if host.folder == path.split("/")[1]), "")
        self.history.opened.setdefault((name, inode), []).append(self.history.now())

    def running(self) -> list[Host]:
        return [host for host in self.hosts if host.up and not host.paused]

    def master(self) -> Host | None:
        """Who leads a job with the highest epoch."""
        leading = [
            (master.epoch, -host.number, host)
            for host in self.hosts
            if host.local is not None
            for master in host.local.control.leadership.masters.values()
        ]
        return max(leading, key=lambda each: each[:2])[2] if leading else None

    # -- life ------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        for host in self.hosts:
            host.start()
            await asyncio.sleep(0.02)
        for host in self.hosts:
            assert host.local is not None
            async with asyncio.timeout(60):
                await host.local.pump.joined.wait()
        for job in self.scenario.jobs:
            await self.apply(job, founding=True)
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._follow())]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for host in self.hosts:
            host.kill()

    async def ask(self, verb: str, body: dict[str, Any], timeout_s: float = 20.0) -> Any:
        """Ask a random agent; None if it does not answer or says no."""
        running = self.running()
        if not running:
            return None
        try:
            reply = await self.rng.choice(running).ask(verb, body, timeout_s)
        except (ElfError, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            return None
        except Killed:
            return None
        return reply if reply.status == 200 else None

    async def apply(self, job: Job, *, founding: bool = False) -> bool:
        reply = await self.ask("apply", {"text": job.text})
        self.say(f"apply {job.name}: {reply.body if reply is not None else 'no answer'}")
        if reply is None:
            assert not founding, "a job cannot be applied before there are faults"
            return False
        key = (f"sim/{job.name}", self._incarnation(f"sim/{job.name}"))
        if founding:
            self.founders[key] = tuple(host.name for host in self.hosts)
        self.jobs[key] = job
        self.current[job.name] = key
        return True

    def _incarnation(self, name: str) -> str:
        """The newest incarnation of a job that anybody leads."""
        found = [
            (master.epoch, master.manifest.incarnation)
            for host in self.hosts
            if host.local is not None
            for master in host.local.control.leadership.masters.values()
            if master.manifest.qualified == name
        ]
        return max(found, default=(0, ""))[1]

    async def _write(self) -> None:
        """The web servers; they write whether or not an agent runs."""
        rng, traffic = self.rng, self.scenario.traffic
        while True:
            now = asyncio.get_running_loop().time()
            for host in self.hosts:
                if self._silent_until.get(host.number, 0.0) > now:
                    continue
                host.server.finish()
                mean = traffic.rate * WRITE_EVERY_S
                host.server.write(int(mean) + (rng.random() < mean - int(mean)))
                if traffic.silent and rng.random() < traffic.silent / 40:
                    self._silent_until[host.number] = now + rng.uniform(1, 4) * self.scenario.jobs[0].slide_s
            await asyncio.sleep(WRITE_EVERY_S)

    async def _follow(self) -> None:
        """A reader with a stored position, as Spark is one: it asks anybody, from where it stopped."""
        at: dict[Incarnation, int | None] = {}
        while True:
            await asyncio.sleep(FOLLOW_EVERY_S)
            for key in [*self.current.values()]:
                reply = await self.ask("results", {"job": key[0], "from": at.get(key), "limit": 50}, 5.0)
                if reply is None or self.current.get(key[0].split("/")[1]) != key:
                    continue
                for record, rows in decode_page(reply.payload):
                    answers = self.history.followed.setdefault(("follower", key), {})
                    answers.setdefault(record.index, []).append((record, rows))
                    at[key] = record.index + 1

    # -- changes ---------------------------------------------------------------------------------------

    async def join(self) -> None:
        if len(self.hosts) < HOSTS_MAX:
            host = Host(self.around, len(self.hosts))
            self.say(f"{host.name} joins")
            self.hosts.append(host)
            host.start()

    async def change_job(self) -> None:
        """Delete a job in the middle of an interval, or apply one that was deleted."""
        job = self.rng.choice(self.scenario.jobs)
        key = self.current.pop(job.name, None)
        if key is None:
            await self.apply(job)
            return
        reply = await self.ask("delete", {"job": key[0]})
        self.say(f"delete {key[0]}: {'done' if reply is not None else 'no answer'}")
        if reply is None:
            self.current[job.name] = key

    async def pause_job(self) -> None:
        job = self.rng.choice(self.scenario.jobs)
        self.say(f"pause sim/{job.name}")
        try:
            await self.ask("pause", {"job": f"sim/{job.name}"})
            await asyncio.sleep(self.rng.uniform(0, 20))
        finally:
            self.say(f"resume sim/{job.name}")
        await self.ask("resume", {"job": f"sim/{job.name}"})

    # -- after the faults --------------------------------------------------------------------------------

    async def settle(self) -> dict[Incarnation, float | None]:
        """Everybody writes a little more, then falls silent; how long it takes until all of it is closed."""
        now = asyncio.get_running_loop().time()
        for job in self.scenario.jobs:
            while job.name not in self.current:
                if not await self.apply(job):
                    await asyncio.sleep(1.0)
            await self._resume(job)
        self._tasks[0].cancel()
        await asyncio.sleep(0)
        for host in self.hosts:
            host.server.finish()
        healed = max(now, asyncio.get_running_loop().time())
        self.due = {key: self._due_index(key) for key in self.current.values()}
        closed: dict[Incarnation, float | None] = dict.fromkeys(self.due)
        deadline = healed + max(3 * job.size_s for job in self.scenario.jobs) + LIVENESS_S + 120
        while asyncio.get_running_loop().time() < deadline and None in closed.values():
            await asyncio.sleep(0.5)
            for key, index in self.due.items():
                if closed[key] is None and self._closed(key) > index:
                    closed[key] = asyncio.get_running_loop().time() - self._due_at(key, index, healed)
                    self.say(
                        f"everything due of {key[0]} (up to {index}) is closed after {closed[key]:.1f} s"
                    )
        return closed

    async def _resume(self, job: Job) -> None:
        for _ in range(30):
            if await self.ask("resume", {"job": f"sim/{job.name}"}) is not None:
                return
            await asyncio.sleep(1.0)

    def _due_index(self, key: Incarnation) -> int:
        """The last interval that anybody has written into."""
        slide_us = self.jobs[key].slide_us
        stamps = [line.ts_us for host in self.hosts for line in host.server.ledger if line.kind == "good"]
        return max(stamps, default=EPOCH_US) // slide_us

    def _due_at(self, key: Incarnation, index: int, healed: float) -> float:
        """When the interval was over by every clock, or the faults, whichever was later."""
        job = self.jobs[key]
        end_us = index * job.slide_us + job.size_us + job.lateness_s * 1_000_000
        now_us = [host.clock.us() for host in self.hosts if not host.left]
        now = asyncio.get_running_loop().time()
        return max(healed, now + (end_us - min(now_us)) / 1e6)

    def _closed(self, key: Incarnation) -> int:
        """First interval of a job that is not closed, by what its newest master says."""
        found = [
            (master.epoch, master.closer.closed)
            for host in self.hosts
            if host.local is not None
            for master in host.local.control.leadership.masters.values()
            if (master.manifest.qualified, master.manifest.incarnation) == key
        ]
        return max(found, default=(0, FIRST))[1]

    async def results(self, key: Incarnation) -> Published:
        """All results of a job, as any agent tells them."""
        found: Published = {}
        start: int | None = None
        end = asyncio.get_running_loop().time() + READ_S_MAX
        while asyncio.get_running_loop().time() < end:
            reply = await self.ask("results", {"job": key[0], "from": start, "limit": 500})
            if reply is None:
                await asyncio.sleep(0.5)
                continue
            page = decode_page(reply.payload)
            if not page:
                break
            for record, rows in page:
                found[record.index] = (record, rows)
            start = page[-1][0].index + 1
        return found

    async def replay(self) -> list[str]:
        """Deliver every message once more to who is there; what changed."""
        before = {key: await self.results(key) for key in self.current.values()}
        frames, self.network.keep = [*self.network.frames], False
        by_id = {host.id: host for host in self.hosts}
        for sender, target, frame in frames:
            host = by_id.get(target)
            if host is not None and host.transport is not None:
                self.network.again(sender, host.transport, frame)
        await asyncio.sleep(20.0)
        after = {key: await self.results(key) for key in self.current.values()}
        return [
            f"{key[0]} {index}: {published.get(index)} became {after[key].get(index)}"
            for key, published in before.items()
            for index in sorted(published.keys() | after[key].keys())
            if published.get(index) != after[key].get(index)
        ]


async def _watch(task: asyncio.Task[Outcome]) -> None:
    """End a run that takes far longer than any other: it goes round in circles."""
    began = time.process_time()
    while time.process_time() - began < SEED_CPU_S_MAX:  # noqa: ASYNC110 - virtual time costs nothing
        await asyncio.sleep(1.0)
    task.cancel(f"no end within {SEED_CPU_S_MAX} s of processor time")


async def _watched(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    task = asyncio.get_running_loop().create_task(work)
    watch = asyncio.get_running_loop().create_task(_watch(task))
    try:
        return await task
    except asyncio.CancelledError as error:
        raise TimeoutError(str(error)) from None
    finally:
        watch.cancel()


async def _run(
    scenario: Scenario, system: SimOS, path: type[SimPath], on_log: Callable[[str], None] | None
) -> Outcome:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_exception)
    swarm = Swarm(scenario, system, path, on_log)
    await swarm.begin()
    await asyncio.sleep(scenario.calm_s)
    nemesis = Nemesis(swarm, random.Random(f"nemesis/{scenario.seed}"))
    await nemesis.run(scenario.safety_s)
    closed = await swarm.settle()
    final = {key: await swarm.results(key) for key in swarm.current.values()}
    replayed = await swarm.replay() if scenario.replay else []
    limits = limits_broken(swarm.hosts, system)
    now = loop.time()
    absent = {
        host.name: [*host.away, *([(host.down_since, now)] if host.down_since is not None else [])]
        for host in swarm.hosts
    }
    await swarm.end()
    return Outcome(
        scenario=scenario,
        history=swarm.history,
        truths=truths(swarm.hosts, swarm.history, swarm.jobs),
        final=final,
        due=swarm.due,
        closed_in_s=closed,
        absent=absent,
        founders=swarm.founders,
        bugs=[f"{host.name}: {host.bug!r}" for host in swarm.hosts if host.bug is not None],
        replayed=replayed,
        limits=limits,
        trace=swarm.network.trace,
        seconds=now,
        faults=nemesis.count,
        crashes=sum(host.lives for host in swarm.hosts) - len(swarm.hosts),
        messages=swarm.network.counters["delivered"],
    )


def _on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


def run(scenario: Scenario | int, on_log: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed, or a scenario made of one."""
    scenario = draw(scenario) if isinstance(scenario, int) else scenario
    system = SimOS()
    with installed(system, scenario.poll_s) as path:
        return vloop.run(_watched(_run(scenario, system, path, on_log)))


def check(outcome: Outcome, names: tuple[str, ...] = invariants.ENFORCED) -> dict[str, list[str]]:
    """What is violated, by invariant."""
    found = {name: [*invariants.ALL[name](outcome)] for name in names}
    return {name: lines for name, lines in found.items() if lines}
