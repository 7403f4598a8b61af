"""The asyncio pump: drives one agent's core and carries out what it wants.

Owns the loop's side of an agent: its timer, the order in which effects happen, the threads' answers. Every
part of the outside world is handed in (transport, storage, executor, workers, results, wall clock), so that
the simulator runs this very pump. Decides nothing about jobs, trees or peers.

Invariants: the core is only ever stepped here, one event at a time; effects happen in the order they were
given, and nothing that comes after a write to disk happens before it is durable, but what promises nothing
(`at_once`); a failed sync is fatal and ends the agent, never silently retried (D-1). Where there is no room
to write, nothing was written, and the agent waits for room: to its peers it is away meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from elfmesh.agent import traces
from elfmesh.agent.at_once import overtakes
from elfmesh.agent.core import AgentCore
from elfmesh.agent.disk.durable import Durable
from elfmesh.agent.disk.statelog import StateLog
from elfmesh.agent.failpoints import reach
from elfmesh.agent.hands import Results, Workers
from elfmesh.agent.heavy import Compute, HeavyWork
from elfmesh.agent.host import SLOW, Executor
from elfmesh.agent.metrics.timings import observe, timed
from elfmesh.agent.net.transport import Transport
from elfmesh.agent.programs import ProgramSessions
from elfmesh.control import events as ctl
from elfmesh.control.events_functions import FunctionsTried, TryFunctions
from elfmesh.errors import DiskFull, Unreachable
from elfmesh.machine import Contact, Effect, Event, Message, Received, Send, Tick
from elfmesh.overlay.events import ConnectionLost, Joined, JoinFailed, Leave, Start
from elfmesh.srt.events import MergeRequest

log = logging.getLogger("elf.agent")
Store = ctl.Persist | ctl.Append | ctl.DeadLetter | ctl.DropLog | ctl.ReadLog
FULL_RETRY_S = 0.5
"""How often a full disk is tried again."""

HARMLESS = ("health", "agent")
"""Questions whose answers promise nothing: they are answered while the disk is full, too."""

WRITES_MAX = 128
"""Writes that are made durable at once: who waits for the first one waits for the last."""


class Pump:
    """One agent on an event loop.

    Args:
        core: the agent's machine.
        transport: open for `me` by `start`.
        state: where `Persist` goes.
        executor: threads.
        compute: merging and finalising.
        results: results logs.
        dead_letter: keeps a dead letter durably.
        workers: made with the function that takes their events.
        wall_us: wall clock, for people only.
        cpu_s: see `HeavyWork`.
        recheck, try_functions: carry out `Recompute` and `TryFunctions`, in a thread.
        load_engine: carries out `LoadEngine`, in a thread.
    """

    def __init__(
        self,
        core: AgentCore,
        *,
        me: Contact,
        transport: Transport,
        state: StateLog,
        executor: Executor,
        compute: Compute,
        results: Results,
        dead_letter: Callable[[ctl.DeadLetter], None],
        workers: Callable[[Callable[[Event], None]], Workers],
        wall_us: Callable[[], int],
        recheck: Callable[[ctl.Recompute], ctl.Recomputed],
        try_functions: Callable[[TryFunctions], FunctionsTried],
        cpu_s: Callable[[], float] = lambda: 0.0,
        load_engine: Callable[[], None] = lambda: None,
    ) -> None:
        self._recheck, self._dead_letter, self._try_functions = recheck, dead_letter, try_functions
        self._load_engine = load_engine
        self.core, self.me, self.transport = core, me, transport
        self._state, self._executor, self._results = state, executor, results
        self._durable = Durable(state, results)
        self._wall_us = wall_us
        self.workers, self.programs = workers(self.step), ProgramSessions(self.step)
        self.counters: Counter[str] = Counter()
        self._heavy = HeavyWork(compute, executor, self._spawn, self.step, self.counters, cpu_s)
        self.joined, self.left = asyncio.Event(), asyncio.Event()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._inbox, self._outbox = deque[Event](), deque[Effect]()
        self._stored = asyncio.Event()  # clear while effects wait behind a write
        self._stored.set()
        self._writing_since, self.problem = 0.0, ""
        self._harmless: dict[int, None] = {}
        self._stepping = self._stopped = self._closing = False
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies: dict[int, asyncio.Future[ctl.Reply]] = {}
        self._token = 0

    # -- life ----------------------------------------------------------------------------------------

    def start(self, streams: ctl.LocalStreams, seeds: tuple[tuple[str, int], ...]) -> None:
        """Restore what was remembered, open for peers, join."""
        self.transport.open(self.me, self)
        self.step(ctl.Restored(self._state.items(), self._results.found()))
        self.step(streams)
        self.step(Start(seeds))

    async def stop(self) -> None:
        """Leave: stop reading, finish writing, say good-bye. The transport is closed, the storage is not."""
        self._closing = True
        await self.workers.close()
        self.step(Leave())
        if not self.failed.done():
            await self._stored.wait()
        self._halt()
        self._state.close()
        await self.transport.close()

    def kill(self) -> None:
        """Stop at once, as a crash would; for the simulator."""
        self.workers.kill()
        self._halt()

    def _halt(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        for reply in self._replies.values():
            reply.cancel()

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> ctl.Reply:
        """Ask the control plane.

        Raises:
            Unreachable: no answer in time, or the agent is stopping.
        """
        self._token += 1
        token = self._token
        future: asyncio.Future[ctl.Reply] = asyncio.get_running_loop().create_future()
        self._replies[token] = future
        if verb in HARMLESS:
            self._harmless[token] = None
        try:
            self.step(ctl.ClientRequest(token, verb, body, self._wall_us()))
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise Unreachable(f"no answer to {verb!r} within {timeout_s:g} s") from None
        finally:
            del self._replies[token]
            self._harmless.pop(token, None)

    # -- called by the transport -----------------------------------------------------------------------

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        """A message from a peer."""
        self.step(Received(sender, message, payload))

    def lost(self, peer: bytes) -> None:
        """A connection broke."""
        self.step(ConnectionLost(peer))

    # -- stepping --------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        """Give the core an event and carry out what follows. Cost: no waiting, ever."""
        if self._stopped:
            return
        self._inbox.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            now = asyncio.get_running_loop().time()
            while self._inbox:
                self._queue(self.core.step(self._inbox.popleft(), now), now)
                if self.problem:
                    self._give_up_sending()
                self._drain()
            self._arm(self.core.deadline)
        except Exception as error:
            self.fail(error)
        finally:
            self._stepping = False

    def _queue(self, effects: list[Effect], now: float) -> None:
        """Carry out what need not wait for the disk; the rest in its order."""
        waits_s = 0.0 if self._stored.is_set() else now - self._writing_since
        for effect in effects:
            if not self.problem and overtakes(effect, waits_s):
                self._carry_out(effect)
            else:
                self._outbox.append(effect)

    def _arm(self, deadline: float | None) -> None:
        """Keep one timer, never later than the core's deadline; an early one is harmless."""
        if deadline is None or self._stopped:
            return
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        deadline = self.core.deadline
        if deadline is not None and deadline > asyncio.get_running_loop().time():
            self._arm(deadline)  # what it was set for, an answer mostly, has come: the usual case
        else:
            self.step(Tick())

    def _drain(self) -> None:
        """Carry out effects until one has to wait for the disk."""
        while self._outbox and self._stored.is_set():
            effect = self._outbox.popleft()
            if isinstance(effect, Store):
                self._stored.clear()
                self._writing_since = asyncio.get_running_loop().time()
                self._spawn(self._store(effect))
            else:
                self._carry_out(effect)

    def _give_up_sending(self) -> None:
        """The disk is full: messages behind the write may be lost as on any network; answers may pass it."""
        kept: deque[Effect] = deque()
        for effect in self._outbox:
            if isinstance(effect, Send):
                self.counters["not_sent_disk_full"] += 1
            elif isinstance(effect, ctl.Reply) and effect.token in self._harmless:
                self._carry_out(effect)
            else:
                kept.append(effect)
        self._outbox = kept

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case MergeRequest() | ctl.Finalise():
                self._heavy.ask(effect)
            case ctl.Recompute():
                self._spawn(self._answer("verify", partial(self._recheck, effect)))
            case TryFunctions():
                self._spawn(self._answer(f"{SLOW}{effect.token % 8}", partial(self._try_functions, effect)))
            case ctl.LoadEngine():
                self._spawn(self._answer(f"{SLOW}load", self._engine_loaded))
            case ctl.Reply():
                future = self._replies.get(effect.token)
                if future is not None and not future.done():
                    future.set_result(effect)
            case ctl.ToProgram():
                self.programs.deliver(effect)
            case ctl.StartWorker():
                reach("activate")
                traces.trees_of(effect.manifest.job_id, effect.manifest.trees)
                self.workers.start_job(effect)
            case ctl.StopWorker():
                self.workers.stop_job(effect)
            case ctl.PauseWorker():
                self.workers.pause_job(effect.job)
            case ctl.ResumeWorker():
                self.workers.resume_job(effect.job)
            case ctl.ReleaseWorker():
                self.workers.release(effect.job, effect.stop, effect.heard)
            case ctl.Left():
                self.left.set()
            case Joined():
                log.info("joined the overlay")
                self.joined.set()
            case JoinFailed():
                log.warning("cannot join yet: %s", effect.reason)
            case _:
                raise TypeError(f"nobody carries out {type(effect).__name__}")

    def _send(self, effect: Send) -> None:
        kind = type(effect.message).__name__
        reach("send", kind)
        try:
            self.transport.send(effect.to, effect.message, effect.payload, effect.lane)
            reach("sent", kind)
            traces.sent(effect.message)
        except ValueError as error:  # over a limit of the wire: the peer would cut us off for it
            self.counters["not_sent_too_big"] += 1
            log.error("cannot send: %s", error)

    # -- threads -----------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Something happened that the agent must not survive: `failed` tells whoever runs it."""
        if not self.failed.done():
            log.error("fatal: %s", error)
            self._stopped = True
            self.failed.set_result(error)

    def _engine_loaded(self) -> Event:
        self._load_engine()
        return ctl.EngineLoaded()

    async def _answer(self, lane: str, work: Callable[[], Event]) -> None:
        self.step(await self._executor.run(lane, work))

    async def _store(self, effect: Store) -> None:
        match effect:
            case ctl.Append() | ctl.Persist():
                # In a task: by now all that this turn of the loop has for the disk is there.
                writes = [effect, *self._more_writes()]
                appended = [each for each in writes if isinstance(each, ctl.Append)]
                await self._with_room(partial(self._write, writes))  # takes out what is written
                self._closed(appended)
            case ctl.DropLog():
                await self._executor.run("store", partial(self._results.drop, effect.job))
            case ctl.ReadLog():
                self._stored.set()  # a read keeps its place in the thread's queue and holds up nobody
                self._drain()
                self.step(await self._executor.run("store", partial(self._results.read, effect)))
                return
            case ctl.DeadLetter():
                await self._executor.run("store", partial(self._dead_letter, effect))
        self._stored.set()
        self._drain()

    def _write(self, writes: list[ctl.Append | ctl.Persist]) -> None:
        with timed("store_sync"):
            self._durable.write(writes)

    def _closed(self, appended: list[ctl.Append]) -> None:
        for each in appended:
            record = each.record
            if record.end_us is not None and record.state != "TENTATIVE":
                observe("close_lag", (self._wall_us() - record.end_us) / 1e6)
                traces.span(traces.CLOSE, each.job, record.index, record.end_us * 1000)

    @property
    def queues(self) -> dict[str, int]:
        """How much waits for what."""
        waiting = {"events": len(self._inbox), "effects": len(self._outbox), "answers": len(self._replies)}
        return {**waiting, **self._heavy.waiting, "tasks": len(self._tasks)}

    async def _with_room(self, write: Callable[[], None]) -> None:
        """Write; while there is no room, again and again."""
        while True:
            try:
                await self._executor.run("store", write)
            except DiskFull as error:
                self.counters["disk_full"] += 1
                if not self.problem:
                    log.error("the agent waits, and is away to its peers: %s", error)
                self.problem = str(error)
                self._give_up_sending()
                if self._closing:  # as if it had been killed
                    self._outbox.clear()
                    return
                await asyncio.sleep(FULL_RETRY_S)
            else:
                if self.problem:
                    log.info("there is room on disk again")
                self.problem = ""
                return

    def _more_writes(self) -> list[ctl.Append | ctl.Persist]:
        """Take the writes out of the effects that wait, up to one of another kind: earlier is harmless."""
        found: list[ctl.Append | ctl.Persist] = []
        kept: deque[Effect] = deque()
        while self._outbox and len(found) < WRITES_MAX - 1:
            effect = self._outbox.popleft()
            if isinstance(effect, ctl.Append | ctl.Persist):
                found.append(effect)
                continue
            kept.append(effect)
            if isinstance(effect, Store):
                break
        self._outbox.extendleft(reversed(kept))
        return found
