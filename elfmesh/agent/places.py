"""Where a job of one stream is read: among the others, or by itself while they would wait for it.

Jobs of a stream share every read, so that a line is parsed once for all; the price is that what one of them
takes long over, all wait for. Two kinds are read by themselves: one that `slowness` or `pace` has found slow,
for good, and one that begins behind those that stand at the end of their files, until it stands there too:
its backlog is its own. Owns which job is where, and the moves. Reads nothing itself.

Invariants: a job changes its reader at rest and goes on exactly where it stood (D-1); no more than APART_MAX
jobs are read by themselves, those over several streams among them: the rest are read with the others.

Paper: none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

from elfmesh.agent.budget.host import HostBudget
from elfmesh.agent.disk.frames import Sealed
from elfmesh.agent.ingest import Ingest
from elfmesh.agent.stream import Stream
from elfmesh.agent.worker.jobs import MOVING, LocalJob

log = logging.getLogger("elf.worker")
APART_MAX = 8
"""Jobs read by themselves; each parses its lines for itself."""

BEHIND_BYTES = 16 << 10
"""A job that is closer to the others than that catches up among them: they will hardly notice."""


class Opens(Protocol):
    """What makes the ingest of a job that is read by itself."""

    def __call__(self, name: str, stream: str, caught_up: Callable[[], None] | None) -> Ingest:
        """An ingest that does not run yet."""
        ...


class Places:
    """See the module; on the loop, but for `begin`.

    Args:
        ingests: of the agent, by home; those of jobs apart are put in and taken out.
        streams: names of the agent's streams.
        open_apart: see `Opens`.
        run: runs an ingest until it is closed.
        leave: takes an ingest away if nobody else reads there.
        wall_us: wall clock.
        budget: gives the allowance of a slow job.
        caught_up: told of a job that may be read among the others again.
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
        caught_up: Callable[[bytes], None],
    ) -> None:
        self._ingests, self._streams, self._open_apart = ingests, streams, open_apart
        self._run, self._leave, self._wall_us = run, leave, wall_us
        self._budget, self._caught_up = budget, caught_up
        self._behind: set[str] = set()  # homes of jobs that catch up

    def begin(self, job: LocalJob, stream: Stream) -> Sealed | None:
        """At rest: begin a job; one that is far behind the others is held until `settle`."""
        began = job.begin(stream)
        if self._is_shared(job) and _is_far_behind(job, stream):
            job.hold(stream, MOVING, True, self._wall_us())
        return began

    async def settle(self, job: LocalJob, is_here: Callable[[], bool]) -> None:
        """Let a job that `begin` has held go on, by itself."""
        if MOVING not in job.held:
            return
        if self._has_room:
            await self._part(job, is_here, partial(self._caught_up, job.manifest.job_id))
        else:
            ingest = self._ingests[job.home]
            await ingest.at_rest(partial(job.hold, ingest.stream, MOVING, False, self._wall_us()))

    async def set_apart(self, job: LocalJob, is_here: Callable[[], bool]) -> None:
        """Let a job that holds up the others of its stream be read by itself: they do not wait for it then.

        What it reads is read and parsed once more. Its next version begins among the others.
        """
        catches_up = job.home in self._behind
        if not catches_up and not (self._is_shared(job) and self._has_room):
            return
        log.warning("job %s is slow: it is read by itself from now on", job.manifest.qualified)
        if self._budget is not None and job.cost.allowance is None:
            job.cost.allowance = self._budget.of_one_job()
        if catches_up:
            self._behind.discard(job.home)
        else:
            await self._part(job, is_here, None)

    async def rejoin(self, job: LocalJob) -> None:
        """Let a job that has caught up be read with the others of its stream."""
        if job.home not in self._behind:  # it is slow, or has begun anew
            return
        old, new, name = self._ingests[job.home], self._ingests[job.stream], job.home
        await old.at_rest(partial(job.part, old.stream, self._wall_us()))
        await new.at_rest(partial(job.join, new.stream, self._wall_us()))
        job.home = job.stream
        self.gone(name)
        self._leave(name)
        new.wake()

    def gone(self, home: str) -> None:
        """Nobody is read there any more."""
        self._behind.discard(home)

    async def _part(
        self, job: LocalJob, is_here: Callable[[], bool], caught_up: Callable[[], None] | None
    ) -> None:
        old = self._ingests[job.home]
        name = f"{job.home} for {job.manifest.qualified}"
        new = self._open_apart(name, job.home, caught_up)
        await old.at_rest(partial(job.move, old.stream, new.stream, self._wall_us()))
        self._ingests[name], job.home = new, name
        if caught_up is not None:
            self._behind.add(name)
        if not is_here():  # it has failed meanwhile
            self.gone(name)
            self._leave(name)
        self._run(new)

    def _is_shared(self, job: LocalJob) -> bool:
        return job.home in self._streams

    @property
    def _has_room(self) -> bool:
        return len(self._ingests) - len(self._streams) < APART_MAX


def _is_far_behind(job: LocalJob, stream: Stream) -> bool:
    """Whether there are others at the end of what they read, and it is far from there."""
    reader = stream.reader
    at = {position.key: position.offset for position in reader.positions(job.key)}
    for name, other in stream.jobs.items():
        if other is job or other.held or not all(state.at_end for state in reader.sources(name)):
            continue
        ahead = ((position.key, position.offset) for position in reader.positions(name))
        return sum(max(0, offset - at.get(key, 0)) for key, offset in ahead) > BEHIND_BYTES
    return False
