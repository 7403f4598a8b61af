"""One job at one agent, and the stream it reads: from a poll to frames and events, all synchronous.

Owns how a job begins (fresh, or from its last frame), goes on, waits and ends; what it hands out are
frames for the frame log and events for the control plane, in the order in which they must be written and
given. Knows neither the loop, nor threads, nor the disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec

from elfmesh.agent.config import StreamConfig
from elfmesh.agent.framelog import FRAME_BYTES_MAX, FrameLog, Sealed, SealedInterval
from elfmesh.agent.sources import Delivery, FilePosition, SourceState
from elfmesh.agent.watermark import clock_lag_us
from elfmesh.agent.worker import JobWorker
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control import events as ctl
from elfmesh.control import ql
from elfmesh.control.manifest import Manifest
from elfmesh.control.ql.block import BlockRows
from elfmesh.errors import ElfError, RuntimeFailure
from elfmesh.machine import Event
from elfmesh.srt.messages import Entry

log = logging.getLogger("elf.worker")
CONTRIBUTION_BYTES_MAX = FRAME_BYTES_MAX - (16 << 20)
"""Payloads of what is sealed at once; the rest of a frame is room for counts and positions."""

EVENT_ENTRIES_MAX = 64
EVENT_BYTES_MAX = 4 << 20
"""What one `Sealed` event holds at most (one interval at least): it becomes one message per tree."""


class Reader(Protocol):
    """What `sources.StreamReader` offers; in simulation a log in memory offers the same."""

    def add(
        self,
        job: str,
        columns: Iterable[str],
        *,
        positions: Iterable[FilePosition] = (),
        read_from: Literal["beginning", "end"] = "beginning",
        boundaries: Iterable[FilePosition] = (),
    ) -> None:
        """Begin to read for a job."""
        ...

    def remove(self, job: str) -> None:
        """Stop reading for a job."""
        ...

    def poll(self) -> list[Delivery]:
        """Read and parse what is there."""
        ...

    def sources(self, job: str) -> list[SourceState]:
        """The files behind a job."""
        ...

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        """Where the job's next records come from."""
        ...

    def gaps(self, job: str) -> int:
        """How often lines may have been lost to the job (D-1's source_gap)."""
        ...

    def problems(self) -> dict[str, str]:
        """Paths that cannot be read, and why."""
        ...

    def close(self) -> None:
        """Stop reading for everybody."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job's reader stood after a poll.

    Attributes:
        sources: the files behind the job.
        positions: where its next records come from.
        gaps: how often lines may have been lost to it.
    """

    sources: list[SourceState]
    positions: tuple[FilePosition, ...]
    gaps: int


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll of a stream brought: all that evaluation needs to know, while the reader goes on.

    Attributes:
        now_us: the wall clock before the poll.
        deliveries: parsed blocks, in order.
        places: by job.
    """

    now_us: int
    deliveries: list[Delivery]
    places: Mapping[str, Place]

    @property
    def bytes_read(self) -> int:
        """Bytes of all blocks."""
        return sum(len(delivery.block.data) for delivery in self.deliveries)


@dataclass(slots=True)
class Outcome:
    """What one poll of a stream led to; `frames` must be durable before `events` are given."""

    frames: list[Sealed] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failed: list[LocalJob] = field(default_factory=list)


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
        *,
        memory: MemoryBudget | None = None,
        seed: int = 0,
    ) -> None:
        self.name, self.config, self.reader = name, config, reader
        self.memory, self.seed = memory, seed
        self.jobs: dict[str, LocalJob] = {}
        self._problems: dict[str, str] = {}

    def poll(self, wall_us: Callable[[], int]) -> Polled:
        """Read and parse what is there."""
        now_us = wall_us()  # before the poll: what is written after this may be missed, see watermark.py
        deliveries = self.reader.poll()
        self._tell_problems()
        reader = self.reader
        places = {
            name: Place(reader.sources(name), reader.positions(name), reader.gaps(name))
            for name, job in self.jobs.items()
            if not job.held
        }
        return Polled(now_us, deliveries, places)

    def evaluate(self, polled: Polled) -> Outcome:
        """Feed every job, seal what is due. What several jobs compute of a block is computed once."""
        outcome = Outcome()
        shared = [BlockRows(delivery.parsed.arrays, delivery.parsed.rows) for delivery in polled.deliveries]
        for name, place in polled.places.items():
            job = self.jobs[name]
            if job.failed:
                continue
            try:
                for delivery, records in zip(polled.deliveries, shared, strict=True):
                    if name in delivery.jobs:
                        job.worker.feed(delivery.parsed, delivery.block, polled.now_us, records)
                job.worker.observe(place.sources, polled.now_us)
                job.seal(place.positions, outcome)
                job.report(place.gaps, outcome)
            except Exception as error:  # one bad job must not hurt the others
                if not isinstance(error, ElfError):
                    log.exception("job %s has failed", job.manifest.qualified)
                text = str(error) or type(error).__name__
                outcome.events.append(ctl.WorkerReport(job.manifest.job_id, error=text))
                outcome.failed.append(job)
                job.failed = True
        return outcome

    def given(self, event: Event) -> None:
        """An event of one of the jobs goes to the control plane now."""
        if isinstance(event, ctl.Sealed):
            for job in self.jobs.values():
                if job.manifest.job_id == event.job:
                    job.given(event)

    def stand_still(self, still: bool, now_us: int) -> None:
        """Nothing is read for a while, or again: no time passes for the watermarks of the jobs."""
        for job in self.jobs.values():
            if not job.held:
                (job.worker.pause if still else job.worker.resume)(now_us)

    def next_due_us(self) -> int | None:
        """The next moment of the wall clock at which a live stream may close an interval."""
        dues = [due for job in self.jobs.values() if (due := job.due_us()) is not None]
        return min(dues, default=None)

    def describe(self) -> dict[str, object]:
        """For people."""
        return {
            "path": self.config.path,
            "format": self.config.format,
            "jobs": [job.manifest.qualified for job in self.jobs.values()],
            "problems": dict(self._problems),
        }

    def _tell_problems(self) -> None:
        problems = self.reader.problems()
        for path, why in problems.items():
            if self._problems.get(path) != why:
                log.warning("stream %s: cannot read %s: %s", self.name, path, why)
        self._problems = problems


class LocalJob:
    """One job here. `begin` must be called before anything is fed."""

    def __init__(self, manifest: Manifest, start: int) -> None:
        self.manifest, self.start = manifest, start
        self.key = self.frame_key(manifest.job_id, manifest.incarnation)
        self.statement = ql.parse(manifest.text)
        self.stream = self.statement.stream
        self.held: set[str] = set()
        self.worker: JobWorker
        self._last: Sealed | None = None
        self._position: tuple[FilePosition, ...] = ()
        self.failed = False
        # What was given and is not closed: (end of the range, bytes). Only touched on the loop.
        self._unreleased: deque[tuple[int, int]] = deque()
        self.held_bytes = 0
        self._reported: tuple[str, ...] = ()
        self._gaps = 0

    @staticmethod
    def frame_key(job: bytes, incarnation: str) -> str:
        """The job's name in the frame log: another incarnation shares nothing with it."""
        return f"{job.hex()}:{incarnation}"

    def recover(self, frames: FrameLog) -> list[Event]:
        """What must be said again after a restart: everything sealed and not yet closed, from `start` on.

        Released frames are closed, so their ranges are said to be empty; contributions that a damaged frame
        took are lost and reported.
        """
        self._last = frames.last(self.key)
        if self._last is None:
            return []
        events: list[Event] = []
        cursor = self.start
        for frame in frames.unreleased(self.key):
            if frame.stop <= cursor:
                continue
            if frame.start > cursor:
                events.append(self._sealed_event(cursor, frame.start, []))
                cursor = frame.start
            entries = [entry for entry in frame.entries if entry.interval >= cursor]
            events += self._events(cursor, frame.stop, entries)
            cursor = frame.stop
        if cursor < self._last.stop:
            events.append(self._sealed_event(cursor, self._last.stop, []))
        for lost in frames.recovery.holes.get(self.key, ()):
            text = f"intervals {lost[0]} to {lost[1] - 1} were lost with a damaged part of the frame log"
            events.append(ctl.WorkerReport(self.manifest.job_id, error=text))
        return events

    def begin(self, stream: Stream) -> Sealed | None:
        """Start reading; returns the first frame of a fresh job, which says where it began."""
        last = self._last
        restart = _positions(last.restart) if last else ()
        read = _positions(last.positions) if last else ()
        self.worker = JobWorker(
            self.statement,
            start_index=self.start,
            next_index=max(self.start, last.stop) if last else self.start,
            replay_until=read,
            idle_us=stream.config.idle_us,
            budget=stream.memory,
            seed=stream.seed,
        )
        stream.reader.add(
            self.key,
            self.worker.columns,
            positions=restart,
            read_from="beginning" if last else stream.config.read_from,
            boundaries=read,
        )
        stream.jobs[self.key] = self
        if last is not None:
            return None
        at = stream.reader.positions(self.key)
        self._last = Sealed(
            self.key, self.manifest.version, self.start, self.start, [], positions=(), restart=at
        )
        return self._last

    def end(self, stream: Stream) -> None:
        """Stop reading for good; harmless when repeated."""
        stream.reader.remove(self.key)
        if stream.jobs.get(self.key) is self:
            del stream.jobs[self.key]

    def hold(self, stream: Stream, reason: str, held: bool, now_us: int) -> None:
        """Stop or go on reading; reads again when no reason is left. Other jobs of the stream go on."""
        before = bool(self.held)
        (self.held.add if held else self.held.discard)(reason)
        if self.key not in stream.jobs or before == bool(self.held):
            return
        if self.held:
            self._position = stream.reader.positions(self.key)
            stream.reader.remove(self.key)
            self.worker.pause(now_us)
        else:
            boundaries = self.worker.read_positions()
            columns = self.worker.columns
            stream.reader.add(self.key, columns, positions=self._position, boundaries=boundaries)
            self.worker.resume(now_us)

    def seal(self, at: Sequence[FilePosition], outcome: Outcome) -> None:
        """Close what the watermark has passed.

        Args:
            at: where the reader stands, for files of which nothing was read yet.
            outcome: takes the frame and the events.
        """
        worker = self.worker
        start, ready = worker.next_index, worker.ready_index
        if ready > start:
            sealed = worker.seal(ready)
            entries = [SealedInterval(each.index, list(each.counts), list(each.payloads)) for each in sealed]
            restart = {position.key: position for position in at}
            restart.update((position.key, position) for position in worker.positions())
            size = sum(len(payload) for entry in entries for payload in entry.payloads)
            if size > CONTRIBUTION_BYTES_MAX:
                raise RuntimeFailure(
                    f"intervals {start} to {ready - 1} have {size} bytes, over the limit of"
                    f" {CONTRIBUTION_BYTES_MAX}; group by fewer keys or allow less LATENESS"
                )
            outcome.frames.append(
                Sealed(
                    self.key,
                    self.manifest.version,
                    start,
                    ready,
                    entries,
                    positions=worker.read_positions(),
                    restart=tuple(restart.values()),
                    counters=list(worker.totals),
                )
            )
            outcome.events += self._events(start, ready, entries)

    def report(self, gaps: int, outcome: Outcome) -> None:
        """Tell people what could not be used, once.

        Args:
            gaps: how often lines may have been lost since the job began to read here.
            outcome: takes the event.
        """
        samples = tuple(self.worker.samples)
        self._gaps = max(self._gaps, gaps)
        if self._gaps:
            samples += (f"{self._gaps} time(s) lines may be lost: a log was truncated or replaced",)
        if samples != self._reported:
            self._reported = samples
            outcome.events.append(ctl.WorkerReport(self.manifest.job_id, samples))

    def given(self, event: ctl.Sealed) -> None:
        """A range goes to the control plane; it is held until it is closed."""
        size = sum(len(payload) for part in event.parts for payload in part.payloads)
        self._unreleased.append((event.stop, size))
        self.held_bytes += size

    def release(self, stop: int) -> None:
        """Intervals below `stop` are closed."""
        while self._unreleased and self._unreleased[0][0] <= stop:
            self.held_bytes -= self._unreleased.popleft()[1]

    def due_us(self) -> int | None:
        """When the clock passes the end of the next interval; None before the first or while held."""
        window, job = self.statement.window, self.statement.job
        if window is None or self.held or self.worker.next_index <= self.start < 0:
            return None
        lateness = job.lateness_us if job else 0
        return self.worker.next_index * window.slide_us + window.size_us + clock_lag_us(lateness)

    def _events(self, start: int, stop: int, entries: list[SealedInterval]) -> list[Event]:
        """A range as events of bounded size that follow each other without a gap."""
        events: list[Event] = []
        part: list[SealedInterval] = []
        size = 0
        for entry in entries:
            more = sum(map(len, entry.payloads))
            if part and (len(part) >= EVENT_ENTRIES_MAX or size + more > EVENT_BYTES_MAX):
                events.append(self._sealed_event(start, entry.interval, part))
                start, part, size = entry.interval, [], 0
            part.append(entry)
            size += more
        events.append(self._sealed_event(start, stop, part))
        return events

    def _sealed_event(self, start: int, stop: int, entries: list[SealedInterval]) -> ctl.Sealed:
        parts = []
        for partition in range(self.manifest.partitions):
            payloads = tuple(entry.payloads[partition] for entry in entries)
            placed = []
            for entry, payload in zip(entries, payloads, strict=True):
                counts = tuple(entry.counts) if partition == 0 else (0,) * len(entry.counts)
                placed.append(Entry(entry.interval, counts, len(payload)))
            parts.append(ctl.SealedPart(tuple(placed), payloads))
        return ctl.Sealed(self.manifest.job_id, self.manifest.incarnation, start, stop, tuple(parts))


def _positions(raw: object) -> tuple[FilePosition, ...]:
    return msgspec.convert(raw or (), tuple[FilePosition, ...])
