"""One job at one agent: from records to frames and events, all synchronous.

Owns how a job begins (fresh, or from its last frame), goes on, waits and ends; what it hands out are
frames for the frame log and events for the control plane, in the order in which they must be written and
given. Knows neither the loop, nor threads, nor the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from elfmesh.agent.budget.costs import JobCost
from elfmesh.agent.config import StreamConfig
from elfmesh.agent.disk.framelog import FrameLog
from elfmesh.agent.disk.frames import Frame, RevisedInterval, Sealed, SealedInterval
from elfmesh.agent.disk.framescan import FRAME_BYTES_MAX
from elfmesh.agent.failpoints import reach
from elfmesh.agent.functions.of_job import JobFunctions
from elfmesh.agent.lookups import LookupTables
from elfmesh.agent.sources import FilePosition, Gap
from elfmesh.agent.worker.intervals import SealedInterval as Closed
from elfmesh.agent.worker.reader import Reader
from elfmesh.agent.worker.recovered import GAPS_TOLD, positions_of, recover, told_by
from elfmesh.agent.worker.saying import Said, Saying, whole_counts
from elfmesh.agent.worker.stage_worker import Resumed, Surroundings
from elfmesh.agent.worker.staged import StagedWorker
from elfmesh.agent.worker.tally import Carried
from elfmesh.agent.worker.watermark import clock_lag_us
from elfmesh.agent.worker.worker import CONTRIBUTED
from elfmesh.cbt import Encode
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control import events as ctl
from elfmesh.control import ql
from elfmesh.control.manifest import Manifest
from elfmesh.control.results.records import BUCKETS, FIRST
from elfmesh.control.terms import Stage
from elfmesh.errors import RuntimeFailure
from elfmesh.machine import Event

CONTRIBUTION_BYTES_MAX = FRAME_BYTES_MAX - (16 << 20)
"""Payloads of what is sealed at once; the rest of a frame is room for counts and positions."""

REVISED_BYTES_MAX = 64 << 20
"""Of revisions in one frame: intervals of ordinary size, all that may be revised at a time."""

MOVING = "moving"
"""Why a job is held while it changes its reader."""

OVERFLOW = BUCKETS.index("spool_overflow")


@dataclass(slots=True)
class Outcome:
    """What a poll of a stream led to; `frames` must be durable before `events` are given; more may come."""

    frames: list[Sealed] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failed: list[LocalJob] = field(default_factory=list)
    slow: LocalJob | None = None
    more: bool = False


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

    def __init__(
        self,
        manifest: Manifest,
        start: int,
        labels: Mapping[str, str] | None = None,
        stages: tuple[Stage, ...] = (),
        lookups: LookupTables | None = None,
    ) -> None:
        self.manifest, self.start, self._labels, self._lookups = manifest, start, labels, lookups
        self.stages = stages or (Stage(FIRST, manifest, manifest.version),)
        self.key = self.frame_key(manifest.job_id, manifest.incarnation)
        self.statement = ql.parse(manifest.text)
        self.stream = self.statement.stream  # where it is read here; see `reads`
        self._saying = Saying(manifest)
        self.home = ""  # the ingest that reads it
        self.functions = JobFunctions()
        self.cost = JobCost()
        self.sheds = False  # whether what there is no room for is dropped and counted
        self.held: set[str] = set()
        self.worker: StagedWorker
        self.unwritten: list[Frame] = []
        self._last: Sealed | None = None
        self._entries: list[Said] = []
        self._floor = FIRST
        self._seq = 0
        self._position: tuple[FilePosition, ...] = ()
        self.failed = False
        # What was given and is not closed: (end of the range, bytes). Only touched on the loop.
        self._unreleased: deque[tuple[int, int]] = deque()
        self.held_bytes = 0
        self._reported: tuple[tuple[str, ...], str] = ((), "")
        self._gaps: tuple[str, ...] = ()

    @staticmethod
    def frame_key(job: bytes, incarnation: str) -> str:
        """The job's name in the frame log: another incarnation shares nothing with it."""
        return f"{job.hex()}:{incarnation}"

    def reads(self, carried: Collection[str]) -> tuple[str, ...]:
        """Which of this agent's streams the job reads."""
        return ql.Query(self.statement, self._labels).streams_of(carried)

    def fields_of(self, stream: str) -> tuple[str, ...]:
        """The dotted paths to ask a stream's parser for, by all versions that may be evaluated."""
        statements = [ql.parse(stage.manifest.text) for stage in self.stages]
        return tuple(sorted({path for each in statements for path in each.fields_of(stream)}))

    def recover(self, frames: FrameLog) -> list[ctl.Sealed | ctl.Revised]:
        """What must be said again: everything sealed by the right version that is not released.

        Of intervals that were revised it is the newest revision; that they were, and what each added, comes
        before everything.
        """
        found = recover(frames, self.key, self.start, self.stages, self.manifest.partitions)
        self._last, self._gaps, self.unwritten = found.last, found.lost, found.frames
        self._entries, self._floor = found.entries, found.floor
        told = [self._saying.revised(each, again=True) for each in found.revised]
        events = [
            event
            for each in found.ranges
            for event in self._saying.events(each.start, each.stop, each.entries, each.evaluated)
        ]
        return [*told, *(replace(event, again=True) for event in events)]

    def begin(self, stream: Home) -> Sealed | None:
        """Start reading; returns the first frame of a fresh job, which says where it began."""
        last = self._last
        restart = positions_of(last.restart) if last else ()
        self.cost.memory = None if stream.memory is None else stream.memory.account()
        self.worker = StagedWorker(
            self.stages,
            start_index=self.start,
            resumed=Resumed(self.start) if last is None else _resumed(last),
            around=Surroundings(
                stream.config.idle_us,
                self.cost.memory,
                stream.seed,
                stream.encode,
                self._labels,
                self.stream,
                self._lookups,
                self.functions.evaluators,
            ),
        )
        self._remember(last)
        stream.reader.add(
            self.key,
            self.fields_of(self.stream),
            positions=restart,
            read_from="resume" if last or self.manifest.resumed else stream.config.read_from,
            boundaries=self.worker.edges if last else (),
        )
        stream.jobs[self.key] = self
        self.sheds = stream.config.on_overload == "shed"
        if last is not None:
            return None
        at = stream.reader.positions(self.key)
        version = self.worker.head.evaluated
        self._last = Sealed(self.key, version, self.start, self.start, [], positions=(), restart=at)
        return self._last

    def _remember(self, last: Sealed | None) -> None:
        """After a restart: what late records may still revise."""
        late = self.worker.late
        if late is None or last is None:
            return
        self._seq = last.seq
        self.worker.close_below(self._floor)
        self.worker.drop_closed()
        for entry in self._entries:
            late.sealed(_closed(entry), entry.rev)
        self._entries = []

    def end(self, stream: Home) -> None:
        """Stop reading for good; harmless when repeated."""
        self.functions.close()
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
            columns = self.fields_of(self.stream)
            stream.reader.add(
                self.key, columns, positions=self._position, read_from="resume", boundaries=boundaries
            )
            self.worker.resume(now_us)

    def move(self, old: Home, new: Home, now_us: int) -> None:
        """Be read by another reader from the same place on; nothing may be in flight in either."""
        self.part(old, now_us)
        self.join(new, now_us)

    def part(self, old: Home, now_us: int) -> None:
        """The first half of a move."""
        self.hold(old, MOVING, True, now_us)
        self.end(old)

    def join(self, new: Home, now_us: int) -> None:
        """The second half of a move."""
        new.jobs[self.key] = self
        self.hold(new, MOVING, False, now_us)

    def seal(
        self, at: Sequence[FilePosition], now_us: int, outcome: Outcome, spool_bytes_max: int | None = None
    ) -> None:
        """Close what the watermark has passed, and revise what records came late for.

        Args:
            at: where the reader stands, for files of which nothing was read yet.
            now_us: the clock.
            outcome: takes the frame and the events.
            spool_bytes_max: what is sealed and not closed beyond this is given up and counted; None: nothing.
        """
        while True:
            self._seal(at, now_us, outcome, spool_bytes_max)
            if not self.worker.advance():
                return

    def _seal(
        self, at: Sequence[FilePosition], now_us: int, outcome: Outcome, spool_bytes_max: int | None
    ) -> None:
        """The same for the version that has the first open interval."""
        worker, head, late = self.worker, self.worker.head, self.worker.late
        worker.drop_closed()
        start, ready = head.next_index, head.ready_index
        if ready <= start and (late is None or not late.is_due(now_us)):
            return
        once = head.tally.once_below(ready)
        room = None if spool_bytes_max is None else spool_bytes_max - self.held_bytes
        turns = worker.turns(start) if ready > start + 1 else ()
        entries = self._sealed(ready, room) if ready > start else []
        size = sum(len(payload) for entry in entries for payload in entry.payloads)
        if size > CONTRIBUTION_BYTES_MAX:
            raise RuntimeFailure(
                f"intervals {start} to {ready - 1} have {size} bytes, over the limit of"
                f" {CONTRIBUTION_BYTES_MAX}; group by fewer keys or allow less LATENESS"
            )
        room = CONTRIBUTION_BYTES_MAX - size if room is None else max(0, room - size)
        # A frame has the late records of everything it says was read: a replay would not count them.
        revised = self._revise(now_us, min(room, REVISED_BYTES_MAX))
        if ready <= start and not revised:
            return
        if late is not None:
            for entry in entries:
                late.sealed(_closed(entry), entry.rev)
        frame = self._frame(start, ready, at)
        sealed = [SealedInterval(*entry) for entry in entries]
        frame = msgspec.structs.replace(frame, entries=sealed, revised=revised, once=once, turns=turns)
        outcome.frames.append(frame)
        self._last = msgspec.structs.replace(frame, entries=[], revised=[])
        outcome.events += [self._saying.revised(each) for each in revised]
        if ready > start:
            outcome.events += self._saying.events(start, ready, entries, head.evaluated)

    def _sealed(self, ready: int, room: int | None) -> list[Said]:
        """Close the intervals below `ready`, each in a revision that nobody has said before."""
        late = self.worker.late
        entries = _within(self.worker.head.seal(ready), room)
        reach("seal")
        if self._lookups is not None and self.statement.tables_read:
            self._lookups.refresh()
        return (
            entries
            if late is None
            else [each._replace(rev=late.first_rev(each.interval)) for each in entries]
        )

    def _frame(self, start: int, ready: int, at: Sequence[FilePosition]) -> Sealed:
        """A frame without its contents: where a restart goes on."""
        worker, last = self.worker, self._last
        restart = {position.key: position for position in at}
        restart.update((position.key, position) for position in worker.positions())
        return Sealed(
            self.key,
            worker.head.evaluated,
            start,
            max(start, ready),
            positions=worker.read_positions(),
            restart=tuple(restart.values()),
            counters=list(worker.totals),
            carried=worker.carried,
            shed=worker.shed_stretches,
            seq=self._seq,
            told=worker.told,
            revs=list(worker.revs_used),
            newest=worker.newest,
            before=None if last is None else (told_by(last, last.stop), last.restart, last.shed),
        )

    def _revise(self, now_us: int, room: int) -> list[RevisedInterval]:
        """The revisions of what records came late for, numbered."""
        found = []
        for each in self.worker.revise(now_us, room):
            self._seq += 1
            counts, payloads, added = list(each.counts), list(each.payloads), list(each.added)
            found.append(
                RevisedInterval(each.interval, each.rev, counts, payloads, added, self._seq, each.evaluated)
            )
        return found

    def lose(self, gaps: Sequence[Gap]) -> None:
        """Count what the sources have lost, and keep the newest of it for people."""
        if gaps:
            self.worker.lost(gaps)
            self._gaps = (*self._gaps, *map(str, gaps))[-GAPS_TOLD:]

    def report(self, outcome: Outcome) -> None:
        """Tell people what could not be used or read, once."""
        said = filter(None, (self.cost.slowed, self.cost.crowds))
        samples = (*said, *self.worker.samples, *self._gaps, *self.functions.notes)
        problem = self.functions.problem
        if (samples, problem) != self._reported:
            self._reported = (samples, problem)
            outcome.events.append(ctl.WorkerReport(self.manifest.job_id, samples, problem))

    def given(self, event: ctl.Sealed | ctl.Revised) -> None:
        """A range or a revision goes to the control plane; it is held until it is closed."""
        size = sum(len(payload) for part in event.parts for payload in part.payloads)
        stop = event.stop if isinstance(event, ctl.Sealed) else event.interval + 1
        self._unreleased.append((stop, size))
        self.held_bytes += size

    def release(self, stop: int) -> None:
        """Intervals below `stop` are closed."""
        self.worker.close_below(stop)
        while self._unreleased and self._unreleased[0][0] <= stop:
            self.held_bytes -= self._unreleased.popleft()[1]

    def due_us(self) -> int | None:
        """When the clock passes the end of the next interval; None before the first or while held."""
        window, job = self.worker.head.statement.window, self.worker.head.statement.job
        if window is None or self.held or self.worker.next_index <= self.start < 0:
            return None
        lateness = job.lateness_us if job else 0
        return self.worker.next_index * window.slide_us + window.size_us + clock_lag_us(lateness)


def _within(sealed: Sequence[Closed], room: int | None) -> list[Said]:
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
        entries.append(Said(each.index, counts, payloads))
    return entries


def _closed(entry: Said) -> Closed:
    return Closed(entry.interval, whole_counts(entry.counts), tuple(entry.payloads))


def _resumed(last: Sealed) -> Resumed:
    """What the last frame says of where to go on."""
    return Resumed(
        last.stop,
        shed=msgspec.convert(last.shed or (), tuple[tuple[FilePosition, int], ...]),
        told=told_by(last, last.stop),
        carried=msgspec.convert(last.carried or (), tuple[Carried, ...]),
        revs=tuple(last.revs),
        turns=positions_of(last.turns),
        newest=last.newest,
    )
