"""All hosts of one run: what they are asked, what their jobs are told, and what they say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from elfmesh.agent.runtime.core import codec
from elfmesh.api.web.whole_rows import whole
from elfmesh.control.answers import BAD_REQUEST, CONFLICT, OK, UNAVAILABLE
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ElfError
from tests.sim.swarm.clients import change
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.host import Host, Killed, Surroundings
from tests.sim.swarm.install import SimPath
from tests.sim.swarm.judging import registers
from tests.sim.swarm.judging.history import History, Incarnation
from tests.sim.swarm.judging.ordered_topic import TEXT as ORDERED_TEXT
from tests.sim.swarm.judging.outcome import Published
from tests.sim.swarm.judging.topics import ORDERED
from tests.sim.swarm.network import SwarmNetwork
from tests.sim.swarm.recovering import Recovering
from tests.sim.swarm.scenario import RECOVERY, Scenario
from tests.sim.world.wall import EPOCH_US

WRITE_EVERY_S = 0.25
WRITE_FROM_S = 30.0
"""When web servers with a seed of their own begin: each fleet has been formed by then."""

FOLLOW_S_MIN, FOLLOWS_PER_INTERVAL = 2.0, 5
HOSTS_MAX = 10
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
        self.network.swarm_link.distances = scenario.distances
        self.around = Surroundings(scenario, system, self.network, self.history, path, self.seeds)
        self.hosts: list[Host] = []
        system.on_open = self._opened
        for number in range(scenario.hosts):
            self.hosts.append(Host(self.around, number))
        self.jobs: dict[Incarnation, Job] = {}
        self.current: dict[str, Incarnation] = {}
        self.ordered: Incarnation | None = None
        self.unsure: set[str] = set()
        self.pausing: set[str] = set()
        """Jobs that were asked to pause, and no agent has said that they do: they may still."""
        self.founders: dict[Incarnation, tuple[str, ...]] = {}
        self.faults = self.updates = self.written_until_us = 0
        self._silent_until: dict[int, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._watching: list[asyncio.Task[None]] = []

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

    def voters(self) -> set[bytes]:
        """Who votes on a job, by the newest registers."""
        known = [groups[-1][1] for groups in self.history.voters.values()]
        return {voter for groups in known for group in groups for voter in group}

    def master(self) -> Host | None:
        """Who leads a job with the highest epoch."""
        leading = [
            (master.term.epoch, -host.number, host)
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
        if self.scenario.ordered:
            assert await self.ask("apply", {"text": ORDERED_TEXT}) is not None
            self.ordered = (ORDERED, self._incarnation(ORDERED))
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._follow())]
        if self.scenario.has(RECOVERY):
            watching = Recovering(self, random.Random(f"recovering/{self.scenario.seed}"))
            self._watching = [asyncio.create_task(work()) for work in (watching.watch, watching.read)]
        self._tasks += [asyncio.create_task(change(self, number)) for number in range(self.scenario.clients)]

    async def end(self) -> None:
        tasks = [*self._tasks, *self._watching]
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for host in self.hosts:
            host.kill()
        for failed in ended:
            if isinstance(failed, Exception):  # else a check that ended early would have found nothing
                raise failed

    async def ask(self, verb: str, body: dict[str, Any], timeout_s: float = 20.0) -> Any:
        """Ask a random agent; None if it does not answer or says no."""
        reply = await self.answered(verb, body, timeout_s)
        return reply if reply is not None and reply.status == 200 else None

    async def answered(self, verb: str, body: dict[str, Any], timeout_s: float = 20.0) -> Reply | None:
        """What a random agent answers; None if it does not."""
        since, reply = self.history.now(), None
        try:
            reply = await self.request(self.rng, verb, body, timeout_s)
            return reply
        finally:
            self.history.clients.note(since, verb, body, reply)

    async def request(
        self, rng: random.Random, verb: str, body: dict[str, Any], timeout_s: float
    ) -> Reply | None:
        """What an agent answers that a client chooses."""
        running = self.running()
        if not running:
            return None
        try:
            return await rng.choice(running).ask(verb, body, timeout_s)
        except (ElfError, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            return None
        except Killed:
            return None

    async def apply(self, job: Job, *, founding: bool = False) -> bool:
        self.history.asked[f"sim/{job.name}"] += 1
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
        """The newest incarnation of a job that any agent leads."""
        found = [
            (master.term.epoch, master.term.manifest.incarnation)
            for host in self.hosts
            if host.local is not None
            for master in host.local.control.leadership.masters.values()
            if master.term.manifest.qualified == name
        ]
        return max(found, default=(0, ""))[1]

    async def _write(self) -> None:
        """The web servers; they write whether or not an agent runs.

        With a seed of their own, what they write does not depend on anything else, and its time is exact.
        """
        rng, traffic, tick = self.rng, self.scenario.traffic, round(WRITE_FROM_S / WRITE_EVERY_S)
        if self.scenario.traffic_seed is not None:
            rng = random.Random(f"traffic/{self.scenario.traffic_seed}")
            await asyncio.sleep(WRITE_FROM_S - asyncio.get_running_loop().time())
        while True:
            now, tick = asyncio.get_running_loop().time(), tick + 1
            for host in self.hosts:
                if self.scenario.traffic_seed is not None:
                    now = tick * WRITE_EVERY_S
                    host.server.wall_us = partial(int, EPOCH_US + round(now * 1e6))
                if self._silent_until.get(host.number, 0.0) > now:
                    continue
                host.server.finish()
                mean = traffic.rate * WRITE_EVERY_S
                host.server.write(int(mean) + (rng.random() < mean - int(mean)))
                if traffic.silent and rng.random() < traffic.silent / 40:
                    self._silent_until[host.number] = now + rng.uniform(1, 4) * self.scenario.jobs[0].slide_s
            await asyncio.sleep(WRITE_EVERY_S)

    async def _follow(self) -> None:
        """A reader with a stored position, as Spark is one: it asks any agent, from where it stopped."""
        at: dict[Incarnation, int | None] = {}
        pause_s = max(FOLLOW_S_MIN, min(job.slide_s for job in self.scenario.jobs) / FOLLOWS_PER_INTERVAL)
        while True:
            await asyncio.sleep(pause_s)
            for key in (*self.current.values(), *([self.ordered] if self.ordered else ())):
                reply = await self.ask("results", {"job": key[0], "from": at.get(key), "limit": 50}, 5.0)
                if reply is None or reply.body["incarnation"] != key[1]:  # as every reader looks
                    continue
                page = await self.whole_rows(key, reply)
                self.history.answered("follower", key[0], [record.index for record, _ in page], at.get(key))
                for record, rows in page:
                    answers = self.history.followed.setdefault(("follower", key), {})
                    answers.setdefault(record.index, []).append((record, rows))
                    at[key] = record.index + 1

    async def whole_rows(self, key: Incarnation, reply: Reply) -> list[tuple[ResultRecord, bytes]]:
        """The records of an answer with all their rows, asked for as sinks do."""

        async def ask(verb: str, body: dict[str, Any]) -> Reply:
            return await self.ask(verb, body) or Reply(0, UNAVAILABLE)

        found = decode_page(reply.payload)
        return [(record, await whole(ask, {"job": key[0]}, record, rows)) for record, rows in found]

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
        try:
            reply = await self.ask("delete", {"job": key[0]})
        except asyncio.CancelledError:  # its agent goes on to ask
            self.current[job.name] = key
            self.unsure.add(job.name)
            raise
        self.say(f"delete {key[0]}: {'done' if reply is not None else 'no answer'}")
        if reply is None:
            self.current[job.name] = key
            self.unsure.add(job.name)
        else:
            self.history.deleted[key] = self.history.now()
            if self.current.get(job.name) == key:  # meanwhile another client has found it unchanged
                del self.current[job.name]

    async def update_job(self) -> None:
        """Change a job's filter in the middle of an interval: another text, evaluated again, the same
        rows."""
        job = self.rng.choice(self.scenario.jobs)
        if job.name in self.current and self.rng.random() < 0.5:
            reply = await self._change("undo", {"job": f"sim/{job.name}"})
            self.say(f"undo {job.name}: {reply.body if reply is not None else 'no answer'}")
        elif job.name in self.current:
            self.updates += 1
            more = self.scenario.condition(self.updates)
            head, where, rest = job.text.partition(" WHERE ")
            if not where:
                head, where, rest = job.text.partition(" GROUP BY ")
                more = f" WHERE {more}"
            text = f"{head}{where}{more} AND {rest}" if where == " WHERE " else f"{head}{more}{where}{rest}"
            reply = await self._change("apply", {"text": text, "job": f"sim/{job.name}"})
            self.say(f"update {job.name}: {reply.body if reply is not None else 'no answer'}")

    async def _change(self, verb: str, body: dict[str, Any]) -> Reply | None:
        """Ask for another version of a job; what is refused makes none."""
        self.history.asked[body["job"]] += 1
        reply = await self.answered(verb, body)
        unknown = reply is not None and reply.body.get("outcome") == "unknown"
        if reply is not None and reply.status in (BAD_REQUEST, CONFLICT) and not unknown:
            self.history.asked[body["job"]] -= 1
        return reply if reply is not None and reply.status == OK else None

    async def pause_job(self) -> None:
        job = self.rng.choice(self.scenario.jobs)
        self.say(f"pause sim/{job.name}")
        try:
            self.pausing.add(job.name)
            if await self.ask("pause", {"job": f"sim/{job.name}"}) is not None:
                self.pausing.discard(job.name)
            await asyncio.sleep(self.rng.uniform(0, 20))
        finally:
            self.say(f"resume sim/{job.name}")
        await self.ask("resume", {"job": f"sim/{job.name}"})

    # -- after the faults --------------------------------------------------------------------------------

    @property
    def lost(self) -> dict[str, str]:
        """Jobs that no quorum can decide about any more."""
        history, now = self.history, self.history.now()
        jobs = {
            job: registers.lost(history, job, now) or registers.forgotten(history, job, now)
            for job in history.voters
        }
        return {job: how for job, how in jobs.items() if how}

    def fall_silent(self) -> None:
        """The web servers write no more, and no client changes anything."""
        for task in (self._tasks[0], *self._tasks[2:]):
            task.cancel()
        self.written_until_us = EPOCH_US + int(asyncio.get_running_loop().time() * 1e6)
        for host in self.hosts:
            host.server.wall_us = host.clock.us

    async def results(self, key: Incarnation) -> Published:
        """All results of a job, as any agent tells them."""
        found: Published = {}
        start: int | None = None
        end = asyncio.get_running_loop().time() + READ_S_MAX
        while asyncio.get_running_loop().time() < end:
            reply = await self.ask("results", {"job": key[0], "from": start, "limit": 500})
            if reply is None or reply.body["incarnation"] != key[1]:
                await asyncio.sleep(0.5)
                continue
            page = await self.whole_rows(key, reply)
            if not page:
                break
            self.history.answered("reader", key[0], [record.index for record, _ in page], start)
            for record, rows in page:
                found[record.index] = (record, rows)
            start = page[-1][0].index + 1
        return found

    async def replay(self, closed: Callable[[Incarnation], int]) -> list[str]:
        """Deliver every message once more to who is there; what changed.

        One more interval is closed before: what members had for intervals that were closed without them is
        counted in it, and would else come while the messages do.
        """
        end = asyncio.get_running_loop().time() + READ_S_MAX
        for key in self.current.values():
            following = closed(key) + 1
            while asyncio.get_running_loop().time() < end and closed(key) < following:  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.5)
        before = {key: await self.results(key) for key in self.current.values()}
        frames, self.network.keep = [*self.network.frames], False
        by_id = {host.id: host for host in self.hosts}
        for sender, to, frame in frames:
            host = by_id.get(to.id)
            if host is not None and host.transport is not None:
                self.network.again(sender, host.transport, frame)
        await asyncio.sleep(20.0)
        after = {key: await self.results(key) for key in self.current.values()}
        return [
            f"{key[0]} {index}: {published.get(index)} became {after[key].get(index)}"
            for key, published in before.items()
            for index in sorted(published.keys() | after[key].keys())
            if published.get(index) != after[key].get(index) and not _is_next(published, after[key], index)
        ]


def _is_next(before: Published, after: Published, index: int) -> bool:
    """Whether a record is of the time that has passed since: behind all others, and of no record at all.

    It has rows if partitions have ended because they had no record for their duration.
    """
    if index in before or index <= max(before, default=index):
        return False
    record, rows = after[index]
    return (not rows or record.state == "FINAL_PARTIAL") and not any(record.counts.values())
