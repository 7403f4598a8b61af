"""Whole agents in simulation: the real pump, cores, workers and frame log, on virtual time.

Only the host is replaced: network, disk, clock, threads and log files are in memory and seeded. A crash takes
back what was not synced.

For stories: the test writes each line itself, says when who crashes or is cut off, and names the rows that
follow. The swarm (`swarm/`) is for what no test names: it draws fleets, faults and traffic from a seed,
has the real reader on a simulated file system, and can only be held against invariants. What a story here
cannot show is anything about files: their rotation, torn lines, full disks.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from elfmesh.agent.runtime.assembly import AgentParts, LocalAgent
from elfmesh.agent.runtime.core import codec
from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.authority.gate import AuthorityGate, open_gate
from elfmesh.ingest.compute import PartialCompute
from elfmesh.ingest.host import InlineExecutor
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.limits import FANOUT_MAX
from elfmesh.machine import Contact
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard
from elfmesh.storage.storage import MemoryStorage
from tests.sim.world.memlog import MemoryLog, MemoryReader
from tests.sim.world.memnet import MemoryNetwork, MemoryTransport
from tests.sim.world.network import Faults
from tests.sim.world.wall import EPOCH_US, stamp


def wall_us() -> int:
    return EPOCH_US + round(asyncio.get_running_loop().time() * 1e6)


class MemoryResults:
    """Results logs in memory; durable, as a synced file is."""

    def __init__(self) -> None:
        self.logs: dict[bytes, tuple[str, list[tuple[ResultRecord, bytes]]]] = {}
        self.earlier: dict[bytes, tuple[str, list[tuple[ResultRecord, bytes]]]] = {}

    def append(self, *effects: ctl.Append) -> None:
        for effect in effects:
            incarnation, records = self.logs.get(effect.job, (effect.incarnation, []))
            if incarnation != effect.incarnation:
                records = []
            if not records or records[-1][0].index < effect.record.index:
                records.append((effect.record, effect.rows))
            self.logs[effect.job] = (effect.incarnation, records)

    def prepare(self, effects: Sequence[ctl.Append]) -> list[bytes]:
        return [b"-" for _ in effects]

    def write(self, effects: Sequence[ctl.Append]) -> None:
        self.append(*effects)

    def sync(self) -> None:
        pass

    def put_back(self, prepared: Sequence[bytes]) -> None:
        pass  # nothing here is ever lost

    def keep_page(self, effect: ctl.KeepPage) -> None:
        raise AssertionError("rows of this size travel with their record")

    def drop(self, job: bytes, *, retire: bool = False) -> None:
        self.earlier.pop(job, None)
        log = self.logs.pop(job, None)
        if retire and log is not None:
            self.earlier[job] = log

    def read(self, effect: ctl.ReadLog) -> ctl.LogRead:
        earlier, records = self.earlier.get(effect.job, ("", []))
        if not effect.incarnation or effect.incarnation != earlier:
            records = self.logs.get(effect.job, ("", []))[1]
        if not records:
            return ctl.LogRead(effect.token)
        wanted = [
            each
            for each in records
            if (effect.start is None or each[0].index >= effect.start)
            and (effect.stop is None or each[0].index < effect.stop)
        ][: effect.limit]
        return ctl.LogRead(
            effect.token,
            encode_page(wanted),
            next=wanted[-1][0].index + 1 if wanted else None,
            earliest=records[0][0].index,
            latest=records[-1][0].index,
            first=records[0][0].index,
        )

    def mend(self, effect: ctl.MendLog) -> None:
        raise AssertionError("nothing here is ever lost")

    def damaged(self) -> tuple[ctl.LogInfo, ...]:
        return ()

    def found(self) -> tuple[ctl.LogInfo, ...]:
        return tuple(
            ctl.LogInfo(job, incarnation, records[-1][0].index if records else None)
            for job, (incarnation, records) in self.logs.items()
        )


class SimAgent:
    """One host: its log and disk outlive the agent on it. `stream` is the name of its log."""

    def __init__(self, fleet: SimFleet, number: int, region: str = "") -> None:
        self.fleet, self.number, self.region = fleet, number, region
        self.name = f"a{number:03}"
        self.id = random.Random(f"{fleet.seed}/{number}").randbytes(20)
        self.log = MemoryLog(number)
        self.storage = MemoryStorage()
        self.results = MemoryResults()
        self.incarnation = 0
        self.guard: CrashGuard | NoGuard = NO_GUARD
        self.policy = OPEN
        self.labels: dict[str, str] = {}
        self.stream = "log"
        self.clock_s = 0.0
        """By how much its wall clock is ahead."""
        self.stopped_us: int | None = None
        """Where its wall clock stands, for steps that are taken after the loop has ended."""
        self.transport: MemoryTransport | None = None
        self.local: LocalAgent | None = None

    @property
    def contact(self) -> Contact:
        assert self.local is not None
        return self.local.pump.me

    def wall_us(self) -> int:
        if self.stopped_us is not None:
            return self.stopped_us
        return wall_us() + round(self.clock_s * 1e6)

    async def start(self, seeds: tuple[tuple[str, int], ...]) -> None:
        self.incarnation += 1
        self.transport = self.fleet.network.transport(self.number)
        host, port = await self.transport.listen()
        self.local = LocalAgent(
            AgentParts(
                me=Contact(self.id, host, port, self.incarnation, region=self.region),
                name=self.name,
                labels=self.labels,
                streams={self.stream: StreamConfig(self.log.number.__str__(), "json", idle="2 s")},
                rng=random.Random(f"{self.fleet.seed}/{self.number}/{self.incarnation}"),
                transport=self.transport,
                storage=self.storage,
                executor=InlineExecutor(),
                compute=PartialCompute(),
                results=self.results,
                open_reader=lambda name, config: MemoryReader(self.log),
                wall_us=self.wall_us,
                guard=self.guard,
                gate=self.gate(),
                fanout=self.fleet.fanout,
            )
        )
        self.local.start(seeds)

    def gate(self) -> AuthorityGate:
        return open_gate(self.storage, self.wall_us, self.policy)

    async def stop(self) -> None:
        """SIGTERM: the agent stops, and is to be started again."""
        assert self.local is not None
        await self.local.pump.stop()
        self.local = None

    def crash(self) -> None:
        """The process is gone in mid-sentence."""
        assert self.local is not None
        assert self.transport is not None
        self.transport.crash()
        self.local.pump.kill()
        self.storage.crash()
        self.local = None

    async def ask(self, verb: str, body: dict[str, Any]) -> ctl.Reply:
        assert self.local is not None
        return await self.local.pump.request(verb, body, 60)


class SimFleet:
    """Some agents on one network."""

    def __init__(
        self,
        seed: int,
        count: int,
        faults: Faults | None = None,
        fanout: int = FANOUT_MAX,
        regions: Sequence[str] = ("",),
    ) -> None:
        self.seed, self.fanout = seed, fanout
        self.network = MemoryNetwork(seed, codec(), faults)
        self.agents = [SimAgent(self, number, regions[number % len(regions)]) for number in range(count)]

    async def start(self) -> None:
        """All agents, a few at a time; returns when every one has joined."""
        for agent in self.agents:
            await agent.start(() if agent.number == 0 else self.seeds(agent))
            await asyncio.sleep(0.02)
        for agent in self.agents:
            assert agent.local is not None
            async with asyncio.timeout(60):
                await agent.local.pump.joined.wait()

    def seeds(self, agent: SimAgent) -> tuple[tuple[str, int], ...]:
        others = [other for other in self.agents if other.local is not None and other is not agent]
        return tuple((other.contact.host, other.contact.port) for other in others[:3])

    async def apply(self, text: str, number: int = 0) -> dict[str, Any]:
        reply = await self.agents[number].ask("apply", {"text": text})
        assert reply.status == 200, reply.body
        return reply.body

    async def results(self, job: str, number: int = 0) -> list[tuple[ResultRecord, list[dict[str, Any]]]]:
        """All results so far, as any agent tells them."""
        found: list[tuple[ResultRecord, list[dict[str, Any]]]] = []
        start: int | None = None
        while True:
            reply = await self.agents[number].ask("results", {"job": job, "from": start, "limit": 500})
            assert reply.status == 200, reply.body
            page = decode_page(reply.payload)
            found += [(record, rows_to_json(ipc_to_table(rows))) for record, rows in page]
            if not page:
                return found
            start = page[-1][0].index + 1

    def check(self) -> None:
        """No agent has met a bug of its own."""
        for agent in self.agents:
            if agent.local is not None and agent.local.pump.failed.done():
                raise agent.local.pump.failed.result()


async def until(condition: Callable[[], Awaitable[Any]], timeout_s: float, every_s: float = 0.25) -> Any:
    """The first true value of `condition`, in virtual time."""
    async with asyncio.timeout(timeout_s):
        while not (value := await condition()):  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(every_s)
        return value


def line(us: int, key: str, value: int) -> bytes:
    return json.dumps({"ts": stamp(us), "k": key, "v": value}).encode()
