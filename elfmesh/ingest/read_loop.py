"""The loop over one stream: a block is parsed while the one before it is evaluated.

Owns the order poll -> evaluate -> frame log -> control plane of one stream, how often it is looked at, and
the moments at which nothing of it is in flight. Knows no query and no file; polls run in the executor's
lane "read:<stream>", evaluation in "work:<stream>", so that both cores have something to do.

Invariants:
    - Blocks are evaluated in the order in which they were read, one at a time; what one of them sealed is
      durable and given before the next is evaluated.
    - The jobs of a stream begin, end, hold and go on only while no block is in flight (`at_rest`), so that
      the reader and the jobs stand at the same place.
    - At most one block is evaluated and one parsed ahead; while memory is over its budget, none is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from elfmesh.ingest.budget.host import HostBudget
from elfmesh.ingest.host import APART, SLOW, Executor
from elfmesh.ingest.ports import HELD_BYTES_MAX
from elfmesh.ingest.scheduling.batch_sizing import LONG_S, BatchSizing
from elfmesh.ingest.scheduling.yielding import Yielding
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.stream import BACKLOG_BYTES, Evaluated, Polled, Stream
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.machine import Event
from elfmesh.safeguards import safeguard
from elfmesh.storage.frames import Sealed

log = logging.getLogger("elf.worker")
T = TypeVar("T")
POLL_MIN_S, POLL_MAX_S = 0.02, 0.1
"""How often a stream is looked at: soon after it has grown, more rarely while it is silent."""
POLL_COST, POLL_BUSY_S = 0.005, 0.25
"""A stream that grows evenly is not looked at for every few lines: polls take half a percent of a core, while
they are no further apart than this. Where an interval is due, it is looked at in time all the same."""

POLL_FEW_S, POLL_FEW_BYTES = 1.0, 16 << 10
"""One that grows by so little in between costs by the poll, not by the line: polls may be further apart."""


def pause_max_s(nbytes: int, since_us: int) -> float:
    """How far apart polls may be if a stream grows on as it did: by so many bytes since the poll before."""
    return min(max(since_us / 1e6 * POLL_FEW_BYTES / nbytes, POLL_BUSY_S), POLL_FEW_S)


def silent_max_s(cost_s: float) -> float:
    """How far apart polls of a silent stream are at most: many jobs make them dear, as all are asked."""
    return max(POLL_MAX_S, min(POLL_BUSY_S, cost_s / POLL_COST))


class Memory(Protocol):
    """What is asked of the agent's memory budget (`elfmesh.cbt.MemoryBudget`)."""

    @property
    def over(self) -> bool:
        """Whether more is held than there may be, and nothing of it can go to disk."""
        ...

    @property
    def problem(self) -> Exception | None: ...

    def relieve(self) -> None: ...


class Ingest:
    """Reads one stream for ever.

    Args:
        stream: what is read, and its jobs.
        executor: where polls and evaluation run.
        wall_us: wall clock.
        write: makes frames durable.
        emit: takes the events for the control plane.
        ended: told of jobs that failed.
        memory: shared by all streams of the agent; None: without limit.
        held_bytes_max: see HELD_BYTES_MAX.
        crowded: whether the frame log has room for counts only: a stream that sheds then drops its rows.
        slow: told of a job that holds up the others.
        tidy: called in a thread when intervals were sealed, which frees much memory.
        waits: evaluation waits for other processes.
        apart: the lanes are those of slow jobs, and what is read at once depends on what it costs.
        caught_up: told once that the only job stands at the end of its files and is not slow.
        budget: the agent's processor time; None: without limit.
        yielding: when to let others go first; None: never.

    Attributes:
        due_us, sealed_s: see `elfmesh.ingest.scheduling.yielding.Closes`.
    """

    def __init__(
        self,
        stream: Stream,
        executor: Executor,
        *,
        wall_us: Callable[[], int],
        write: Callable[[list[Sealed]], Awaitable[None]],
        emit: Callable[[Event], None],
        ended: Callable[[bytes], None],
        memory: Memory | None = None,
        held_bytes_max: int = HELD_BYTES_MAX,
        crowded: Callable[[], bool] = lambda: False,
        slow: Callable[[bytes], None] = lambda job: None,
        tidy: Callable[[], None] = lambda: None,
        waits: bool = False,
        apart: bool = False,
        caught_up: Callable[[], None] | None = None,
        budget: HostBudget | None = None,
        yielding: Yielding | None = None,
    ) -> None:
        self._budget, self._yielding = budget, yielding
        self.due_us: int | None = None
        self.sealed_s = float("-inf")
        self.stream = stream
        self._executor, self._wall_us, self._write, self._emit = executor, wall_us, write, emit
        self._ended, self._memory, self.held_bytes_max = ended, memory, held_bytes_max
        self._tidy, self._slow, self._caught_up = tidy, slow, caught_up
        self._batch_sizing = BatchSizing() if apart else None
        self._reading, self._working = f"read:{stream.name}", f"{SLOW if waits else 'work:'}{stream.name}"
        if apart:
            self._reading, self._working = f"{APART}{self._reading}", f"{APART}{self._working}"
        self._wake = asyncio.Event()
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._failed: list[LocalJob] = []
        self._evaluating: asyncio.Task[None] | None = None
        self._closing = False
        self._finished = False
        self._over_memory = False
        self._sheds = stream.config.on_overload == "shed"
        self._crowded = crowded
        self._polled_us: int | None = None
        self._turned_s: float | None = None  # when its loop came round; None: no caller waits for it

    def stalled_s(self, now: float) -> float:
        """For how long the loop has not come round, by its clock; 0 where there is nothing to read for."""
        return 0.0 if self._turned_s is None else now - self._turned_s

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        """Stop reading where we are; `run` ends soon after."""
        self._closing = True
        self._wake.set()

    async def at_rest(self, work: Callable[[], T]) -> T:
        """The result of work that must not meet a block in flight; its exception is raised here."""
        if self._finished:
            return await self._executor.run(self._reading, work)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        self._wake.set()
        return await future

    async def run(self) -> None:
        """Look at the stream until `close`: at once while it is busy, ever more rarely while it is silent."""
        try:
            await self._look()
            await self._settle()
            await self._obey()
        finally:
            self._finished, self._turned_s = True, None
            if self._evaluating is not None:
                self._evaluating.cancel()
            for _, future in self._waiting:
                future.cancel()

    async def _look(self) -> None:
        pause = POLL_MIN_S
        while not self._closing:
            self._wake.clear()
            self._turned_s = asyncio.get_running_loop().time()
            if self._waiting or self._failed or self._heavy():
                await self._settle()
                await self._obey()
            if not self.stream.jobs:
                self._turned_s = None
                await self._wake.wait()
                continue
            if (delay_s := self._delay_s()) > 0:
                await self._sleep(min(delay_s, POLL_MAX_S))
                continue
            if self._memory is not None and await self._wait_memory(self._memory):
                continue
            bytes_max = POLL_BYTES if self._batch_sizing is None else self._batch_sizing.bytes_max
            poll = partial(self.stream.poll, self._wall_us, self._over_memory, bytes_max)
            polled = await self._executor.run(self._reading, poll)
            since_us = polled.now_us - (self._polled_us or polled.now_us)
            self._polled_us = polled.now_us
            await self._settle()
            self._evaluating = asyncio.get_running_loop().create_task(self._evaluate(polled))
            if polled.bytes_read >= min(BACKLOG_BYTES, bytes_max // 2):
                continue  # the reader is behind
            await self._settle()
            due_us = self.due_us = self.stream.next_due_us()
            if not polled.bytes_read:
                most = silent_max_s(self.stream.poll_cost_s)
                pause = min(max(pause, min(most, pause * 1.5)), POLL_BUSY_S)
            elif due_us is None:
                pause = POLL_MIN_S
            else:
                most = pause_max_s(polled.bytes_read, since_us)
                pause = max(POLL_MIN_S, min(most, self.stream.poll_cost_s / POLL_COST))
            ahead = (due_us or 0) - self.stream.agreed_us(self._wall_us())
            await self._sleep(max(0.001, min(pause, ahead / 1e6)) if ahead > 0 else pause)

    def _delay_s(self) -> float:
        """How long the next poll has to wait for processor time; what is being evaluated goes on."""
        jobs = self.stream.jobs.values()
        own_s = next(iter(jobs)).cost.delay_s if len(jobs) == 1 else 0.0
        if self._yielding is not None:
            now_s = asyncio.get_running_loop().time()
            block_s = self.stream.poll_cost_s if self.stream.polls else LONG_S
            own_s = max(own_s, self._yielding.delay_s(now_s, block_s))
        return max(own_s, self._budget.delay_s(self.stream.name) if self._budget is not None else 0.0)

    def _heavy(self) -> list[LocalJob]:
        jobs = () if self._sheds else self.stream.jobs.values()
        return [job for job in jobs if job.held_bytes > self.held_bytes_max and "memory" not in job.held]

    async def _settle(self) -> None:
        task, self._evaluating = self._evaluating, None
        if task is not None:
            await task

    async def _obey(self) -> None:
        """At rest: take failed jobs off the stream, hold back heavy ones, do what others have asked for."""
        stream = self.stream
        while self._failed:
            await self._executor.run(self._reading, partial(self._failed.pop().end, stream))
        for job in self._heavy():
            log.warning("job %s waits: %d bytes are not closed", job.manifest.qualified, job.held_bytes)
            hold = partial(job.hold, stream, "memory")
            await self._executor.run(self._reading, partial(hold, True, self._wall_us()))
            if (
                job.held_bytes < self.held_bytes_max // 2
            ):  # closed meanwhile: no other caller would let it go on
                await self._executor.run(self._reading, partial(hold, False, self._wall_us()))
        while self._waiting:
            work, future = self._waiting.popleft()
            try:
                outcome = await self._executor.run(self._reading, work)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(outcome)

    @safeguard("write-before-send")
    async def _evaluate(self, polled: Polled) -> None:
        """Feed the jobs and hand out what they sealed, on disk first."""
        if self._sheds:
            self.stream.spool_bytes_max = 0 if self._crowded() else self.held_bytes_max
        outcomes = self.stream.evaluate(polled)
        sealed, more = False, True
        while more:
            outcome = await self._executor.run(self._working, partial(next, outcomes))
            sealed, more = sealed or bool(outcome.frames), outcome.more
            await self._hand_out(outcome)
        if sealed:
            await self._executor.run(self._working, self._tidy)
        if self._batch_sizing is not None:
            self._judge(self._batch_sizing, polled)

    async def _hand_out(self, outcome: Evaluated) -> None:
        if outcome.frames:
            self.sealed_s = asyncio.get_running_loop().time()
            await self._write(outcome.frames)
        for event in outcome.events:
            self.stream.given(event)
            self._emit(event)
        if outcome.slow is not None:
            self._slow(outcome.slow.manifest.job_id)
        for job in outcome.failed:
            self._failed.append(job)
            self._ended(job.manifest.job_id)

    def _judge(self, batch_sizing: BatchSizing, polled: Polled) -> None:
        batch_sizing.polled(polled.bytes_read, self.stream.poll_cost_s)
        if self._caught_up is None or not polled.places:
            return
        tell = self._caught_up
        if batch_sizing.is_slow:
            self._caught_up = None
            for job in self.stream.jobs.values():
                self._slow(job.manifest.job_id)
        elif all(state.at_end for place in polled.places.values() for state in place.sources):
            self._caught_up = None
            tell()

    async def _wait_memory(self, memory: Memory) -> bool:
        """Whether reading has to wait for memory; a stream that sheds never does.

        Unread lines hold the watermarks meanwhile; a source at its end goes on with the clock: to seal what
        is due is what frees memory, and nothing else might.
        """
        over = memory.over
        if over != self._over_memory:
            await self._settle()
            self._over_memory = over
            why = f" ({memory.problem})" if memory.problem else ""
            if over:
                what = "sheds records" if self._sheds else "waits"
                log.warning("stream %s %s: the memory limit is reached%s", self.stream.name, what, why)
            else:
                log.info("stream %s is read again", self.stream.name)
        if over and self._sheds:
            await self._executor.run(self._working, memory.relieve)
            return False
        if over:
            await self._sleep(POLL_MAX_S)
            await self._executor.run(self._working, memory.relieve)
            looked = await self._executor.run(self._reading, partial(self.stream.look, self._wall_us))
            await self._evaluate(looked)
        return over

    async def _sleep(self, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
