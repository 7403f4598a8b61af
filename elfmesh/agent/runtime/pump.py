"""The asyncio pump: it drives the core of one agent and executes the core's effects.

Owns the event loop's part of an agent: the timer, the requests of clients, the answers of threads. The outbox
owns the order of effects. The constructor takes every part of the outside world (transport, storage,
executor, workers, results, wall clock), so the simulator runs the same pump. Decides nothing about jobs,
trees or peers.

Invariants: only the pump steps the core, one event at a time; a failed sync is fatal, ends the agent, and is
never retried (D-1).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from elfmesh.agent.net.transport import Transport
from elfmesh.agent.runtime.compute_threads import Compute, HeavyWork
from elfmesh.agent.runtime.core import AgentCore
from elfmesh.agent.runtime.effects import Outbox
from elfmesh.agent.runtime.late_control import LoadEngine
from elfmesh.agent.runtime.programs import ProgramSessions
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.events_functions import FunctionsTried, TryFunctions
from elfmesh.errors import Unreachable
from elfmesh.ingest import traces
from elfmesh.ingest.host import SLOW, Executor
from elfmesh.ingest.ports import Results, Workers
from elfmesh.machine import Contact, Effect, Event, Message, Received, Send, Tick
from elfmesh.overlay.events import ConnectionLost, Joined, JoinFailed, Leave, Start
from elfmesh.srt.events import MergeRequest
from elfmesh.storage import starving
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard
from elfmesh.storage.durable import Durable
from elfmesh.storage.failpoints import reach
from elfmesh.storage.statelog import StateLog

log = logging.getLogger("elf.agent")

HARMLESS = ("health", "agent")
"""Questions whose answers promise nothing: they are answered while the disk is full, too."""


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
        load_engine: carries out `LoadEngine`.
        guard, job_of: see `HeavyWork`.
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
        load_engine: Callable[[], Coroutine[Any, Any, None]],
        guard: CrashGuard | NoGuard = NO_GUARD,
        job_of: Callable[[bytes], str] = bytes.hex,
    ) -> None:
        self.core = core
        self.me = me
        self.transport = transport
        self._state = state
        self._executor = executor
        self._results = results
        self._wall_us = wall_us
        self._recheck = recheck
        self._try_functions = try_functions
        self._load_engine = load_engine
        self.workers = workers(self.step)
        self.programs = ProgramSessions(self.step)
        self.counters: Counter[str] = Counter()
        self._heavy = HeavyWork(
            compute, executor, self._spawn, self.step, self.counters, cpu_s, guard=guard, job_of=job_of
        )
        self._outbox = Outbox(
            carry_out=self._carry_out,
            promises_nothing=lambda reply: reply.token in self._harmless,
            durable=Durable(state, results),
            results=results,
            dead_letter=dead_letter,
            executor=executor,
            spawn=self._spawn,
            step=self.step,
            counters=self.counters,
            wall_us=wall_us,
        )
        self.joined = asyncio.Event()
        self.left = asyncio.Event()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._inbox = deque[Event]()
        self._stepping = False
        self._stopped = False
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies: dict[int, asyncio.Future[ctl.Reply]] = {}
        self._harmless: dict[int, None] = {}
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
        self._outbox.close()
        await self.workers.close()
        self.step(Leave())
        if not self.failed.done():
            await self._outbox.wait_stored()
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
        except asyncio.CancelledError:
            self.step(ctl.ClientGone(token))
            raise
        finally:
            del self._replies[token]
            self._harmless.pop(token, None)

    # -- called by the transport -----------------------------------------------------------------------

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        self.step(Received(sender, message, payload))

    def lost(self, peer: bytes) -> None:
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
                self._outbox.put(self.core.step(self._inbox.popleft(), now), now)
            self._arm(self.core.deadline)
        except Exception as error:
            self.fail(error)
        finally:
            self._stepping = False

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
            case LoadEngine():
                self._spawn(self._load_engine())
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
                self.workers.release(effect.job, effect.stop, effect.received)
            case ctl.Left():
                self.left.set()
            case Joined():
                log.info("joined the overlay")
                self.joined.set()
            case JoinFailed():
                log.warning("cannot join yet: %s", effect.reason)
            case _:
                raise TypeError(f"no handler for {type(effect).__name__}")

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
        """Something happened that the agent must not survive: `failed` tells the process that runs it."""
        if not self.failed.done():
            log.error("fatal: %s", error)
            self._stopped = True
            self.failed.set_result(error)

    async def _answer(self, lane: str, work: Callable[[], Event]) -> None:
        self.step(await self._executor.run(lane, partial(starving.retried, work, f"the thread {lane!r}")))

    @property
    def problem(self) -> str:
        """Why nothing can be written, or what a thread waits for; "" if nothing is."""
        return self._outbox.problem or starving.problem()

    @property
    def queues(self) -> dict[str, int]:
        waiting = {"events": len(self._inbox), "effects": len(self._outbox), "answers": len(self._replies)}
        return {**waiting, **self._heavy.waiting, "tasks": len(self._tasks)}
