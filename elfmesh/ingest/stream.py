"""Stream of this host: polling its reader, and evaluating its jobs over the result of a poll.

Owns the data between the two steps, and the values of a block that all jobs of the stream share. Does not
depend on the loop, on threads or on the disk.
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
from elfmesh.ingest.budget.read_rates import ReadRate
from elfmesh.ingest.multi_stream_reader import check_apart
from elfmesh.ingest.sources import BlockDelivery, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.timings import observe, timed
from elfmesh.ingest.worker.cutting import CutPace
from elfmesh.ingest.worker.jobs import LocalJob
from elfmesh.ingest.worker.outcome import WorkerOutcome
from elfmesh.ingest.worker.reader import Reader
from elfmesh.ingest.worker.watermark import earlier_and_later
from elfmesh.machine import Event
from elfmesh.ql.engine.block import BlockRows
from elfmesh.storage.crashes import NO_GUARD, CrashGuard, NoGuard

log = logging.getLogger("elf.worker")
BACKLOG_BYTES = 1 << 20
"""Bytes of a poll from which the stream is treated as having a backlog, so that sharing values matters more
than latency."""

REST_S = 5.0
"""Longest time without an evaluation, because a clock may be set, and for what the jobs display."""

LONG_SEAL_S = 0.002
"""CPU seconds of sealing in a poll from which a job is sealed after the others, with a sync of its own."""


@dataclass(frozen=True, slots=True)
class ReaderPosition:
    """Position of a job's reader after a poll.

    Attributes:
        sources: the files of the job.
        positions: positions of its next records.
        gaps: input that the job lost since the last poll.
    """

    sources: list[SourceState]
    positions: tuple[FilePosition, ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Polled:
    """Result of one poll of a stream: all input of the evaluation, while the reader continues.

    Attributes:
        now_us: the wall clock before the poll.
        agreed_us: the same, limited by most agents' clocks.
        latest_us: the same, or most agents' clocks if these are later.
        deliveries: parsed blocks, in order.
        places: positions by job.
        shedding: drop the blocks and count them.
        cpu_s: CPU seconds of reading and parsing.
    """

    now_us: int
    agreed_us: int
    latest_us: int
    deliveries: list[BlockDelivery]
    places: Mapping[str, ReaderPosition]
    shedding: bool = False
    cpu_s: float = 0.0

    @property
    def bytes_read(self) -> int:
        return sum(len(delivery.block.data) for delivery in self.deliveries)


@dataclass(slots=True)
class Evaluated(WorkerOutcome):
    """Outcome of the evaluation of a poll.

    Attributes:
        failed: jobs that stop because of their own faults.
        more: there is more to evaluate.
    """

    failed: list[LocalJob] = field(default_factory=list)
    more: bool = False


class Stream:
    """Stream of this host, with the jobs that read it.

    `poll` and `evaluate` may run in two threads, one call of each at a time. Everything else, including
    `jobs`, changes only while neither runs.
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
        peers_us: Callable[[], int | None] = lambda: None,
        guard: CrashGuard | NoGuard = NO_GUARD,
        rate: ReadRate | None = None,
    ) -> None:
        self._rate = rate or ReadRate()
        self._peers_us = peers_us
        self._guard = guard
        self._cpu_s = cpu_s
        self.name, self.config, self.reader = name, config, reader
        self.memory, self.seed, self.encode = memory, seed, encode
        self.jobs: dict[str, LocalJob] = {}
        self.spool_bytes_max: int | None = None
        self._problems: dict[str, str] = {}
        self._watched: list[tuple[str, ReaderPosition]] = []  # one job for all that are at the same place
        self._paces: list[CutPace] = []  # of the jobs that report open panes, since the last evaluation
        self._calm_at: tuple[int, int] | None = None  # clocks of an evaluation without any outcome
        self.polls = self.bytes_read = self.lines_read = 0
        self.poll_cost_s = 0.0
        self.costs: Mapping[str, float] = {}
        self.intervals = 0  # sealed in the last poll

    def poll(
        self,
        wall_us: Callable[[], int],
        shedding: bool = False,
        bytes_max: int = POLL_BYTES,
        *,
        rests: bool = False,
    ) -> Polled:
        """Read and parse new lines; with `rests`, the result has no places if there is nothing new."""
        clocks = self._clocks(wall_us)  # before the poll, because it may miss later lines; see watermark.py
        began = self._cpu_s()
        with timed("poll"):
            deliveries = self.reader.poll(bytes_max)
        self.polls += 1
        if rests and not deliveries and self._is_unmoved():
            self._tell_problems()
            return Polled(*clocks, [], {})
        return self._polled(clocks, deliveries, shedding, self._cpu_s() - began)

    def look(self, wall_us: Callable[[], int]) -> Polled:
        """Check which sources are at their end, without reading."""
        clocks = self._clocks(wall_us)
        self.reader.look()
        return self._polled(clocks, [], False)

    def agreed_us(self, now_us: int) -> int:
        """Return a wall-clock time, or that of most agents if it is earlier."""
        return earlier_and_later(now_us, self._peers_us())[0]

    def _clocks(self, wall_us: Callable[[], int]) -> tuple[int, int, int]:
        now_us = wall_us()
        return now_us, *earlier_and_later(now_us, self._peers_us())

    def _polled(
        self,
        clocks: tuple[int, int, int],
        deliveries: list[BlockDelivery],
        shedding: bool,
        cpu_s: float = 0.0,
    ) -> Polled:
        self._tell_problems()
        reader = self.reader
        places = {
            name: ReaderPosition(reader.sources(name), reader.positions(name), tuple(reader.gaps(name)))
            for name, job in self.jobs.items()
            if not job.held
        }
        apart = {(id(each.sources), id(each.positions)): (name, each) for name, each in places.items()}
        self._watched = list(apart.values())
        return Polled(*clocks, deliveries, places, shedding, cpu_s)

    def _is_unmoved(self) -> bool:
        """Return whether no job of the last full poll has moved.

        Cost: O(places in the files), because jobs are at the same place until one of them starts or stops.
        """
        reader = self.reader
        return all(
            reader.sources(name) is place.sources and reader.positions(name) is place.positions
            for name, place in self._watched
        )

    def evaluate(self, polled: Polled) -> Iterator[Evaluated]:
        """Evaluate every job and seal due intervals; common values of a block are computed once.

        Jobs that take long to seal come last, after the other jobs' contributions were handed over.
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
            for delivery, records in zip(polled.deliveries, shared, strict=True):
                self.reader.note(delivery, records.dated)
        finally:
            for records in shared:
                records.release()
        observe("evaluate", took_s)
        is_calm = not polled.deliveries and is_early and outcome == Evaluated()
        self._calm_at = (polled.now_us, polled.agreed_us) if is_calm else None
        self._paces = [job.cut_pace for job in self.jobs.values() if job.cut_pace.order is not None]
        self._charge(polled, costs, sealed)
        yield outcome

    def _charge(self, polled: Polled, costs: Mapping[str, float], sealed: Mapping[str, int]) -> None:
        """Charge the jobs for their own evaluation and for equal shares of common reading and parsing."""
        self.costs, self.intervals = costs, sum(sealed.values())
        self.poll_cost_s = polled.cpu_s + sum(costs.values())
        self.bytes_read += polled.bytes_read
        lines = sum(delivery.parsed.lines for delivery in polled.deliveries)
        self.lines_read += lines
        self._rate.add(polled.bytes_read, lines, self.poll_cost_s)
        for name, cpu_s in costs.items():
            job = self.jobs[name]
            job.cost.charge(cpu_s, polled.cpu_s / len(costs), sealed.get(name, 0))
            new = bool(polled.deliveries) and not job.failed and job.cost.holds(job.worker.nbytes)
            if new and job.cost.crowds:
                log.warning("job %s has too many groups: %s", job.manifest.qualified, job.cost.crowds)

    def _evaluate(
        self, name: str, place: ReaderPosition, polled: Polled, shared: list[BlockRows], outcome: Evaluated
    ) -> None:
        job = self.jobs[name]
        if job.failed:
            return
        try:
            check_apart(place.sources)
            job.functions.check(polled.now_us)
            job.lose(place.gaps)
            for delivery, records in zip(polled.deliveries, shared, strict=True):
                if name in delivery.jobs and not job.log_has_ended:
                    sheds = polled.shedding or job.cost.is_beyond or (job.sheds and job.cost.is_in_the_way)
                    take = job.worker.shed if sheds else job.worker.feed
                    take(delivery.parsed, delivery.block, polled.latest_us, records)
                    job.doubt(records, delivery.block.source, delivery.block.stream or self.name)
                    job.cost.lines += delivery.parsed.lines
                    job.cost.lines_shed += delivery.parsed.lines if sheds else 0
            job.functions.check_groups(job.worker)
            job.worker.observe(place.sources, polled.now_us, polled.agreed_us, polled.latest_us)
            began, frames = perf_counter(), len(outcome.frames)
            job.seal(place.positions, polled.now_us, outcome, self.spool_bytes_max)
            at_end = all(each.at_end for each in place.sources)
            job.end_log(place.positions, polled.now_us, outcome, self.spool_bytes_max, at_end=at_end)
            if len(outcome.frames) > frames:
                observe("seal", perf_counter() - began)
                if traces.is_on():
                    self._trace(job, outcome, time_ns() - int((perf_counter() - began) * 1e9))
            job.early(polled.now_us, outcome)
            job.cut(polled.now_us, outcome)
            job.report(outcome)
        except Exception as error:  # a job's fault must not affect the others
            if not isinstance(error, ElfError):
                log.exception("job %s has failed", job.manifest.qualified)
            text = str(error) or type(error).__name__
            outcome.events.append(ctl.WorkerReport(job.manifest.job_id, error=text))
            outcome.failed.append(job)
            job.failed = True

    def _trace(self, job: LocalJob, outcome: WorkerOutcome, began_ns: int) -> None:
        for event in outcome.events:
            if isinstance(event, ctl.Sealed) and event.job == job.manifest.job_id:
                for entry in event.parts[0]:
                    traces.span("seal", event.job, entry.interval, began_ns)

    def given(self, event: Event) -> None:
        """Note that an event of one of the jobs is handed to the control plane now."""
        if isinstance(event, ctl.Sealed | ctl.Revised):
            job = self.jobs.get(LocalJob.frame_key(event.job, event.incarnation))
            if job is not None:
                job.given(event)

    def next_due_us(self) -> int | None:
        """Return the next wall-clock time at which a live stream may close an interval."""
        dues = [due for job in self.jobs.values() if (due := job.due_us()) is not None]
        return min(dues, default=None)

    def cut_within_s(self, now_us: int) -> float:
        """Return the time within which the stream must be polled again, so that standbys get what is read."""
        ends_us = [end for pace in self._paces if (end := pace.within_us(now_us)) is not None]
        return min(ends_us, default=int(REST_S * 1e6)) / 1e6

    def rest_s(self, now_us: int) -> float:
        """Return for how long no job needs evaluation unless the reader moves, by the last evaluation."""
        if self._calm_at is None:
            return 0.0
        jobs = [job for job in self.jobs.values() if not job.held]
        ends_us = [end for job in jobs if (end := job.rests_until_us(*self._calm_at)) is not None]
        return min(REST_S, max(0, min(ends_us, default=now_us + int(REST_S * 1e6)) - now_us) / 1e6)

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
    """Return the crash guard's key of a job, which includes the version, so that a new version is tried."""
    return f"{job.manifest.qualified} version {job.manifest.version} {job.key}"


def _where(polled: Polled) -> str:
    """Return the position of a poll's first records, which is the same when a restart reads them again."""
    if not polled.deliveries:
        return "the end of an interval"
    block = polled.deliveries[0].block
    return f"byte {block.end - len(block.data)} of {block.source}"
