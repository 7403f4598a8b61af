"""One simulated host: its disk, its clock, its web server, and the agent that comes and goes on it.

Owns the life of the process (started, killed, paused, restarted by its supervisor) and what the pump gets
from its host. The agent itself is the product's, unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from elfmesh.agent.runtime.assembly import AgentParts, LocalAgent
from elfmesh.control.jobs.row_pages import RowLimits
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ElfError, StorageError
from elfmesh.ingest.compute import PartialCompute
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.machine import Contact
from elfmesh.storage.identity import IDENTITY_FILE, load_identity
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.storage import DiskStorage
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.gate import Gate
from tests.sim.swarm.install import SimPath
from tests.sim.swarm.judging.history import History
from tests.sim.swarm.network import SwarmNetwork, SwarmTransport
from tests.sim.swarm.platter import Disk
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.workload import Server
from tests.sim.world.wall import EPOCH_US

T = TypeVar("T")
LEAVE_S_MAX = 90.0
SUPERVISOR_S = 2.0
"""How soon a failed agent is started again, as a service manager does."""


class Killed(BaseException):
    """The process that runs this code is gone; nothing may catch it but the simulation."""


def _limits(page_bytes: int | None) -> RowLimits:
    return RowLimits() if page_bytes is None else RowLimits(inline=page_bytes, page=page_bytes)


class Clock:
    """A wall clock that is wrong."""

    def __init__(self, offset_s: float, drift: float) -> None:
        self.offset_s, self.drift = offset_s, drift
        self.stepped_at = float("-inf")

    def us(self) -> int:
        now = asyncio.get_running_loop().time()
        return EPOCH_US + round((now * (1 + self.drift) + self.offset_s) * 1e6)

    def step(self, seconds: float) -> None:
        self.offset_s += seconds
        self.stepped_at = asyncio.get_running_loop().time()

    def set_right(self) -> None:
        """It is as all others from now on."""
        if (self.offset_s, self.drift) != (0.0, 0.0):
            self.drift = 0.0
            self.step(-self.offset_s)


class SimExecutor:
    """`Executor` of one process: lanes keep their order, take their time, and stand still in a pause.

    Args:
        gate: of the whole process.
        reading: of the lanes that read logs.
    """

    def __init__(
        self,
        gate: Gate,
        reading: Gate,
        rng: random.Random,
        store_s: float,
        other_s: float,
        enter: Callable[[], None],
    ) -> None:
        self._gate, self._reading, self._rng = gate, reading, rng
        self._store_s, self._other_s = store_s, other_s
        self._free: dict[str, float] = {}
        self._enter = enter

    def recover(self) -> None:
        """The host is as fast as others from now on."""
        self._store_s = self._other_s = 0.0

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        mean = self._store_s if lane == "store" else self._other_s
        if mean:
            now = asyncio.get_running_loop().time()
            start = max(now, self._free.get(lane, 0.0))
            until = self._free[lane] = start + min(self._rng.expovariate(1 / mean), 10 * mean) + 1e-9
            await asyncio.sleep(until - now)
        else:
            await asyncio.sleep(0)
        if lane.startswith("read:"):
            await self._reading.passed()
        await self._gate.passed()
        self._enter()
        return work()

    def close(self) -> None:
        pass


def _of_traffic(scenario: Scenario) -> int:
    return scenario.seed if scenario.traffic_seed is None else scenario.traffic_seed


@dataclass
class Surroundings:
    """What all hosts share."""

    scenario: Scenario
    system: SimOS
    network: SwarmNetwork
    history: History
    path: type[SimPath]
    seeds: Callable[[Host], tuple[tuple[str, int], ...]]
    running: Host | None = None
    """Whose code runs just now: the victim of a failpoint."""


class Host:
    """One host of a swarm.

    Attributes:
        wanted: whether its supervisor keeps the agent running.
        bug: what ended an agent here that no fault explains.
        reading: closed while its logs cannot be read, as on a network disk that hangs.
    """

    def __init__(self, around: Surroundings, number: int) -> None:
        scenario = around.scenario
        self.around, self.number = around, number
        self.rng = random.Random(f"host/{scenario.seed}/{number}")
        self.rack = f"r{number % scenario.racks}"
        self.folder = f"h{number:02}"
        self.disks = 1
        disk = Disk(random.Random(f"disk/{scenario.seed}/{number}"), around.system.now_ns)
        self.disk = around.system.disks[self.folder] = disk
        self.clock = Clock(
            self.rng.uniform(-1, 1) * scenario.clock_offset_s, self.rng.uniform(-1, 1) * scenario.clock_drift
        )
        self.id = b""
        self.executor_seed = 0
        self.lives = 0
        self.stopped: list[tuple[float, float]] = []
        self.gate, self.reading = Gate(self.stopped), Gate([])
        self.local: LocalAgent | None = None
        self.transport: SwarmTransport | None = None
        self.wanted = True
        self.left = False
        self.was: dict[str, float] = {}  # names that it had, and since when that agent is gone for good
        self._leaving: asyncio.Task[None] | None = None
        self.down_since: float | None = 0.0
        self.away: list[tuple[float, float]] = []
        self.bug: BaseException | None = None
        self.slow: tuple[float, float] = (0.0, 0.0)
        self.recovered = False
        around.path(f"/{self.folder}/data").mkdir()
        around.path(f"/{self.folder}/log").mkdir()
        self.server = Server(
            around.system,
            f"/{self.folder}/log/access.log",
            number,
            random.Random(f"server/{_of_traffic(scenario)}/{number}"),
            scenario.traffic,
            max(job.lateness_s for job in scenario.jobs) * 1_000_000,
            self.clock.us,
            clock_sane=lambda: self.clock.stepped_at == float("-inf"),
            posts=scenario.has_posts,
        )
        self._new_identity()

    @property
    def name(self) -> str:
        return self.folder if self.disks == 1 else f"{self.folder}.{self.disks}"

    @property
    def up(self) -> bool:
        return self.local is not None

    @property
    def paused(self) -> bool:
        return self.gate.closed

    @property
    def contact(self) -> Contact:
        assert self.local is not None
        return self.local.pump.me

    def _new_identity(self) -> None:
        """Write what the first start of an agent writes, but seeded."""
        self.id = self.rng.randbytes(20)
        inode = self.around.system.create(f"/{self.folder}/data/{IDENTITY_FILE}")
        inode.data += json.dumps({"id": self.id.hex(), "incarnation": 0}).encode()
        inode.sync()
        self.disk.sync_names()

    def _data(self) -> Any:
        return self.around.path(f"/{self.folder}/data")

    # -- life ------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Start the agent; whether it came up."""
        assert self.local is None
        self.lives += 1
        self.gate = Gate(self.stopped)
        self._entered()  # the first places where a fault may kill it are in its assembly
        try:
            self._assemble()
        except (Killed, StorageError) as ended:
            self.around.system.hang_up(self.folder)
            if isinstance(ended, StorageError):
                self.around.history.counters["failed_starts"] += 1
                self.around.history.say(f"{self.name} cannot start: {ended}")
                self._supervise()
            return False
        if self.down_since is not None:
            self.away.append((self.down_since, asyncio.get_running_loop().time()))
        self.down_since = None
        return True

    def _assemble(self) -> None:
        around, scenario = self.around, self.around.scenario
        storage = DiskStorage(self._data())
        identity = load_identity(storage)
        transport = around.network.transport(self.number)
        pattern = self.server.path + ("*" if scenario.glob else "")
        rng = random.Random(f"life/{scenario.seed}/{self.number}/{self.lives}")
        store_s, other_s = max(scenario.store_s, self.slow[0]), max(scenario.compute_s, self.slow[1])
        if self.recovered:
            store_s = other_s = 0.0
        self._executor = SimExecutor(
            self.gate, self.reading, random.Random(rng.getrandbits(64)), store_s, other_s, self._entered
        )
        results = ResultsLogs(self._data() / "results")
        around.history.restores(self.name, results)
        local = LocalAgent(
            AgentParts(
                gate=around.history.residence.gate(self, scenario.keeping, storage, identity.id),
                me=Contact(identity.id, *transport.address, identity.incarnation, self.rack),
                name=self.name,
                labels={},
                streams={"log": StreamConfig(pattern, "json", idle="2 s")},
                rng=rng,
                transport=transport,
                storage=storage,
                executor=self._executor,
                compute=PartialCompute(_limits(scenario.page_bytes)),
                results=results,
                open_reader=lambda name, config: StreamReader(
                    config.path, StreamFormat(config.format), clock=asyncio.get_running_loop().time
                ),
                wall_us=self.clock.us,
                fanout=scenario.fanout,
            )
        )
        self.transport, self.local = transport, local
        self._gate_timer(local)
        around.history.tap(self.name, local, self._entered)
        local.pump.failed.add_done_callback(lambda _: self._failed(local))
        self._entered()
        local.start(around.seeds(self))

    def _entered(self) -> None:
        self.around.running = self

    def _gate_timer(self, local: LocalAgent) -> None:
        """A stopped process hears no timer."""
        tick = local.pump._tick

        async def later() -> None:
            await self.gate.passed()
            if self.local is local:
                tick()

        waiting: set[asyncio.Task[None]] = set()

        def gated() -> None:
            self._entered()
            if self.gate.closed:
                task = asyncio.get_running_loop().create_task(later())
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            else:
                tick()

        local.pump._tick = gated  # type: ignore[method-assign]  # a paused host has no timers

    def _failed(self, local: LocalAgent) -> None:
        if self.local is not local:
            return
        error = local.pump.failed.result()
        self.around.history.say(f"{self.name} fails: {error!r}")
        if not isinstance(error, StorageError | Killed):
            self.bug = error
        self.kill()
        self._supervise()

    def _supervise(self) -> None:
        if self.wanted and not self.left:
            asyncio.get_running_loop().call_later(SUPERVISOR_S, self.ensure)

    def recover(self) -> None:
        """The faults are over: room on the disk, a processor of its own, and the agent is kept running."""
        self.disk.space, self.disk.syncs_to_fail = None, 0
        self.recovered, self.wanted = True, True
        if self.local is not None:
            self._executor.recover()
        self.resume()
        self.ensure()

    def ensure(self) -> None:
        """What a service manager does: start the agent unless it runs or is not wanted."""
        if self.local is None and self.wanted and not self.left:
            self.start()

    def kill(self) -> None:
        """SIGKILL: gone in mid-sentence; what the kernel had stays."""
        if self.local is None:
            return
        local, transport = self.local, self.transport
        assert transport is not None
        self.local = self.transport = None
        transport.crash()
        local.pump.kill()
        self.around.system.hang_up(self.folder)
        self.gate.open()
        self.down_since = asyncio.get_running_loop().time()
        if self.left:  # no operator starts it again
            self._gone_for_good()

    def power_cut(self) -> None:
        """The host goes dark: what was not synced is gone. Its web server syncs its own log."""
        self.kill()
        self.disk.power_cut(spare=f"/{self.folder}/log")

    def new_disk(self) -> None:
        """The data directory is lost; the agent that comes back is another one."""
        if self.local is not None:
            self.around.history.loses_disk(self.name, self.local)
        self.kill()
        self.disk.wipe(f"/{self.folder}/data")
        self.disk.space, self.disk.syncs_to_fail = None, 0
        self.was.setdefault(self.name, self.around.history.now())  # who has left is gone since it said so
        self.disks += 1
        self._gone_for_good()
        self._new_identity()

    def _gone_for_good(self) -> None:
        self.around.history.gone.setdefault(self.id, self.around.history.now())

    def pause(self) -> None:
        """SIGSTOP."""
        if self.local is not None and self.transport is not None:
            self.gate.close()
            self.transport.hold()

    def resume(self) -> None:
        """SIGCONT."""
        self.gate.open()
        if self.transport is not None and self.transport.held is not None:
            self.transport.release()

    async def leave(self) -> None:
        """`elf leave`; who cannot go in order, in a paused job or without a majority, is switched off."""
        if self.local is not None and not self.left:
            self.left, self.was[self.name] = True, float("-inf")  # it says so: no agent expects it
            self._leaving = asyncio.get_running_loop().create_task(self._leave(self.local))
            await asyncio.shield(self._leaving)  # it goes on when the faults are over

    async def _leave(self, local: LocalAgent) -> None:
        with contextlib.suppress(TimeoutError, ElfError):
            async with asyncio.timeout(LEAVE_S_MAX):
                await self.ask("leave", {}, LEAVE_S_MAX)
                await local.pump.stop()
        if self.local is local:
            self.kill()

    async def ask(self, verb: str, body: dict[str, Any], timeout_s: float = 20.0) -> Reply:
        assert self.local is not None
        self._entered()
        return await self.local.pump.request(verb, body, timeout_s)
