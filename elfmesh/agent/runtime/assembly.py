"""Assembles the parts of one agent, in the same way for a real host and for the simulator.

The module owns the wiring and the description that an agent gives of itself. Everything that differs between
a host and the simulator comes in as `AgentParts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from elfmesh.agent.archive.host import Archives
from elfmesh.agent.net.transport import Transport
from elfmesh.agent.runtime import engine
from elfmesh.agent.runtime.compute_threads import Compute
from elfmesh.agent.runtime.core import AgentCore
from elfmesh.agent.runtime.late_control import LateControl
from elfmesh.agent.runtime.pump import Pump
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.load import is_insecure, load_of, warnings_of
from elfmesh.control.machine import Control
from elfmesh.control.member.post_senders import KIND as POSTS
from elfmesh.control.protocol.events import LocalStreams, Recompute, Recomputed, StreamInfo
from elfmesh.control.requests.dead_agents import FORGET_AFTER_S
from elfmesh.ingest.authority.gate import AuthorityGate, open_gate
from elfmesh.ingest.budget.read_rates import LogCosts
from elfmesh.ingest.host import SLOW, Executor
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.memory import own_rss_bytes
from elfmesh.ingest.ports import HELD_BYTES_MAX, Results
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.stream_infos import infos_of, names_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.watermark import earlier_and_later
from elfmesh.limits import FANOUT_MAX
from elfmesh.machine import Contact
from elfmesh.overlay import Overlay
from elfmesh.plugins import announced, announced_refusals
from elfmesh.srt import Forest
from elfmesh.storage import starving
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard
from elfmesh.storage.deadletters import DeadLetters
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.identity import rewritten_by, state_rewritten
from elfmesh.storage.statelog import StateLog
from elfmesh.storage.storage import Storage
from elfmesh.version import VERSION

if TYPE_CHECKING:
    from elfmesh.ingest.worker.reader import Reader
    from elfmesh.ingest.workers import WorkerHost


WORK = ("job", "member", POSTS)
"""Kinds of state entries that exist for jobs which continue after a restart."""


def no_logs(effect: Recompute) -> Recomputed:
    """Answer a recomputation for an agent that cannot read its logs again."""
    return Recomputed(effect.token, error="this agent cannot read its logs again")


@dataclass(frozen=True, kw_only=True)
class AgentParts:
    """Parts of one agent.

    Attributes:
        me: contact of the agent.
        name: name for display.
        labels: labels by which jobs select agents.
        streams: streams of the agent.
        rng: seeded generator; each machine gets its own generator from it.
        transport: network to other agents.
        storage: storage of the state log and the frame log.
        executor: threads.
        compute: merging and finalising.
        results: results logs.
        open_reader: opens a stream.
        times: returns the time indexes of a stream; None: it has none.
        wall_us: wall clock.
        held_bytes_max: limit of one job's sealed and not closed partials, beyond which it stops reading.
        memory: memory budget of all open intervals; None: no limit.
        tidy: called in a thread after intervals were sealed.
        recheck: recomputes intervals from the raw logs.
        inputs: returns descriptions of streams that are not files.
        sinks: returns descriptions of sinks.
        archives: archives of streams; None: none.
        sink_problems: returns why sinks do not receive results.
        self_check: the master verifies one in so many intervals; 0: none.
        lookups: lookup tables.
        cpu_s: CPU time of the calling thread.
        scheduler: of jobs, with the limits of processor time; None: no limit.
        gate: decides which texts and functions run here; None: all texts, but no Python.
        guard: holds jobs that have killed the process.
        disk_bytes: limit of the frame log; None: no limit.
        fanout: maximum number of children in one tree.
        security: returns how connections are secured.
        late: whether `load_engine` loads the engine after the start.
        forget_after_s: how long a dead agent is listed.
    """

    me: Contact
    name: str
    labels: Mapping[str, str]
    streams: Mapping[str, StreamConfig]
    rng: random.Random
    transport: Transport
    storage: Storage
    executor: Executor
    compute: Compute
    results: Results
    open_reader: Callable[[str, StreamConfig], Reader]
    wall_us: Callable[[], int]
    held_bytes_max: int = HELD_BYTES_MAX
    memory: MemoryBudget | None = None
    tidy: Callable[[], None] = lambda: None
    recheck: Callable[[Recompute], Recomputed] = no_logs
    inputs: Callable[[], Mapping[str, Any]] = dict
    sinks: Callable[[], Mapping[str, Any]] = dict
    archives: Archives | None = None
    sink_problems: Callable[[], Mapping[str, str]] = dict
    self_check: int = 0
    lookups: LookupTables | None = None
    disk_bytes: int | None = None
    cpu_s: Callable[[], float] = lambda: 0.0
    scheduler: Scheduler | None = None
    gate: AuthorityGate | None = None
    guard: CrashGuard | NoGuard = NO_GUARD
    fanout: int = FANOUT_MAX
    security: Callable[[], Mapping[str, Any]] = dict
    late: bool = False
    forget_after_s: float = FORGET_AFTER_S
    times: Callable[[str], Any] = lambda _stream: None


class LocalAgent:
    """One assembled agent; `start` it on a running event loop.

    Attributes:
        pump: drives the core.
        core: the state machines.
        loaded: set after the engine is loaded.
    """

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        me, rng = parts.me, parts.rng

        def own() -> random.Random:
            return random.Random(rng.getrandbits(64))

        cores = parts.scheduler.reader_cores if parts.scheduler else 1.0
        self._log_costs = LogCosts(parts.streams, cores, parts.times)
        self._monotonic_s = asyncio.get_running_loop().time
        self.overlay = Overlay(me, rng=own(), digest=self._digest, clock_us=parts.wall_us)
        hop, since = self.overlay.next_hop, self.overlay.closest_since
        self.forest = Forest(me, rng=own(), next_hop=hop, closest_since=since, fanout=parts.fanout)
        gate = self.gate = parts.gate or open_gate(parts.storage, parts.wall_us)
        rewritten = rewritten_by(parts.storage)
        self.frames = FrameLog(
            parts.storage, limit_bytes=parts.disk_bytes, owner=me.id, expected=bool(rewritten)
        )
        state = StateLog(parts.storage, me.id, me.incarnation, rewritten)
        state_rewritten(parts.storage, me.incarnation)
        loaded = not parts.late or any(kind in WORK for kind, _, _ in state.items())
        self._loads_later = not loaded
        if loaded and parts.late:
            engine.load()  # blocking is acceptable, because no client waits for an answer yet
        self.control = Control(
            me,
            parts.name,
            rng=own(),
            facts=self.facts,
            policy=gate.policy,
            forget_after_s=parts.forget_after_s,
        )
        self._late = LateControl(self.control)
        self.loaded = asyncio.Event()
        control = self.control if loaded else self._late
        causes, keep_in = self.control.context.causes, gate.policy.keep_in
        self.core = AgentCore(self.overlay, self.forest, control, causes, keep_in)
        self.dead_letters = DeadLetters(parts.storage, parts.name)
        self.pump = Pump(
            self.core,
            me=me,
            transport=parts.transport,
            state=state,
            executor=parts.executor,
            compute=parts.compute,
            cpu_s=parts.cpu_s,
            results=parts.results,
            dead_letter=self.dead_letters.write,
            workers=self._workers,
            wall_us=parts.wall_us,
            recheck=parts.recheck,
            try_functions=gate.tried,
            guard=parts.guard,
            job_of=self.control.member_host.job_of,
        )

    def start(self, seeds: tuple[tuple[str, int], ...]) -> None:
        self.pump.start(self._carried(names_of if self._loads_later else infos_of), seeds)

    def _carried(self, about: Callable[[Mapping[str, StreamConfig]], tuple[StreamInfo, ...]]) -> LocalStreams:
        lookups = () if self._parts.lookups is None else self._parts.lookups.names
        labels = tuple(sorted(self._parts.labels.items()))
        return LocalStreams(about(self._parts.streams), labels, lookups)

    async def load_engine(self) -> None:
        """Load the engine in a thread, and then deliver the events that wait for it."""
        try:
            await self._parts.executor.run(f"{SLOW}load", engine.load)
        except Exception as error:
            self.pump.fail(error)
            return
        if self._loads_later:
            self.pump.step(self._carried(infos_of))
        for event in self._late.release():
            self.pump.step(event)
        self.loaded.set()

    @property
    def attached(self) -> bool:
        """Whether the agent has its place in the trees of its groups, so that new jobs reach it."""
        trees = [info for info in self.forest.trees() if info.subscribed]
        return bool(trees) and all(info.root or info.parent is not None for info in trees)

    def lacking(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Return a thread-safe function that reports waits for resources to the workers."""

        def report() -> None:
            self.host.lacks(starving.problem())

        def notified() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, because the process ends
                loop.call_soon_threadsafe(report)

        return notified

    def facts(self, topic: str, *job: Any) -> dict[str, Any]:
        """Return what this agent knows about itself.

        `topic` is "agent", "trees", "limits", "functions", "clock", "round trips" or "problem", or "logs" or
        "reading" with the manifest of a job.
        """
        if topic == "problem":
            parts = self._parts
            slowed = dict(parts.scheduler.slowed) if parts.scheduler else {}
            jobs = self.host.describe_jobs()
            slowed |= {name: str(each["crowds"]) for name, each in jobs.items() if each["crowds"]}
            archives = parts.archives.problems() if parts.archives else {}
            others = {"sinks": parts.sink_problems(), "slowed": slowed, "archives": archives}
            others["held"] = parts.guard.held
            found: dict[str, Any] = {name: dict(reported) for name, reported in others.items()}
            security = parts.security()
            about = {"security": security, "skew_seconds": self.overlay.skew_s}
            found["insecure"] = security["mode"] if is_insecure(about) else ""
            found["warnings"] = [*warnings_of(about, parts.wall_us() / 1e6)]
            return {"problem": self.pump.problem or self.host.problem, **found}
        if topic == "clock":
            now_us = self._parts.wall_us()
            return {"now_us": now_us, "agreed_us": earlier_and_later(now_us, self._peers_us())[0]}
        if topic == "round trips":
            return {"seconds": self.overlay.round_trips()}
        if topic == "functions":
            return {"problem": self.gate.functions.problem}
        if topic == "limits":
            return {"self_check": self._parts.self_check}
        if topic == "logs":
            return self._log_costs.sizes(*job)
        if topic == "reading":
            return self._log_costs.reading(self.host.rates, *job)
        if topic == "trees":
            return {"items": [_tree(info) for info in self.forest.trees()]}
        reported = self._about()
        rss = own_rss_bytes() if self._parts.scheduler is not None else None  # a simulated agent: no process
        return {**reported, "load": load_of(reported, self._parts.wall_us() / 1e6, rss)}

    def _about(self) -> dict[str, Any]:
        parts = self._parts
        return {
            "name": parts.name,
            "id": parts.me.id.hex(),
            "overlay": f"{parts.me.host}:{parts.me.port}",
            "incarnation": parts.me.incarnation,
            "version": VERSION,
            "skew_seconds": _rounded(self.overlay.skew_s),
            "labels": dict(sorted(parts.labels.items())),
            "sources": self.host.describe(),
            "inputs": dict(parts.inputs()),
            "sinks": dict(parts.sinks()),
            "archives": parts.archives.describe() if parts.archives else {},
            "programs": self.control.programs.describe(),
            "overlay_stats": self.overlay.stats(),
            "tree_stats": self.forest.stats(),
            "control_stats": {**self.control.stats(), "kept_in": self.core.kept_in},
            "tentative": self.control.tentative_overlaps(),
            "kept_if_lost": self.control.kept_if_lost(),
            "standbys": self.control.standbys(),
            "votes": msgspec.to_builtins(self.control.voting()),
            "transport": parts.transport.stats(),
            "memory": _memory(parts.memory),
            "processor": parts.scheduler.describe() if parts.scheduler else {},
            "job_costs": self.host.describe_jobs(),
            "dead_letters": self.dead_letters.describe(),
            "functions": self.gate.functions.describe(),
            "plugins": announced(),
            "refused_plugins": announced_refusals(),
            "authority": self.gate.describe(),
            "security": dict(parts.security()),
            "frame_log": {
                "bytes": self.frames.size,
                "limit_bytes": self.frames.limit_bytes,
                "jobs": len(self.frames.jobs),
            },
            "problem": (self.pump.problem or self.host.problem) or None,
            "waits_for_disk": {
                name: self.pump.counters[name] for name in ("disk_full", "not_sent_disk_full")
            },
        }

    def _peers_us(self) -> int | None:
        return self.overlay.peers_us(self._monotonic_s())

    def _fatal(self, error: BaseException) -> None:
        self.pump.fail(error)

    def _digest(self, peer: bytes) -> bytes:
        return self.forest.digest_for(peer)

    def _workers(self, emit: Callable[[Any], None]) -> WorkerHost | engine.LateWorkers:
        parts, limit = self._parts, self._parts.held_bytes_max
        seed = parts.rng.getrandbits(63)

        def make(held_bytes_max: int) -> WorkerHost:
            from elfmesh.ingest.workers import WorkerHost

            return WorkerHost(
                emit,
                streams=parts.streams,
                open_reader=parts.open_reader,
                frames=self.frames,
                executor=parts.executor,
                wall_us=parts.wall_us,
                fatal=self._fatal,
                held_bytes_max=held_bytes_max,
                memory=parts.memory,
                seed=seed,
                encode=parts.compute.encode,
                tidy=parts.tidy,
                labels=parts.labels,
                lookups=parts.lookups,
                cpu_s=parts.cpu_s,
                scheduler=parts.scheduler,
                gate=self.gate,
                peers_us=self._peers_us,
                guard=parts.guard,
                member=parts.me.id.hex(),
            )

        self.host: WorkerHost | engine.LateWorkers
        if parts.late:
            self.host = engine.LateWorkers(make, limit, parts.streams, self.frames, parts.executor)
        else:
            self.host = make(limit)
        return self.host


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3) + 0.0  # avoids -0.0


def _memory(budget: MemoryBudget | None) -> dict[str, Any]:
    if budget is None:
        return {}
    return {
        "open_intervals_bytes": budget.nbytes,
        "limit_bytes": budget.limit_bytes,
        "spilled_bytes": budget.store.nbytes if budget.store else 0,
        "problem": str(budget.problem) if budget.problem else None,
    }


def _tree(info: Any) -> dict[str, Any]:
    return {
        "tree": info.tree.hex(),
        "root": info.root,
        "subscribed": info.subscribed,
        "parent": info.parent.id.hex() if info.parent else None,
        "children": [child.id.hex() for child in info.children],
        "depth": info.depth,
        "size": info.size,
    }
