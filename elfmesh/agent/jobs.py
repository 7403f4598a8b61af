"""One job at one agent: from records to frames and events, all synchronous.

Owns how a job begins (fresh, or from its last frame), goes on, waits and ends; what it hands out are
frames for the frame log and events for the control plane, in the order in which they must be written and
given. Knows neither the loop, nor threads, nor the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import msgspec

from elfmesh.agent.config import StreamConfig
from elfmesh.agent.failpoints import reach
from elfmesh.agent.framelog import FrameLog, Sealed, SealedInterval
from elfmesh.agent.framescan import FRAME_BYTES_MAX
from elfmesh.agent.intervals import SealedInterval as Closed
from elfmesh.agent.sources import Delivery, FilePosition, Gap, SourceState
from elfmesh.agent.watermark import clock_lag_us
from elfmesh.agent.worker import CONTRIBUTED, JobWorker
from elfmesh.cbt import Encode
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control import events as ctl
from elfmesh.control import ql
from elfmesh.control.manifest import Manifest
from elfmesh.control.records import BUCKETS, FIRST, NOT_COUNTED
from elfmesh.errors import RuntimeFailure
from elfmesh.machine import Event
from elfmesh.srt.messages import Entry

CONTRIBUTION_BYTES_MAX = FRAME_BYTES_MAX - (16 << 20)
"""Payloads of what is sealed at once; the rest of a frame is room for counts and positions."""

OVERFLOW = BUCKETS.index("spool_overflow")
GAPS_TOLD = 3
"""Of the losses of the sources, the newest are told with their path and cause."""

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
        read_from: Literal["beginning", "end", "resume"] = "beginning",
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

    def look(self) -> None:
        """See what there is, read nothing."""
        ...

    def sources(self, job: str) -> list[SourceState]:
        """The files behind a job."""
        ...

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        """Where the job's next records come from, and what must be known of closed files."""
        ...

    def gaps(self, job: str) -> Sequence[Gap]:
        """What was lost to the job (D-1's source_gap) since the last call."""
        ...

    def problems(self) -> dict[str, str]:
        """Paths that cannot be read, and why."""
        ...

    def close(self) -> None:
        """Stop reading for everybody."""
        ...


@dataclass(slots=True)
class Outcome:
    """What one poll of a stream led to; `frames` must be durable before `events` are given."""

    frames: list[Sealed] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failed: list[LocalJob] = field(default_factory=list)


class Home(Protocol):
    """Where a job lives: what `stream.Stream` offers it."""

    config: StreamConfig
    reader: Reader
    memory: MemoryBudget | None
    seed: int
    encode: Encode
    jobs: dict[str, LocalJob]


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
        self._gaps: tuple[str, ...] = ()

    @staticmethod
    def frame_key(job: bytes, incarnation: str) -> str:
        """The job's name in the frame log: another incarnation shares nothing with it."""
        return f"{job.hex()}:{incarnation}"

    def recover(self, frames: FrameLog) -> list[ctl.Sealed]:
        """What must be said again after a restart: everything sealed that is not released.

        From `start` on that is all of it: released frames are closed, so their ranges are said to be empty;
        contributions that a damaged frame took are lost: a source gap in the last interval of each. Before
        `start` it is what was closed meanwhile, with or without this agent.
        """
        self._last = frames.last(self.key)
        if self._last is None:
            return []
        events: list[ctl.Sealed] = []
        cursor, released = self.start, frames.released(self.key)
        settled = FIRST if released is None else released
        holes = self._holes(frames)
        for frame in frames.unreleased(self.key):
            if frame.start < self.start:
                before = [entry for entry in frame.entries if settled <= entry.interval < self.start]
                events += self._events(frame.start, min(frame.stop, self.start), before) if before else []
            if frame.stop <= cursor:
                continue
            if frame.start > cursor:
                lost = [self._lost(frame.start - 1)] if frame.start in holes else []
                events.append(self._sealed_event(cursor, frame.start, lost))
                cursor = frame.start
            entries = [entry for entry in frame.entries if entry.interval >= cursor]
            events += self._events(cursor, frame.stop, entries)
            cursor = frame.stop
        if cursor < self._last.stop:
            events.append(self._sealed_event(cursor, self._last.stop, []))
        if holes:
            self._gaps = tuple(
                f"intervals {start} to {stop - 1} were lost with a damaged part of the frame log"
                for stop, start in sorted(holes.items())[-GAPS_TOLD:]
            )
        return [replace(event, again=True) for event in events]

    def _holes(self, frames: FrameLog) -> dict[int, int]:
        """By their end, the beginnings of ranges that were lost before they were closed."""
        released = frames.released(self.key)
        floor = self.start if released is None else max(released, self.start)
        holes = frames.recovery.holes.get(self.key, ())
        return {stop: max(floor, start or floor) for start, stop in holes if stop > floor}

    def _lost(self, interval: int) -> SealedInterval:
        """An interval that says that contributions up to it are lost."""
        counts = list(NOT_COUNTED)
        counts[BUCKETS.index("source_gap")] = 1
        return SealedInterval(interval, counts, [b""] * self.manifest.partitions)

    def begin(self, stream: Home) -> Sealed | None:
        """Start reading; returns the first frame of a fresh job, which says where it began."""
        last = self._last
        restart = _positions(last.restart) if last else ()
        read = _positions(last.positions) if last else ()
        self.worker = JobWorker(
            self.statement,
            start_index=self.start,
            next_index=last.stop if last else self.start,
            replay_until=read,
            shed=msgspec.convert(last.shed or (), list[tuple[FilePosition, int]]) if last else (),
            open_gaps=msgspec.convert(last.gaps or (), list[tuple[int | None, int]]) if last else (),
            idle_us=stream.config.idle_us,
            budget=stream.memory,
            seed=stream.seed,
            encode=stream.encode,
        )
        stream.reader.add(
            self.key,
            self.worker.columns,
            positions=restart,
            read_from="resume" if last else stream.config.read_from,
            boundaries=self.worker.edges if last else (),
        )
        stream.jobs[self.key] = self
        if last is not None:
            return None
        at = stream.reader.positions(self.key)
        self._last = Sealed(
            self.key, self.manifest.version, self.start, self.start, [], positions=(), restart=at
        )
        return self._last

    def end(self, stream: Home) -> None:
        """Stop reading for good; harmless when repeated."""
        stream.reader.remove(self.key)
        if stream.jobs.get(self.key) is self:
            del stream.jobs[self.key]

    def hold(self, stream: Home, reason: str, held: bool, now_us: int) -> None:
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
            boundaries = self.worker.edges
            columns = self.worker.columns
            stream.reader.add(
                self.key, columns, positions=self._position, read_from="resume", boundaries=boundaries
            )
            self.worker.resume(now_us)

    def seal(self, at: Sequence[FilePosition], outcome: Outcome, spool_bytes_max: int | None = None) -> None:
        """Close what the watermark has passed.

        Args:
            at: where the reader stands, for files of which nothing was read yet.
            outcome: takes the frame and the events.
            spool_bytes_max: what is sealed and not closed beyond this is given up and counted; None: nothing.
        """
        worker = self.worker
        start, ready = worker.next_index, worker.ready_index
        if ready > start:
            sealed = worker.seal(ready)
            reach("seal")
            room = None if spool_bytes_max is None else spool_bytes_max - self.held_bytes
            entries = _within(sealed, room)
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
                    gaps=worker.open_gaps,
                    shed=worker.shed_stretches,
                )
            )
            outcome.events += self._events(start, ready, entries)

    def lose(self, gaps: Sequence[Gap]) -> None:
        """Count what the sources have lost, and keep the newest of it for people."""
        if gaps:
            self.worker.lost(gaps)
            self._gaps = (*self._gaps, *map(str, gaps))[-GAPS_TOLD:]

    def report(self, outcome: Outcome) -> None:
        """Tell people what could not be used or read, once."""
        samples = (*self.worker.samples, *self._gaps)
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

    def _events(self, start: int, stop: int, entries: list[SealedInterval]) -> list[ctl.Sealed]:
        """A range as events of bounded size that follow each other without a gap."""
        events: list[ctl.Sealed] = []
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
                counts = _whole_counts(entry.counts) if partition == 0 else NOT_COUNTED
                placed.append(Entry(entry.interval, counts, len(payload)))
            parts.append(ctl.SealedPart(tuple(placed), payloads))
        return ctl.Sealed(self.manifest.job_id, self.manifest.incarnation, start, stop, tuple(parts))


def _within(sealed: Sequence[Closed], room: int | None) -> list[SealedInterval]:
    """Sealed intervals for the frame log; those for which the spool has no room keep their counts only."""
    entries = []
    for each in sealed:
        counts, payloads = list(each.counts), list(each.payloads)
        size = sum(map(len, payloads))
        if room is not None and size > room:
            counts[OVERFLOW] += counts[CONTRIBUTED]
            counts[CONTRIBUTED] = 0
            payloads = [b""] * len(payloads)
        elif room is not None:
            room -= size
        entries.append(SealedInterval(each.index, counts, payloads))
    return entries


def _whole_counts(counts: Sequence[int]) -> tuple[int, ...]:
    """Counts with all buckets, where a frame was written before there were as many."""
    return (*counts, *NOT_COUNTED[len(counts) :])


def _positions(raw: object) -> tuple[FilePosition, ...]:
    return msgspec.convert(raw or (), tuple[FilePosition, ...])
