"""Where a job of one stream is read: among the others, or by itself while they would wait for it.

Jobs of a stream share every read, so that a line is parsed once for all; the price is that what one of them
takes long over, all wait for. Two kinds are read by themselves: one that `slowness` or `batch_sizing` has
found slow, for good, and one that begins behind those that stand at the end of their files, until it stands
there too: its backlog is its own. All of them share one allowance of processor time and stand back where
others close an interval (`yielding`). Owns which job is where, and the moves. Reads nothing itself.

Invariants: a job changes its reader at rest and goes on exactly where it stood (D-1); at most SLOW_MAX jobs
leave the others because they are slow, the rest stay; at most BEHIND_MAX jobs catch up at a time, the rest
wait for their turn.

Paper: none.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, Protocol, TypeAlias

from elfmesh.ingest.budget.host import HostBudget
from elfmesh.ingest.read_loop import Ingest
from elfmesh.ingest.scheduling.yielding import Yielding
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.worker.jobs import MOVING, LocalJob
from elfmesh.storage.frames import Sealed

log = logging.getLogger("elf.worker")
SLOW_MAX, BEHIND_MAX = 64, 8
"""Jobs read by themselves; each parses its lines for itself. They share two threads."""

BEHIND_BYTES = 16 << 10
"""A job that is closer to the others than that catches up among them: they will hardly notice."""

Move: TypeAlias = Callable[[LocalJob], Coroutine[Any, Any, None]]


class Opens(Protocol):
    """What makes the ingest of a job that is read by itself."""

    def __call__(self, name: str, stream: str, caught_up: Callable[[], None] | None) -> Ingest: ...


class JobIsolation:
    """See the module; on the loop, but for `begin`.

    Args:
        ingests: of the agent, by home; those of jobs apart are put in and taken out.
        streams: names of the agent's streams.
        open_apart: see `Opens`.
        run: runs an ingest until it is closed.
        leave: takes an ingest away if no other job reads there.
        wall_us: wall clock.
        budget: gives the allowance of those that are read by themselves.
        is_here: whether this is still the agent's worker of its job.
        again: has a job moved by one of the functions below, after what else is wanted of it.
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
        budget: HostBudget | None,
        is_here: Callable[[LocalJob], bool],
        again: Callable[[bytes, Move], None],
    ) -> None:
        self._ingests, self._streams, self._open_apart = ingests, streams, open_apart
        self._run, self._leave, self._wall_us = run, leave, wall_us
        self._budget, self._is_here, self._again = budget, is_here, again
        self._behind, self._slow = set[str](), set[str]()  # homes of jobs that catch up, and of slow ones
        self._waiting: deque[LocalJob] = deque()  # to catch up

    def yielding(self) -> Yielding:
        """Of a job that is read apart towards those that are not."""
        return Yielding(lambda: [self._ingests[name] for name in self._streams], self._wall_us)

    def begin(self, job: LocalJob, stream: Stream) -> Sealed | None:
        """At rest: begin a job; one that is far behind the others is held until `settle`."""
        began = job.begin(stream)
        if self._is_shared(job) and _is_far_behind(job, stream):
            job.hold(stream, MOVING, True, self._wall_us())
        return began

    async def settle(self, job: LocalJob) -> None:
        """Let a job that `begin` has held go on, by itself; if too many do, when its turn has come."""
        if MOVING not in job.held:
            self._next()
        elif len(self._behind) >= BEHIND_MAX:
            self._waiting.append(job)
        else:
            self._allow(job)
            await self._part(job, self._behind, lambda: self._again(job.manifest.job_id, self.rejoin))

    async def set_apart(self, job: LocalJob) -> None:
        """Let a job that holds up the others of its stream be read by itself: they do not wait for it then.

        What it reads is read and parsed once more. Its next version begins among the others.
        """
        catches_up = job.home in self._behind
        may_part = self._is_shared(job) and MOVING not in job.held and len(self._slow) < SLOW_MAX
        if not (catches_up or may_part):
            return
        log.warning("job %s is slow: it is read by itself from now on", job.manifest.qualified)
        self._allow(job)
        if catches_up:
            self._behind.discard(job.home)
            self._slow.add(job.home)
            self._next()
        else:
            await self._part(job, self._slow, None)

    async def rejoin(self, job: LocalJob) -> None:
        """Let a job that has caught up be read with the others of its stream."""
        if job.home not in self._behind:  # it is slow, or has begun again
            return
        old, new, name = self._ingests[job.home], self._ingests[job.stream], job.home
        await old.at_rest(partial(job.part, old.stream, self._wall_us()))
        await new.at_rest(partial(job.join, new.stream, self._wall_us()))
        job.home = job.stream
        if self._budget is not None and job.cost.allowance is self._budget.of_apart:
            job.cost.allowance = None
        self._leave(name)
        new.wake()

    def gone(self, home: str) -> None:
        """A job has left its home, and waits for no turn; no other job is read there, unless it is shared."""
        self._slow.discard(home)
        self._behind.discard(home)
        self._waiting = deque(job for job in self._waiting if self._is_here(job))
        self._next()

    def _next(self) -> None:
        """Let the next job catch up, if there is room. Who finds none when it comes to that waits again."""
        while self._waiting and len(self._behind) < BEHIND_MAX:
            job = self._waiting.popleft()
            if self._is_here(job):
                self._again(job.manifest.job_id, self.settle)
                return

    def _allow(self, job: LocalJob) -> None:
        if self._budget is not None and job.cost.allowance is None:
            job.cost.allowance = self._budget.of_apart

    async def _part(self, job: LocalJob, kind: set[str], caught_up: Callable[[], None] | None) -> None:
        old = self._ingests[job.home]
        name = f"{job.home} for {job.manifest.qualified}"
        kind.add(name)
        new = self._open_apart(name, job.home, caught_up)
        await old.at_rest(partial(job.move, old.stream, new.stream, self._wall_us()))
        self._ingests[name], job.home = new, name
        if not self._is_here(job):  # it has failed meanwhile
            self._leave(name)
        self._run(new)

    def _is_shared(self, job: LocalJob) -> bool:
        return job.home in self._streams


def _is_far_behind(job: LocalJob, stream: Stream) -> bool:
    reader = stream.reader
    at = {position.key: position.offset for position in reader.positions(job.key)}
    for name, other in stream.jobs.items():
        if other is job or other.held or not all(state.at_end for state in reader.sources(name)):
            continue
        ahead = ((position.key, position.offset) for position in reader.positions(name))
        return sum(max(0, offset - at.get(key, 0)) for key, offset in ahead) > BEHIND_BYTES
    return False
