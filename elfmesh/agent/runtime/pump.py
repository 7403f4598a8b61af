"""The asyncio pump, which drives the core of one agent and executes the core's effects.

The module owns the event loop's part of an agent: the timer, the requests of clients, the answers of threads.
The outbox owns the order of effects. The constructor takes every part of the outside world (transport,
storage, executor, workers, results, wall clock), so the simulator runs the same pump. The pump makes no
decisions about jobs, trees or peers.

Invariants: only the pump steps the core, one event at a time. A failed sync is fatal, ends the agent, and is
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
"""Requests whose answers promise nothing, so that they are answered also while the disk is full."""


class Pump:
    """Driver of one agent on an event loop.

    Args:
        core: the agent's state machine.
        me: contact of the agent.
        transport: network, which `start` opens.
        state: log that receives `Persist`.
        executor: threads.
        compute: merging and finalising.
        results: results logs.
        dead_letter: stores a dead letter durably.
        workers: creates the workers from the function that receives their events.
        wall_us: wall clock, for metrics and requests of clients only.
        cpu_s: see `HeavyWork`.
        recheck, try_functions: execute `Recompute` and `TryFunctions` in a thread.
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

    # -- start and stop ------------------------------------------------------------------------------

    def start(self, streams: ctl.LocalStreams, seeds: tuple[tuple[str, int], ...]) -> None:
        """Restore the stored state, accept peers, and join the overlay."""
        self.transport.open(self.me, self)
        self.step(ctl.Restored(self._state.items(), self._results.found()))
        self.step(streams)
        self.step(Start(seeds))

    async def stop(self) -> None:
        """Stop orderly: stop reading, finish writes, leave. Closes the transport, but not the storage."""
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
        """Send a request to the control plane and return its answer.

        Raises:
            Unreachable: there was no answer in time, or the agent is stopping.
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
        """Pass an event to the core and execute the effects. Never blocks."""
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
        """Keep one timer, never later than the core's deadline. A timer that fires early is harmless."""
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
            self._arm(deadline)  # the usual case: the deadline was that of an answer, which has arrived
        else:
            self.step(Tick())

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case MergeRequest() | ctl.Finalise() | ctl.MergeEarly():
                self._heavy.ask(effect)
            case ctl.Recompute():
                self._spawn(self._answer("verify", partial(self._recheck, effect)))
            case TryFunctions():
                self._spawn(self._answer(f"{SLOW}{effect.token % 8}", partial(self._try_functions, effect)))
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
            case ctl.EarlyMembers():
                self.workers.share_early(effect.job, effect.members)
            case ctl.ReadPosts():
                self.workers.read_posts(effect)
            case ctl.StopPosts():
                self.workers.stop_posts(effect.job)
            case ctl.CutPanes():
                self.workers.cut_panes(effect)
            case ctl.EndLog():
                self.workers.end_log(effect)
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
        # the message exceeds a limit of the wire format, and the peer would close the connection
        except ValueError as error:
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
        """Stop the agent because of an error that it must not survive; sets `failed`."""
        if not self.failed.done():
            log.error("fatal: %s", error)
            self._stopped = True
            self.failed.set_result(error)

    async def _answer(self, lane: str, work: Callable[[], Event]) -> None:
        self.step(await self._executor.run(lane, partial(starving.retried, work, f"the thread {lane!r}")))

    @property
    def problem(self) -> str:
        """Why nothing can be written, or what a thread waits for; "" if there is no problem."""
        return self._outbox.problem or starving.problem()

    @property
    def queues(self) -> dict[str, int]:
        waiting = {"events": len(self._inbox), "effects": len(self._outbox), "answers": len(self._replies)}
        return {**waiting, **self._heavy.waiting, "tasks": len(self._tasks)}
