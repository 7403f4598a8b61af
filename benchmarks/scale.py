"""What an agent costs as its fleet grows, and how soon results are there.

Whole simulated agents (`tests.sim.world.agents`): the product's pump, cores, workers and formats, on virtual
time, without disks. Each job has a tenth of the agents as members, so an agent is a member of a tenth of the
jobs. Every agent writes a line per second. A size runs in a process of its own; `growth` runs several and
states the exponent x of N^x for each figure, by least squares: 0 does not grow with the fleet, 1 grows as it.

    python -m benchmarks.scale AGENTS JOBS      one size, as JSON
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.harness import ROOT, Figure, checked, percentile
from elfmesh.agent.runtime.core import codec
from elfmesh.control.protocol import events as ctl
from elfmesh.machine import Contact, Message
from elfmesh.units import MICROS
from tests.sim.world import vloop
from tests.sim.world.agents import MemoryResults, SimFleet, line, until, wall_us
from tests.sim.world.memnet import MemoryNetwork, MemoryTransport

PARTS_OF_FLEET = 10
EVERY_S = 2
WRITE_EVERY_S = 1.0
SETTLE_S = 10.0
MEASURED_S = 10.0
SIZES = {False: (100, 300, 1000), True: (20, 40)}
JOBS = {False: 20, True: 10}
LARGE = (10_000, 100)
JOB = """CREATE JOB scale.j{number} EVERY '{every} s' DEADLINE '60 s' AS
SELECT k, count(*) AS n FROM log ON (part = 'p{part}') GROUP BY k"""


class Cost(msgspec.Struct):
    """What one agent of a fleet costs, and how soon its results are there.

    Attributes:
        agents, jobs: the size.
        join_messages, join_cpu_ms: of an agent, until all have joined.
        idle_messages, idle_bytes, idle_cpu_ms: of an agent and second, without a job.
        messages, bytes, cpu_ms: the same with all jobs.
        apply_s: from the request for a job to its answer, median, in virtual seconds.
        result_s, result_p99_s: from the end of an interval to its record at the master, in virtual seconds.
        memory_kb: what the process has grown by for each agent.
        kinds: messages of an agent and second by type, with all jobs, the most frequent first.
    """

    agents: int
    jobs: int
    join_messages: float
    join_cpu_ms: float
    idle_messages: float
    idle_bytes: float
    idle_cpu_ms: float
    messages: float
    bytes: float
    cpu_ms: float
    apply_s: float
    result_s: float
    result_p99_s: float
    memory_kb: float
    kinds: dict[str, float]


class CountingNetwork(MemoryNetwork):
    """A network that counts the messages and bytes that are sent, by type."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, codec())
        self.kinds: Counter[str] = Counter()
        self.bytes = 0

    def transport(self, number: int) -> MemoryTransport:
        return _CountingTransport(self, super().transport(number).address)


class _CountingTransport(MemoryTransport):
    network: CountingNetwork

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        if not self.closed:
            frame = self.network.codec.encode(message, payload)
            self.network.kinds[type(message).__name__] += 1
            self.network.bytes += len(frame)
            self.network.send(self, to, frame)


class _TimedResults(MemoryResults):
    """Results that note when the first agent of a job has each record, in virtual time.

    Attributes:
        delays: by job and interval, the seconds from the end of the interval.
    """

    def __init__(self, delays: dict[tuple[bytes, int], float]) -> None:
        super().__init__()
        self.delays = delays

    def append(self, *effects: ctl.Append) -> None:
        for effect in effects:
            assert effect.record.end_us is not None
            delay = (wall_us() - effect.record.end_us) / MICROS
            self.delays.setdefault((effect.job, effect.record.index), delay)
            checked(effect.record.completeness == 1.0, f"a record lacks {effect.record.missing}")
        super().append(*effects)


class _Span:
    """What is counted between two moments, for each agent."""

    def __init__(self, network: CountingNetwork, agents: int) -> None:
        self._network, self._agents = network, agents
        self._sent, self._bytes, self._cpu_s = network.kinds.copy(), network.bytes, time.process_time()

    def cpu_ms(self) -> float:
        return 1e3 * (time.process_time() - self._cpu_s) / self._agents

    def messages(self) -> Counter[str]:
        return self._network.kinds - self._sent

    def each(self, seconds: float = 1.0) -> tuple[float, float, float]:
        """Return messages, bytes and milliseconds of processor time."""
        share = self._agents * seconds
        sent = self._network.bytes - self._bytes
        return self.messages().total() / share, sent / share, self.cpu_ms() / seconds


def resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(each.split()[1] for each in status.splitlines() if each.startswith("VmRSS:")))


async def measured(agents: int, jobs: int) -> Cost:
    """Form a fleet, let it stand idle, give it its jobs, and let them run."""
    gc.collect()
    before_kb = resident_kb()
    fleet = SimFleet(1, agents)
    network = fleet.network = CountingNetwork(1)
    delays: dict[tuple[bytes, int], float] = {}
    for agent in fleet.agents:
        agent.labels = {"part": f"p{agent.number % PARTS_OF_FLEET}"}
        agent.results = _TimedResults(delays)
    span = _Span(network, agents)
    await fleet.start()
    join_messages, _, join_cpu_ms = span.each()

    writing = asyncio.create_task(_write(fleet))
    await asyncio.sleep(SETTLE_S)
    span = _Span(network, agents)
    await asyncio.sleep(MEASURED_S)
    idle = span.each(MEASURED_S)

    now, applied = asyncio.get_running_loop().time, []
    for number in range(jobs):
        began = now()
        text = JOB.format(number=number, every=EVERY_S, part=number % PARTS_OF_FLEET)
        await fleet.apply(text, number * 7 % agents)
        applied.append(now() - began)

    async def all_run() -> bool:
        return len({job for job, _ in delays}) == jobs

    await until(all_run, 120)
    await asyncio.sleep(SETTLE_S)
    known = set(delays)
    span = _Span(network, agents)
    await asyncio.sleep(MEASURED_S)
    busy, sent = span.each(MEASURED_S), span.messages()
    fleet.check()
    late = [delay for key, delay in delays.items() if key not in known]
    checked(len(late) >= jobs * (MEASURED_S // EVERY_S - 1), "a job has published too few records")
    gc.collect()
    memory_kb = (resident_kb() - before_kb) / agents
    writing.cancel()
    share = agents * MEASURED_S
    kinds = {name: round(count / share, 3) for name, count in sent.most_common(12)}
    results = percentile(late, 0.5), percentile(late, 0.99)
    return Cost(
        agents, jobs, join_messages, join_cpu_ms, *idle, *busy, percentile(applied, 0.5), *results,
        memory_kb, kinds,
    )  # fmt: skip


async def _write(fleet: SimFleet) -> None:
    rng = random.Random(1)
    while True:
        for agent in fleet.agents:
            agent.log.write(line(wall_us(), rng.choice("abc"), rng.randrange(100)))
        await asyncio.sleep(WRITE_EVERY_S)


def cost(agents: int, jobs: int) -> Cost:
    """Measure a size in a process of its own, because memory is not given back."""
    command = [sys.executable, "-m", "benchmarks.scale", str(agents), str(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    checked(done.returncode == 0, done.stderr)
    return msgspec.json.decode(done.stdout, type=Cost)


SHOWN: tuple[tuple[str, str, Callable[[Cost], float]], ...] = (
    ("messages until all have joined, of an agent", "messages", lambda each: each.join_messages),
    ("processor time until all have joined, of an agent", "ms", lambda each: each.join_cpu_ms),
    ("messages of an idle agent", "1/s", lambda each: each.idle_messages),
    ("bytes of an idle agent", "B/s", lambda each: each.idle_bytes),
    ("processor time of an idle agent", "ms/s", lambda each: each.idle_cpu_ms),
    ("messages of an agent", "1/s", lambda each: each.messages),
    ("bytes of an agent", "B/s", lambda each: each.bytes),
    ("processor time of an agent", "ms/s", lambda each: each.cpu_ms),
    ("apply", "s", lambda each: each.apply_s),
    ("end of an interval to its record, median", "s", lambda each: each.result_s),
    ("end of an interval to its record, p99", "s", lambda each: each.result_p99_s),
    ("memory of an agent", "kB", lambda each: each.memory_kb),
)


def figures_of(costs: Sequence[Cost]) -> list[Figure]:
    """Return the figures of each size; the largest states the exponent of its growth."""
    figures = []
    for name, unit, value in SHOWN:
        values = [value(each) for each in costs]
        for each, found in zip(costs, values, strict=True):
            last = each is costs[-1] and len(costs) > 1
            grown = f"grows as N^{exponent([each.agents for each in costs], values):.2f}" if last else ""
            title = f"{name}, {each.agents:,} agents, {each.jobs} jobs"
            ratio = found / values[0] if grown and values[0] else 0.0
            figures.append(Figure(title, found, unit, grown, ratio))
    return figures


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return x of the c * N^x that fits the values best, by least squares of the logarithms."""
    logs = [(math.log(size), math.log(value)) for size, value in zip(sizes, values, strict=True)]
    mean_x, mean_y = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    slope: float = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    return slope


def growth(*, small: bool) -> list[Figure]:
    """The same jobs in fleets of several sizes."""
    return figures_of([cost(agents, JOBS[small]) for agents in SIZES[small]])


def large(*, small: bool) -> list[Figure]:
    """One fleet as large as one process can simulate."""
    return figures_of([cost(*((60, 20) if small else LARGE))])


PARTS: dict[str, Callable[..., list[Figure]]] = {"growth": growth, "large": large}


if __name__ == "__main__":
    found = vloop.run(measured(int(sys.argv[1]), int(sys.argv[2])))
    print(json.dumps(msgspec.to_builtins(found)))
