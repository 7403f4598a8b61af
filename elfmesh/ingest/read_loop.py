"""Read loop of one stream: it parses a block while it evaluates the previous one.

Owns the order poll -> evaluate -> frame log -> control plane of one stream, the polling interval, and the
moments at which no block is in flight. Does not depend on queries or files. Polls run in the executor's lane
"read:<stream>" and evaluation in "work:<stream>", so that two cores can be used.

Invariants:
    - Blocks are evaluated in the order in which they were read, one at a time. The contributions that one of
      them sealed are durable and handed over before the next is evaluated.
    - The jobs of a stream start, end, pause and continue only while no block is in flight (`at_rest`), so
      that the reader and the jobs have the same position.
    - At most one block is evaluated and one parsed ahead. No block is read while memory is over its budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from elfmesh.ingest.host import APART, SLOW, Executor
from elfmesh.ingest.ports import HELD_BYTES_MAX
from elfmesh.ingest.scheduling.round_robin import LoopAccount
from elfmesh.ingest.stream import BACKLOG_BYTES, Evaluated, Polled, Stream
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.machine import Event
from elfmesh.safeguards import safeguard
from elfmesh.storage.frames import Sealed

log = logging.getLogger("elf.worker")
T = TypeVar("T")
POLL_MIN_S, POLL_MAX_S = 0.02, 0.1
"""Polling interval of a stream: short after it has grown, longer while it is silent."""
POLL_COST, POLL_BUSY_S = 0.005, 0.25
"""A stream that grows steadily is polled less often, because its polls may use half a percent of a core. The
interval stays below `POLL_BUSY_S`, and a due interval is still sealed in time."""

POLL_FEW_S, POLL_FEW_BYTES = 1.0, 16 << 10
"""If the stream grows by fewer bytes than this between polls, the cost is per poll, so the interval may be
longer."""


def pause_max_s(nbytes: int, since_us: int) -> float:
    """Return the greatest polling interval of a stream that grew by `nbytes` since the poll at `since_us`."""
    return min(max(since_us / 1e6 * POLL_FEW_BYTES / nbytes, POLL_BUSY_S), POLL_FEW_S)


def silent_max_s(cost_s: float) -> float:
    """Return the greatest polling interval of a silent stream, whose polls cost more with many jobs."""
    return max(POLL_MAX_S, min(POLL_BUSY_S, cost_s / POLL_COST))


class Memory(Protocol):
    """Interface of the agent's memory budget (`elfmesh.cbt.MemoryBudget`)."""

    @property
    def over(self) -> bool:
        """Return whether the memory exceeds its limit and no part of it can be spilled to disk."""
        ...

    @property
    def problem(self) -> Exception | None: ...

    def relieve(self) -> None: ...


class Ingest:
    """Read loop of one stream.

    Args:
        stream: the stream and its jobs.
        executor: runs polls and evaluation.
        account: when to read, and how much; of a loop that reads one job apart, in the lanes of such loops.
        wall_us: wall clock.
        write: makes frames durable.
        emit: receives the events for the control plane.
        ended: called with the id of a job that failed.
        memory: shared by all streams of the agent; None: no limit.
        held_bytes_max: see HELD_BYTES_MAX.
        crowded: whether the frame log has room only for counts; a stream that sheds then drops its rows.
        slow: called with the id of a job that delays the others.
        tidy: called in a thread after intervals were sealed, which frees much memory.
        waits: evaluation waits for other processes.
        caught_up: called once when the only job is at the end of its files and is not slow.
    """

    def __init__(
        self,
        stream: Stream,
        executor: Executor,
        account: LoopAccount,
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
        caught_up: Callable[[], None] | None = None,
    ) -> None:
        self.stream, self.account = stream, account
        self._executor, self._wall_us, self._write, self._emit = executor, wall_us, write, emit
        self._ended, self._memory, self.held_bytes_max = ended, memory, held_bytes_max
        self._tidy, self._slow, self._caught_up = tidy, slow, caught_up
        self._reading, self._working = f"read:{stream.name}", f"{SLOW if waits else 'work:'}{stream.name}"
        if account.is_apart:
            self._reading, self._working = f"{APART}{self._reading}", f"{APART}{self._working}"
        self._wake = asyncio.Event()
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._failed: list[LocalJob] = []
        # Contributions since the last look at what the jobs hold, or a call of `wake`.
        self._has_given = False
        self._evaluating: asyncio.Task[None] | None = None
        self._closing = False
        self._finished = False
        self._over_memory = False
        self._sheds = stream.config.on_overload == "shed"
        self._crowded = crowded
        self._polled_us: int | None = None
        self._rests_until_s = 0.0  # by the loop's clock; until then a poll that finds nothing is the end
        self._turned_s: float | None = None  # time of the last iteration; None: there is nothing to read for

    def stalled_s(self, now: float) -> float:
        """Return the time since the loop's last iteration, by the loop's clock.

        Returns 0 if the stream has no jobs.
        """
        return 0.0 if self._turned_s is None else now - self._turned_s

    def wake(self) -> None:
        """Let the next poll follow at once, and evaluate every job after it."""
        self._has_given = True
        self.evaluate_next()
        self._wake.set()

    def evaluate_next(self) -> None:
        """Evaluate every job after the next poll, also if it finds nothing."""
        self._rests_until_s = 0.0

    def close(self) -> None:
        """Stop reading at the current position; `run` returns soon after."""
        self._closing = True
        self.wake()

    async def at_rest(self, work: Callable[[], T]) -> T:
        """Run work while no block is in flight, and return its result or raise its exception."""
        if self._finished:
            return await self._executor.run(self._reading, work)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        self.wake()
        return await future

    async def run(self) -> None:
        """Poll the stream until `close`: without pause while it is busy, less often while it is silent."""
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
            has_given, self._has_given = self._has_given, False
            if self._waiting or self._failed or (has_given and self._heavy()):
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
            bytes_max = self.account.bytes_max
            rests = asyncio.get_running_loop().time() < self._rests_until_s
            poll = partial(self.stream.poll, self._wall_us, self._over_memory, bytes_max, rests=rests)
            polled = await self._executor.run(self._reading, poll)
            since_us = polled.now_us - (self._polled_us or polled.now_us)
            self._polled_us = polled.now_us
            await self._settle()
            has_more = polled.bytes_read >= min(BACKLOG_BYTES, bytes_max // 2)
            if polled.places:
                self._evaluating = asyncio.get_running_loop().create_task(self._evaluate(polled, has_more))
                if has_more:
                    continue
                await self._settle()
                self.account.due_us = self.stream.next_due_us()
                self._rest()
            due_us = self.account.due_us
            if not polled.bytes_read:
                most = silent_max_s(self.stream.poll_cost_s)
                pause = min(max(pause, min(most, pause * 1.5)), POLL_BUSY_S)
            elif due_us is None:
                pause = POLL_MIN_S
            else:
                most = pause_max_s(polled.bytes_read, since_us)
                pause = max(POLL_MIN_S, min(most, self.stream.poll_cost_s / POLL_COST))
            wall_us = self._wall_us()
            ahead = (due_us or 0) - self.stream.agreed_us(wall_us)
            within_s = min(self.stream.cut_within_s(wall_us), ahead / 1e6 if ahead > 0 else pause)
            await self._sleep(max(0.001, min(pause, within_s)))

    def _rest(self) -> None:
        rest_s = 0.0 if self._wake.is_set() else self.stream.rest_s(self._wall_us())
        self._rests_until_s = asyncio.get_running_loop().time() + rest_s

    def _delay_s(self) -> float:
        """Return how long the next poll must wait for processor time; evaluation continues meanwhile."""
        jobs = self.stream.jobs.values()
        own_s = next(iter(jobs)).cost.delay_s if len(jobs) == 1 else 0.0
        return max(own_s, self.account.delay_s(asyncio.get_running_loop().time(), self._wall_us))

    def _heavy(self) -> list[LocalJob]:
        """Return the jobs that hold too many bytes; only contributions that are handed over add bytes."""
        jobs = () if self._sheds else self.stream.jobs.values()
        return [job for job in jobs if job.held_bytes > self.held_bytes_max and "memory" not in job.held]

    async def _settle(self) -> None:
        task, self._evaluating = self._evaluating, None
        if task is not None:
            await task

    async def _obey(self) -> None:
        """With no block in flight, remove failed jobs, pause jobs with too many bytes, run queued work."""
        stream = self.stream
        while self._failed:
            await self._executor.run(self._reading, partial(self._failed.pop().end, stream))
        for job in self._heavy():
            log.warning("job %s waits: %d bytes are not closed", job.manifest.qualified, job.held_bytes)
            hold = partial(job.hold, stream, "memory")
            await self._executor.run(self._reading, partial(hold, True, self._wall_us()))
            if (
                job.held_bytes < self.held_bytes_max // 2
            ):  # closed meanwhile, so no later event would resume it
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
    async def _evaluate(self, polled: Polled, has_more: bool = False) -> None:
        """Evaluate the jobs; make sealed contributions durable before they are handed over."""
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
        self._charge(polled, has_more)

    async def _hand_out(self, outcome: Evaluated) -> None:
        if outcome.frames:
            self.account.sealed_s = asyncio.get_running_loop().time()
            await self._write(outcome.frames)
        for event in outcome.events:
            self.stream.given(event)
            self._has_given = True
            self._emit(event)
        for job in outcome.failed:
            self._failed.append(job)
            self._ended(job.manifest.job_id)

    def _charge(self, polled: Polled, has_more: bool) -> None:
        """Charge the loop for a block. Report its jobs that turn out to be slow, or that have caught up."""
        stream = self.stream
        costs = stream.costs if polled.bytes_read < BACKLOG_BYTES else {}
        cost_s, intervals = stream.poll_cost_s, stream.intervals
        slow = self.account.charge(polled.bytes_read, cost_s, costs, has_more, intervals)
        if slow is not None and slow in stream.jobs:
            self._slow(stream.jobs[slow].manifest.job_id)
        if self._caught_up is None or not polled.places:
            return
        tell = self._caught_up
        if self.account.is_slow:
            self._caught_up = None
            for job in stream.jobs.values():
                self._slow(job.manifest.job_id)
        elif all(state.at_end for place in polled.places.values() for state in place.sources):
            self._caught_up = None
            tell()

    async def _wait_memory(self, memory: Memory) -> bool:
        """Return whether reading must wait for memory; a stream that sheds never waits.

        Unread lines hold back the watermarks meanwhile. The watermark of a source at its end advances with
        the clock, because only sealing the due intervals frees memory.
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
