"""One stream of this host: a poll on one side, the evaluation of what it brought on the other.

Owns what passes between the two, and that a block's values are shared by all jobs of the stream. Knows
neither the loop, nor threads, nor the disk.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter, time_ns

from elfmesh.cbt import Encode, encode_parts
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import ElfError
from elfmesh.ingest import traces
from elfmesh.ingest.multi_stream_reader import check_apart
from elfmesh.ingest.scheduling.slow_jobs import SlowJobs
from elfmesh.ingest.sources import Delivery, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.timings import observe, timed
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.ingest.worker.outcome import Outcome
from elfmesh.ingest.worker.reader import Reader
from elfmesh.machine import Event
from elfmesh.ql.engine.block import BlockRows
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard

log = logging.getLogger("elf.worker")
BACKLOG_BYTES = 1 << 20
"""A poll that brought so much is one of many: all jobs are late, and what is shared is worth more."""

LONG_SEAL_S = 0.002
"""CPU seconds of a poll in which a job seals: who takes longer lets the others go first, a sync apart."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job's reader stood after a poll.

    Attributes:
        sources: the files behind the job.
        positions: where its next records come from.
        gaps: what was lost to it since the last poll.
    """

    sources: list[SourceState]
    positions: tuple[FilePosition, ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll of a stream brought: all that evaluation needs to know, while the reader goes on.

    Attributes:
        now_us: the wall clock before the poll.
        agreed_us: the same, not ahead of what most agents' clocks show.
        deliveries: parsed blocks, in order.
        places: by job.
        shedding: whether the blocks are to be left out and counted.
        cpu_s: what reading and parsing cost.
    """

    now_us: int
    agreed_us: int
    deliveries: list[Delivery]
    places: Mapping[str, Place]
    shedding: bool = False
    cpu_s: float = 0.0

    @property
    def bytes_read(self) -> int:
        return sum(len(delivery.block.data) for delivery in self.deliveries)


@dataclass(slots=True)
class Evaluated(Outcome):
    """What a poll of a stream led to.

    Attributes:
        failed: jobs that stop, each by its own fault.
        slow: a job that holds up the others of the stream.
        more: there is more to evaluate.
    """

    failed: list[LocalJob] = field(default_factory=list)
    slow: LocalJob | None = None
    more: bool = False


class Stream:
    """One stream of this host and the jobs that read it.

    `poll` and `evaluate` may run in two threads, one call of each at a time; everything else, `jobs`
    included, changes only while neither runs.
    """

    def __init__(
        self,
        name: str,
        config: StreamConfig,
        reader: Reader,
        memory: MemoryBudget | None = None,
        *,
        seed: int = 0,
        encode: Encode = encode_parts,
        cpu_s: Callable[[], float] = lambda: 0.0,
        agreed_us: Callable[[int], int] = lambda now_us: now_us,
        guard: CrashGuard | NoGuard = NO_GUARD,
    ) -> None:
        self.agreed_us = agreed_us
        self._guard = guard
        self._cpu_s, self._slowness = cpu_s, SlowJobs()
        self.name, self.config, self.reader = name, config, reader
        self.memory, self.seed, self.encode = memory, seed, encode
        self.jobs: dict[str, LocalJob] = {}
        self.spool_bytes_max: int | None = None
        self._problems: dict[str, str] = {}
        self.polls = self.bytes_read = self.lines_read = 0
        self.poll_cost_s = 0.0

    def poll(self, wall_us: Callable[[], int], shedding: bool = False, bytes_max: int = POLL_BYTES) -> Polled:
        now_us = wall_us()  # before the poll: what is written after this may be missed, see watermark.py
        agreed_us = self.agreed_us(now_us)
        began = self._cpu_s()
        with timed("poll"):
            deliveries = self.reader.poll(bytes_max)
        return self._polled(now_us, agreed_us, deliveries, shedding, self._cpu_s() - began)

    def look(self, wall_us: Callable[[], int]) -> Polled:
        """Read nothing, only see which sources are at their end."""
        now_us = wall_us()
        agreed_us = self.agreed_us(now_us)
        self.reader.look()
        return self._polled(now_us, agreed_us, [], False)

    def _polled(
        self, now_us: int, agreed_us: int, deliveries: list[Delivery], shedding: bool, cpu_s: float = 0.0
    ) -> Polled:
        self._tell_problems()
        reader = self.reader
        places = {
            name: Place(reader.sources(name), reader.positions(name), tuple(reader.gaps(name)))
            for name, job in self.jobs.items()
            if not job.held
        }
        return Polled(now_us, agreed_us, deliveries, places, shedding, cpu_s)

    def evaluate(self, polled: Polled) -> Iterator[Evaluated]:
        """Feed every job, seal what is due. What several jobs compute of a block is computed once.

        Who takes long to seal comes last, and what the others have sealed is handed out before that.
        """
        costs, sealed, took_s = dict[str, float](), Counter[str](), 0.0
        shared = [BlockRows(delivery.parsed.arrays, delivery.parsed.rows) for delivery in polled.deliveries]
        is_backlog = polled.bytes_read >= BACKLOG_BYTES
        late = {
            name for name in polled.places if self.jobs[name].cost.seal_s >= LONG_SEAL_S and not is_backlog
        }
        outcome, is_early, where = Evaluated(), True, _where(polled)
        try:
            for name in sorted(polled.places, key=late.__contains__):
                if is_early and name in late and outcome.frames:
                    outcome.more = True
                    yield outcome
                    outcome, is_early = Evaluated(), False
                began, began_s, frames = perf_counter(), self._cpu_s(), len(outcome.frames)
                with self._guard.evaluating(guarded(self.jobs[name]), where):
                    self._evaluate(name, polled.places[name], polled, shared, outcome)
                costs[name] = self._cpu_s() - began_s
                took_s += perf_counter() - began
                if len(outcome.frames) > frames:
                    self.jobs[name].cost.seal_s = costs[name]
                    sealed[name] = sum(len(frame.entries) for frame in outcome.frames[frames:])
        finally:
            for records in shared:
                records.release()
        observe("evaluate", took_s)
        self._charge(polled, costs, sealed)
        slow = None if is_backlog else self._slowness.polled(costs)
        outcome.slow = None if slow is None else self.jobs[slow]
        yield outcome

    def _charge(self, polled: Polled, costs: Mapping[str, float], sealed: Mapping[str, int]) -> None:
        """What the jobs have cost: their own evaluation, and even parts of what was read for all of them."""
        self.polls += 1
        self.poll_cost_s = polled.cpu_s + sum(costs.values())
        self.bytes_read += polled.bytes_read
        self.lines_read += sum(delivery.parsed.lines for delivery in polled.deliveries)
        for name, cpu_s in costs.items():
            job = self.jobs[name]
            job.cost.charge(cpu_s, polled.cpu_s / len(costs), sealed.get(name, 0))
            new = bool(polled.deliveries) and not job.failed and job.cost.holds(job.worker.nbytes)
            if new and job.cost.crowds:
                log.warning("job %s has too many groups: %s", job.manifest.qualified, job.cost.crowds)

    def _evaluate(
        self, name: str, place: Place, polled: Polled, shared: list[BlockRows], outcome: Evaluated
    ) -> None:
        job = self.jobs[name]
        if job.failed:
            return
        try:
            check_apart(place.sources)
            job.functions.check(polled.now_us)
            job.lose(place.gaps)
            for delivery, records in zip(polled.deliveries, shared, strict=True):
                if name in delivery.jobs:
                    sheds = polled.shedding or job.cost.is_beyond or (job.sheds and job.cost.is_in_the_way)
                    take = job.worker.shed if sheds else job.worker.feed
                    take(delivery.parsed, delivery.block, polled.now_us, records)
                    job.doubt(records, delivery.block.source, delivery.block.stream or self.name)
                    job.cost.lines += delivery.parsed.lines
                    job.cost.lines_shed += delivery.parsed.lines if sheds else 0
            job.functions.check_groups(job.worker)
            job.worker.observe(place.sources, polled.now_us, polled.agreed_us)
            began, frames = perf_counter(), len(outcome.frames)
            job.seal(place.positions, polled.now_us, outcome, self.spool_bytes_max)
            if len(outcome.frames) > frames:
                observe("seal", perf_counter() - began)
                if traces.is_on():
                    self._trace(job, outcome, time_ns() - int((perf_counter() - began) * 1e9))
            job.report(outcome)
        except Exception as error:  # one bad job must not hurt the others
            if not isinstance(error, ElfError):
                log.exception("job %s has failed", job.manifest.qualified)
            text = str(error) or type(error).__name__
            outcome.events.append(ctl.WorkerReport(job.manifest.job_id, error=text))
            outcome.failed.append(job)
            job.failed = True

    def _trace(self, job: LocalJob, outcome: Outcome, began_ns: int) -> None:
        for event in outcome.events:
            if isinstance(event, ctl.Sealed) and event.job == job.manifest.job_id:
                for entry in event.parts[0]:
                    traces.span("seal", event.job, entry.interval, began_ns)

    def given(self, event: Event) -> None:
        """An event of one of the jobs goes to the control plane now."""
        if isinstance(event, ctl.Sealed | ctl.Revised):
            job = self.jobs.get(LocalJob.frame_key(event.job, event.incarnation))
            if job is not None:
                job.given(event)

    def next_due_us(self) -> int | None:
        """The next moment of the wall clock at which a live stream may close an interval."""
        dues = [due for job in self.jobs.values() if (due := job.due_us()) is not None]
        return min(dues, default=None)

    def describe(self) -> dict[str, object]:
        return {
            "path": self.config.path,
            "format": self.config.format,
            "lines": self.lines_read,
            "bytes": self.bytes_read,
            "polls": self.polls,
            "jobs": [job.manifest.qualified for job in self.jobs.values()],
            "problems": dict(self._problems),
        }

    def _tell_problems(self) -> None:
        problems = self.reader.problems()
        for path, why in problems.items():
            if self._problems.get(path) != why:
                log.warning("stream %s: cannot read %s: %s", self.name, path, why)
        self._problems = problems


def guarded(job: LocalJob) -> str:
    """What the crash guard calls a job: another version is tried again."""
    return f"{job.manifest.qualified} version {job.manifest.version} {job.key}"


def _where(polled: Polled) -> str:
    """Where the records of a poll begin: the same after a restart that reads them again."""
    if not polled.deliveries:
        return "the end of an interval"
    block = polled.deliveries[0].block
    return f"byte {block.end - len(block.data)} of {block.source}"
