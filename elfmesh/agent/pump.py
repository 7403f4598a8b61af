"""The asyncio pump: drives one agent's core and carries out what it wants.

Owns the loop's side of an agent: its timer, the order in which effects happen, the threads' answers. Every
part of the outside world is handed in (transport, storage, executor, workers, results, wall clock), so that
the simulator runs this very pump. Decides nothing about jobs, trees or peers.

Invariants: the core is only ever stepped here, one event at a time; effects happen in the order they were
given, and nothing that comes after a write to disk happens before it is durable; a failed write is fatal and
ends the agent, never silently retried (D-1).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from elfmesh.agent.core import AgentCore
from elfmesh.agent.failpoints import reach
from elfmesh.agent.heavy import Compute, HeavyWork
from elfmesh.agent.host import Executor
from elfmesh.agent.statelog import StateLog
from elfmesh.agent.transport import Transport
from elfmesh.control import events as ctl
from elfmesh.errors import Unreachable
from elfmesh.machine import Contact, Effect, Event, Message, Received, Send, Tick
from elfmesh.overlay.events import ConnectionLost, Joined, JoinFailed, Leave, Start
from elfmesh.srt.events import MergeRequest

log = logging.getLogger("elf.agent")
Store = ctl.Persist | ctl.Append | ctl.DeadLetter | ctl.DropLog | ctl.ReadLog
WRITES_MAX = 128
"""Writes that are made durable at once: who waits for the first one waits for the last."""


class Workers(Protocol):
    """Who reads streams and evaluates jobs on them; reports by events."""

    def start_job(self, effect: ctl.StartWorker) -> None:
        """Begin, or go on after a restart."""
        ...

    def stop_job(self, effect: ctl.StopWorker) -> None:
        """End and forget."""
        ...

    def pause_job(self, job: bytes) -> None:
        """Stop reading."""
        ...

    def resume_job(self, job: bytes) -> None:
        """Go on reading."""
        ...

    def release(self, job: bytes, stop: int) -> None:
        """Intervals below `stop` are closed."""
        ...

    async def close(self) -> None:
        """Stop reading, seal nothing early, flush the frame log."""
        ...

    def kill(self) -> None:
        """Stop at once, finish nothing."""
        ...


class Results(Protocol):
    """The results logs of the jobs mastered here; synchronous, durable when a call returns."""

    def append(self, *effects: ctl.Append) -> None:
        """Add records, in this order."""
        ...

    def drop(self, job: bytes) -> None:
        """Delete a log."""
        ...

    def read(self, effect: ctl.ReadLog) -> ctl.LogRead:
        """Read a page."""
        ...

    def found(self) -> tuple[ctl.LogInfo, ...]:
        """The logs on disk."""
        ...


def no_logs(effect: ctl.Recompute) -> ctl.Recomputed:
    """The recheck of an agent whose logs cannot be read twice."""
    return ctl.Recomputed(effect.token, error="this agent cannot read its logs again")


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
        recheck: computes an interval again from the raw logs.
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
        recheck: Callable[[ctl.Recompute], ctl.Recomputed] = no_logs,
    ) -> None:
        self._recheck, self._dead_letter = recheck, dead_letter
        self.core, self.me, self.transport = core, me, transport
        self._state, self._executor, self._results = state, executor, results
        self._wall_us = wall_us
        self.workers = workers(self.step)
        self.counters: Counter[str] = Counter()
        self._heavy = HeavyWork(compute, executor, self._spawn, self.step, self.counters)
        self.joined, self.left = asyncio.Event(), asyncio.Event()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._inbox: deque[Event] = deque()
        self._outbox: deque[Effect] = deque()
        self._stored = asyncio.Event()  # clear while effects wait behind a write
        self._stored.set()
        self._stepping = False
        self._stopped = False
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
        try:
            self.step(ctl.ClientRequest(token, verb, body, self._wall_us()))
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise Unreachable(f"no answer to {verb!r} within {timeout_s:g} s") from None
        finally:
            del self._replies[token]

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
                self._outbox.extend(self.core.step(self._inbox.popleft(), now))
                self._drain()
            self._arm()
        except Exception as error:
            self.fail(error)
        finally:
            self._stepping = False

    def _arm(self) -> None:
        """Keep one timer, never later than the core's deadline; an early one is harmless."""
        deadline = self.core.deadline
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
        self.step(Tick())

    def _drain(self) -> None:
        """Carry out effects until one has to wait for the disk."""
        while self._outbox and self._stored.is_set():
            effect = self._outbox.popleft()
            if isinstance(effect, Store):
                self._stored.clear()
                self._spawn(self._store(effect))
            else:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case MergeRequest() | ctl.Finalise():
                self._heavy.ask(effect)
            case ctl.Recompute():
                self._spawn(self._recompute(effect))
            case ctl.Reply():
                future = self._replies.get(effect.token)
                if future is not None and not future.done():
                    future.set_result(effect)
            case ctl.StartWorker():
                reach("activate")
                self.workers.start_job(effect)
            case ctl.StopWorker():
                self.workers.stop_job(effect)
            case ctl.PauseWorker():
                self.workers.pause_job(effect.job)
            case ctl.ResumeWorker():
                self.workers.resume_job(effect.job)
            case ctl.ReleaseWorker():
                self.workers.release(effect.job, effect.stop)
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

    async def _recompute(self, effect: ctl.Recompute) -> None:
        self.step(await self._executor.run("verify", partial(self._recheck, effect)))

    async def _store(self, effect: Store) -> None:
        match effect:
            case ctl.Append() | ctl.Persist():
                # In a task: by now all that this turn of the loop has for the disk is there.
                await self._executor.run("store", partial(self._write, [effect, *self._more_writes()]))
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

    def _write(self, effects: list[ctl.Append | ctl.Persist]) -> None:
        """Make them durable, in two syncs: what is remembered, then records.

        Nothing is remembered before a record of the same job that came first: a vote for an interval vouches
        for those before it.
        """
        while effects:
            state: list[ctl.Persist] = []
            records: list[ctl.Append] = []
            for effect in effects:
                if isinstance(effect, ctl.Append):
                    records.append(effect)
                elif any(effect.key.startswith(record.job) for record in records):
                    break
                else:
                    state.append(effect)
            effects = effects[len(state) + len(records) :]
            self._remember(state)
            self._append(records)

    def _remember(self, effects: list[ctl.Persist]) -> None:
        for effect in effects:
            reach("persist", effect.kind)
        if effects:
            self._state.apply(effects)
        for effect in effects:
            reach("persisted", effect.kind)

    def _append(self, effects: list[ctl.Append]) -> None:
        if effects:
            reach("results.append")
            self._results.append(*effects)
            reach("results.appended")
