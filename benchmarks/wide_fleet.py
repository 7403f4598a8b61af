"""Whole agents on virtual time, whose links have the latencies of a trace: from the seal to readers.

Owns the links, the readers and the measurement for `wide_sim`. The agents are those of `tests.sim.world`, in
which only the host is simulated. A link delivers in order, as a connection does, after half of the round trip
of the present slice. It can be cut, and an agent can be stopped and continued (SIGSTOP): what it sends and
gets meanwhile waits.

The latency of an interval at a reader is the time from the last seal of its members to the answer. Each
member seals an interval with its first record behind it; all agents write at about the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from benchmarks.harness import checked
from benchmarks.wide_traces import STEP_S, WideNetwork
from elfmesh.control.answers import OK
from elfmesh.control.causes import Causes
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.terms import PathLayout
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages_parts import Part, SitePart
from elfmesh.errors import ElfError
from elfmesh.interval_map import END
from elfmesh.machine import Contact
from elfmesh.srt.messages import SegmentUp
from tests.sim.world.agents import SimAgent, SimFleet, line, wall_us
from tests.sim.world.memnet import MemoryTransport
from tests.sim.world.network import LinkModel
from tests.sim.world.wall import EPOCH_US

JOB = """CREATE JOB sim.n {} DEADLINE '{} s' AS SELECT k, count(*) AS n, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '{}' SECOND), k"""
NAME = "sim/n"
KEYS, SPREAD_S = 100, 0.05
"""Keys of all agents together, and within which time of the end of an interval all agents write."""

APPLIES_MAX = 5
"""Attempts to apply the job, because a refusal may say that an agent does not answer and to try again."""

_NEXT = 1e-9


class TraceLink(LinkModel):
    """Links with the latencies of a network.

    Attributes:
        began: when the first slice begins; None: all pairs are as usual.
        cut: pairs of agents between which nothing arrives, in both orders.
        stopped: agents that are stopped, and until when.
    """

    def __init__(self, network: WideNetwork, numbers: dict[bytes, int]) -> None:
        super().__init__()
        self._delays: list[list[list[float]]] = network.delays.tolist()
        self._usual: list[list[float]] = network.usual.tolist()
        self._numbers = numbers
        self.began: float | None = None
        self.cut: set[tuple[bytes, bytes]] = set()
        self.stopped: dict[bytes, float] = {}

    def latency(self, src: bytes, dst: bytes, now: float) -> float:
        """Seconds one way."""
        slices = self._delays
        now_is = self._usual
        if self.began is not None:
            now_is = slices[int((now - self.began) / STEP_S) % len(slices)]
        return now_is[self._numbers[src]][self._numbers[dst]]

    def connected(self, src: bytes, dst: bytes) -> bool:
        return (src, dst) not in self.cut

    def deliveries(self, src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
        if (src, dst) in self.cut:
            return []
        arrival = max(now, self.stopped.get(src, 0.0)) + self.latency(src, dst, now)
        arrival = max(arrival, self.stopped.get(dst, 0.0), self._last.get((src, dst), 0.0) + _NEXT)
        self._last[src, dst] = arrival
        return [arrival - now]


class WideFleet:
    """A fleet with one job, on the links of a network.

    Args:
        paths: the clause PATHS of the job; "" for one tree.
        width_s: of the job's intervals.
        lines: records of an agent in an interval.

    Attributes:
        sealed: when the last member sealed an interval.
        read: when each reader had an interval.
        uplinks: pairs of a child and its parent in different regions.
        crossed: bytes between regions by kind of message, without those of the overlay.
        direct: parts from gateways to the sites, and their bytes.
        completeness: of the record of each interval.
        steps: what the agents noted (`control.causes`), for the story of a slow interval.
    """

    def __init__(
        self,
        network: WideNetwork,
        paths: str,
        *,
        seed: int = 1,
        width_s: float = 2,
        lines: int = 2,
        deadline_s: int = 60,
    ) -> None:
        count = len(network.regions)
        self._deadline_s, self._width_us = deadline_s, round(width_s * 1e6)
        self.network, self.paths, self.width_s, self.lines = network, paths, width_s, lines
        self.rng = random.Random(f"wide/{seed}")
        self.fleet = SimFleet(seed, count, regions=network.regions)
        self.link = TraceLink(network, {each.id: each.number for each in self.fleet.agents})
        self.fleet.network.link = self.link
        self.sealed: dict[int, float] = {}
        self.read: dict[int, dict[int, float]] = defaultdict(dict)
        self.steps: list[tuple[float, str, str, int, int, str]] = []
        self.crossed: Counter[str] = Counter()
        self.direct: Counter[str] = Counter()
        self.completeness: dict[int, float] = {}
        self.uplinks: set[tuple[bytes, bytes]] = set()
        self._incarnation, self._readers = "", 0
        self._seals: Counter[int] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    # -- life --------------------------------------------------------------------------------------------

    async def begin(self, calm_s: float = 40.0) -> None:
        """All agents join, the job is applied, its voters move and votes begin; all links are as usual."""
        await self.fleet.start()
        text = JOB.format(self.paths, self._deadline_s, self.width_s)
        for attempt in range(APPLIES_MAX):
            reply = await self.fleet.agents[attempt].ask("apply", {"text": text})
            if reply.status == OK:
                break
        checked(reply.status == OK, f"no agent applies the job: {reply.body}")
        self._tasks = [asyncio.create_task(self._write())]
        await asyncio.sleep(calm_s)
        master = self.master
        assert master is not None
        self._incarnation = master.term.manifest.incarnation

    def slices_begin(self) -> None:
        """From now on links have the latencies of the slices."""
        self.link.began = asyncio.get_running_loop().time()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.fleet.check()

    def add_readers(self, numbers: Collection[int]) -> None:
        """Readers follow the job at these agents."""
        self._readers += len(numbers)
        self._tasks += [asyncio.create_task(self._follow(self.fleet.agents[each])) for each in numbers]

    @property
    def master(self) -> Master | None:
        """The master of the job with the highest epoch."""
        found = [
            master
            for agent in self.fleet.agents
            if agent.local is not None
            for master in agent.local.control.leadership.masters.values()
        ]
        return max(found, key=lambda each: each.term.epoch, default=None)

    def agent(self, contact: bytes) -> SimAgent:
        return next(each for each in self.fleet.agents if each.id == contact)

    @property
    def layout(self) -> PathLayout | None:
        """The layout that is in force."""
        master = self.master
        return None if master is None else master.term.layouts.layout

    def stats(self) -> Counter[str]:
        """The counters of all agents that run, together."""
        found: Counter[str] = Counter()
        for agent in self.fleet.agents:
            if agent.local is not None:
                found.update(agent.local.control.stats())
        return found

    @property
    def interval(self) -> int:
        """The interval in which we are."""
        return int(wall_us() // self._width_us)

    def ended(self, interval: int) -> float:
        """Return when an interval has ended, on the clock of the loop."""
        return ((interval + 1) * self._width_us - EPOCH_US) / 1e6

    async def _write(self) -> None:
        """All hosts write at the beginning of each interval."""
        number = 0
        while True:
            await asyncio.sleep((self._width_us - wall_us() % self._width_us) / 1e6)
            number += 1
            for agent in self.fleet.agents:
                delay = self.rng.random() * SPREAD_S
                asyncio.get_running_loop().call_later(delay, self._lines, agent)

    def _lines(self, agent: SimAgent) -> None:
        keys = (f"/{self.rng.randrange(KEYS)}" for _ in range(self.lines))
        agent.log.write(*(line(int(wall_us()), key, 1) for key in keys))

    async def _follow(self, reader: SimAgent) -> None:
        """Ask for each next record, as `elf results --follow` does."""
        loop, at = asyncio.get_running_loop(), self.interval - 2
        while True:
            body = {"job": NAME, "from": at, "wait": 20, "state": "final", "incarnation": self._incarnation}
            try:
                reply = await reader.ask("results", body)
            except ElfError:
                reply = None
            if reply is None or reply.status != 200:
                await asyncio.sleep(0.1)
                continue
            for record, _ in decode_page(reply.payload):
                self.read[record.index][reader.number] = loop.time()
                self.completeness[record.index] = record.completeness
                at = record.index + 1

    # -- faults ------------------------------------------------------------------------------------------

    def target(self, fault: str) -> tuple[bytes, ...]:
        """Return the agent that a fault hits, or both ends of the link; () if one tree has none such."""
        master, layout = self.master, self.layout
        assert master is not None
        led, sites = master.term.terms.master, {each.id for each in master.term.terms.acceptors}
        gateways = [] if layout is None else [each.contact for each in layout.gateways]
        others = [each for each in gateways if each.id != led.id and each.region != led.region]
        rest = [each for each in self.fleet.agents if each.id not in sites | {each.id for each in gateways}]
        match fault:
            case "the master is killed":
                return (led.id,)
            case "a site is killed":
                away = sorted(sites - {led.id})
                return (min(away, key=lambda each: any(each == other.id for other in gateways)),)
            case "a gateway is killed":
                others.sort(key=lambda each: each.id in sites)
                return tuple(each.id for each in others[:1])
            case "a member is killed":
                return (rest[0].id,)
            case _ if layout is None:
                return next((one, two) for one, two in sorted(self.uplinks) if two == led.id)
            case _:
                return others[0].id, led.id

    def strike(self, target: tuple[bytes, ...]) -> None:
        """Kill an agent, or cut the link between two."""
        if len(target) == 1:
            self.agent(target[0]).crash()
        else:
            one, two = target
            self.link.cut |= {(one, two), (two, one)}

    # -- what is measured --------------------------------------------------------------------------------

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the seals, and count what passes between regions."""
        note, send, codec = Causes.note, self.fleet.network.send, self.fleet.network.codec
        names = {each.id[:8]: each.name for each in self.fleet.agents}
        regions = dict(enumerate(self.network.regions))
        numbers = {each.id: each.number for each in self.fleet.agents}

        def noted(
            causes: Causes, now: float, kind: str, tree: bytes, start: int, stop: int, **more: Any
        ) -> None:
            note(causes, now, kind, tree, start, stop, **more)
            if kind == "sealed" and stop < END:
                for interval in range(max(start, stop - 64), stop):
                    self.sealed[interval] = now
                    self._seals[interval] += 1
            self.steps.append(
                (now, names[causes._prefix[:8]], kind, start, stop, str(more.get("detail", "")))
            )

        def sent(source: MemoryTransport, to: Contact, frame: bytes) -> None:
            one, two = numbers.get(source.me.id if source.me else b""), numbers.get(to.id)
            if one is not None and two is not None and one != two:
                message, _ = codec.decode(frame)
                kind = type(message).__name__
                if regions[one] != regions[two] and not type(message).__module__.startswith(
                    "elfmesh.overlay"
                ):
                    self.crossed[kind] += len(frame)
                if isinstance(message, SegmentUp) and regions[one] != regions[two] and source.me is not None:
                    self.uplinks.add((source.me.id, to.id))
                if isinstance(message, Part | SitePart):
                    self.direct[kind] += len(frame)
                    self.direct[f"{kind}s"] += bool(message.segment.entries)
            send(source, to, frame)

        with mock.patch.object(Causes, "note", noted), mock.patch.object(self.fleet.network, "send", sent):
            yield

    async def wait_sealed(self, interval: int) -> None:
        """Wait until all members have sealed an interval."""
        async with asyncio.timeout(5 * self.width_s):
            while self._seals[interval] < len(self.fleet.agents):  # noqa: ASYNC110 - virtual time costs nothing
                await asyncio.sleep(0.005)

    async def wait_read(self, stop: int, most_s: float) -> None:
        """Wait until all readers have all intervals below `stop`, for some seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while len(self.read[stop - 1]) < self._readers:  # noqa: ASYNC110 - virtual time costs nothing
                    await asyncio.sleep(0.1)

    def latencies(self, first: int, stop: int) -> list[float]:
        """Return the seconds from the last seal to each reader, of the intervals [first, stop)."""
        found = []
        for interval in range(first, stop):
            checked(interval in self.read, f"{self.paths or 'one tree'}: no reader has interval {interval}")
            found += [at - self.sealed[interval] for at in self.read[interval].values()]
        return found

    def story(self, interval: int) -> list[str]:
        """Return the steps about an interval, with the seconds since its last seal."""
        return [
            f"{at - self.sealed[interval]:+.3f} {name} {kind} [{start}, {stop}) {detail}"
            for at, name, kind, start, stop, detail in sorted(self.steps)
            if start <= interval < stop and kind != "sealed"
        ]
