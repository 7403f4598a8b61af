"""Isolation of jobs in one stream: a job that would delay the others is read apart from them.

The jobs of a stream share every read, so a line is parsed once for all; in return, they all wait for a slow
one. Two kinds of jobs are read apart: those that `round_robin` or `shares` has found to cost too much,
permanently; and those that start behind the others, until they have caught up, because only they have a
backlog. Owns the placement of jobs and their moves, and the timer of the scheduler. Decides nothing about
time, and reads nothing.

Invariants: a job changes its reader at rest and continues at the same position (D-1). At most SLOW_MAX slow
jobs are read apart; further ones stay with the others. At most BEHIND_MAX jobs catch up at a time; further
ones wait.

Paper: none.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

from elfmesh.ingest.read_loop import Ingest
from elfmesh.ingest.scheduling.scheduler import Scheduler
from elfmesh.ingest.scheduling.shares import Limit, Use
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.worker.jobs import MOVING, LocalJob
from elfmesh.storage.frames import Sealed

log = logging.getLogger("elf.worker")
SLOW_MAX, BEHIND_MAX = 64, 8
"""Maximum number of jobs that are read apart, of each kind. Each parses its lines itself; they share two
threads."""

BEHIND_BYTES = 16 << 10
"""A job that is closer to the others than this catches up among them, because they will hardly be delayed."""

WATCH_S = 1.0

Move: TypeAlias = Callable[[LocalJob], Coroutine[Any, Any, None]]


class Opens(Protocol):
    """Makes the read loop of a job that is read apart."""

    def __call__(self, name: str, stream: str, caught_up: Callable[[], None] | None) -> Ingest: ...


class JobIsolation:
    """Placement of jobs that are read apart. Runs on the event loop, except `begin`.

    Args:
        ingests: read loops of the agent, by home; those of jobs apart are added and removed here.
        streams: names of the agent's streams.
        open_apart: see `Opens`.
        run: runs a read loop until it is closed.
        leave: removes a read loop that no other job uses.
        wall_us: wall clock.
        scheduler: limits jobs.
        jobs: the agent's jobs by id.
        again: queues a move by one of the functions below, after the job's other requests.
    """

    def __init__(
        self,
        ingests: dict[str, Ingest],
        streams: Collection[str],
        *,
        open_apart: Opens,
        run: Callable[[Ingest], None],
        leave: Callable[[str], None],
        wall_us: Callable[[], int],
        scheduler: Scheduler,
        jobs: Mapping[bytes, LocalJob],
        again: Callable[[bytes, Move], None],
    ) -> None:
        self._ingests, self._streams, self._open_apart = ingests, streams, open_apart
        self._run, self._leave, self._wall_us = run, leave, wall_us
        self._scheduler, self._jobs, self._again = scheduler, jobs, again
        self._timer: asyncio.TimerHandle | None = None
        self._behind, self._slow = set[str](), set[str]()  # homes of jobs that catch up, and of slow jobs
        self._waiting: deque[LocalJob] = deque()  # waiting to catch up

    def watch(self) -> None:
        """Observe the cost of jobs once a second, until `close`. Does nothing without a limit."""
        if self._scheduler.has_limit:
            self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._observe)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _observe(self) -> None:
        uses = {job.key: Use(job.cost.cpu_s, job.sheds) for job in self._jobs.values()}
        for limit in self._scheduler.observe(asyncio.get_running_loop().time(), uses):
            self.hold(limit)
        self.watch()

    def hold(self, limit: Limit) -> None:
        """Hold a job to its limit: it sheds, or is read apart and waits."""
        job = next((job for job in self._jobs.values() if job.key == limit.job), None)
        if job is None:
            return
        job.cost.sheds = job.sheds and limit.cores is not None
        self._scheduler.hold(
            limit, job.cost, job.manifest.qualified, is_apart=job.home in self._behind | self._slow
        )
        if limit.cores is not None and not job.cost.sheds:
            self._again(job.manifest.job_id, self.set_apart)

    def begin(self, job: LocalJob, stream: Stream) -> Sealed | None:
        """Start a job, at rest. A job that is far behind the others is held until `settle`."""
        began = job.begin(stream)
        if self._is_shared(job) and _is_far_behind(job, stream):
            job.hold(stream, MOVING, True, self._wall_us())
        return began

    async def settle(self, job: LocalJob) -> None:
        """Resume, apart, a job that `begin` has held.

        If too many catch up already, the job waits for its turn.
        """
        if MOVING not in job.held:
            self._next()
        elif len(self._behind) >= BEHIND_MAX:
            self._waiting.append(job)
        else:
            self._allow(job)
            await self._part(job, self._behind, lambda: self._again(job.manifest.job_id, self.rejoin))

    async def set_apart(self, job: LocalJob) -> None:
        """Read a job apart because it delays the others of its stream.

        Its input is then read and parsed separately. Its next version starts among the others again.
        """
        catches_up = job.home in self._behind
        may_part = self._is_shared(job) and MOVING not in job.held and len(self._slow) < SLOW_MAX
        if not (catches_up or may_part):
            return
        log.warning("job %s is slow: it is read apart from now on", job.manifest.qualified)
        self._allow(job)
        if catches_up:
            self._behind.discard(job.home)
            self._slow.add(job.home)
            self._next()
        else:
            await self._part(job, self._slow, None)

    async def rejoin(self, job: LocalJob) -> None:
        """Move a job that has caught up back to the others of its stream."""
        if job.home not in self._behind:  # it is slow, or has been restarted
            return
        old, new, name = self._ingests[job.home], self._ingests[job.stream], job.home
        await old.at_rest(partial(job.part, old.stream, self._wall_us()))
        await new.at_rest(partial(job.join, new.stream, self._wall_us()))
        job.home = job.stream
        if job.cost.allowance is self._scheduler.apart:
            job.cost.allowance = None
        self._leave(name)
        new.wake()

    def gone(self, home: str) -> None:
        """Remove a job from its home and from the queue; the home's read loop ends unless it is shared."""
        self._slow.discard(home)
        self._behind.discard(home)
        self._waiting = deque(job for job in self._waiting if self._is_here(job))
        self._next()

    def _next(self) -> None:
        """Let the next job catch up, if there is room; a job that finds no room waits again."""
        while self._waiting and len(self._behind) < BEHIND_MAX:
            job = self._waiting.popleft()
            if self._is_here(job):
                self._again(job.manifest.job_id, self.settle)
                return

    def _allow(self, job: LocalJob) -> None:
        if job.cost.allowance is None:
            job.cost.allowance = self._scheduler.apart

    async def _part(self, job: LocalJob, kind: set[str], caught_up: Callable[[], None] | None) -> None:
        old = self._ingests[job.home]
        name = own_home(job, job.home, self._ingests.keys() | self._behind | self._slow)
        kind.add(name)
        new = self._open_apart(name, job.home, caught_up)
        await old.at_rest(partial(job.move, old.stream, new.stream, self._wall_us()))
        self._ingests[name], job.home = new, name
        if not self._is_here(job):  # it has failed in the meantime
            self._leave(name)
        self._run(new)

    def _is_here(self, job: LocalJob) -> bool:
        """Return whether this is still the agent's worker of its job."""
        return self._jobs.get(job.manifest.job_id) is job

    def _is_shared(self, job: LocalJob) -> bool:
        return job.home in self._streams


def own_home(job: LocalJob, stream: str, homes: Collection[str]) -> str:
    """Return a name that is not in `homes` for the read loop of one job.

    Jobs of several creators can have one name. A job can begin at its other placement before it ends here.
    """
    name = f"{stream} for {job.manifest.qualified}"
    return f"{name} ({job.manifest.job_id.hex()})" if name in homes else name


def _is_far_behind(job: LocalJob, stream: Stream) -> bool:
    reader = stream.reader
    at = {position.key: position.offset for position in reader.positions(job.key)}
    for name, other in stream.jobs.items():
        if other is job or other.held or not all(state.at_end for state in reader.sources(name)):
            continue
        ahead = ((position.key, position.offset) for position in reader.positions(name))
        return sum(max(0, offset - at.get(key, 0)) for key, offset in ahead) > BEHIND_BYTES
    return False
