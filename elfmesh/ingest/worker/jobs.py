"""Job at one agent: from records to frames and events, all synchronous.

Frames for the frame log and events for the control plane are in the order in which they must be written and
emitted. Does not depend on the event loop, on threads or on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from elfmesh import ql
from elfmesh.cbt import Encode, PartialTooLarge
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.budget.costs import JobCost
from elfmesh.ingest.functions.of_job import JobFunctions
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.sources import FilePosition, Gap
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.beginning import Resumed, SharedWorkerState, wanted_times
from elfmesh.ingest.worker.cutting import CutPace
from elfmesh.ingest.worker.outcome import WorkerOutcome
from elfmesh.ingest.worker.reader import Reader, ReadFrom
from elfmesh.ingest.worker.recovered import GAPS_REPORTED, positions_of, read_up_to_by, recover
from elfmesh.ingest.worker.saying import Saying
from elfmesh.ingest.worker.sealing import Sealing, Unreleased, as_closed
from elfmesh.ingest.worker.staged import StagedWorker
from elfmesh.ingest.worker.tally import Carried
from elfmesh.ingest.worker.watermark import clock_lag_us
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.plan.impossible import Doubts
from elfmesh.safeguards import safeguard
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Frame, Sealed, SealedInterval

log = logging.getLogger("elf.worker")

TO_END_US = 1_000_000
"""Time for which the logs of an agent that leaves at once are read to their end."""

MOVING = "moving"
"""Reason for holding a job while it changes its reader."""


class ReadingStream(Protocol):
    """Interface of the stream that reads a job (`stream.Stream`)."""

    config: StreamConfig
    reader: Reader
    memory: MemoryBudget | None
    seed: int
    encode: Encode
    jobs: dict[str, LocalJob]


class LocalJob:
    """Job at this agent. `begin` must be called before records are fed."""

    def __init__(
        self,
        manifest: Manifest,
        start: int,
        labels: Mapping[str, str] | None = None,
        stages: tuple[Stage, ...] = (),
        lookups: LookupTables | None = None,
        begun: int = 0,
        member: str = "",
    ) -> None:
        self.manifest = manifest
        self.start = start
        self._labels = labels
        self._lookups, self._member = lookups, member
        self.stages = stages or (Stage(FIRST, manifest, manifest.version),)
        self.key = self.frame_key(manifest.job_id, manifest.incarnation)
        self.statement = ql.parse(manifest.text)
        self.stream = self.statement.stream  # the stream that it reads here; see `reads`
        self._saying = Saying(manifest, begun)
        self.home = ""  # the read loop that serves it
        self.functions = JobFunctions()
        self.cost = JobCost()
        self.sheds = False  # whether input without room is dropped and counted
        self.held: set[str] = set()
        self.worker: StagedWorker
        self._sealing: Sealing
        self.unwritten: list[Frame] = []
        self._last: Sealed | None = None
        self._entries: list[SealedInterval] = []
        self._floor = FIRST
        self._position: tuple[FilePosition, ...] = ()
        self.failed = False
        self._unreleased = Unreleased()
        self._reported: tuple[tuple[str, ...], str] = ((), "")
        self._gaps: tuple[str, ...] = ()
        self._carried: tuple[Carried, ...] = ()
        self._doubts: dict[str, Doubts] = {}
        self._doubted: tuple[str, ...] = ()
        self.early_members = 1  # agents that share the thresholds of early rows
        self._early_at_us: int | None = None
        self.cut_pace = CutPace()
        self.end_order: ctl.EndLog | None = None
        self._ended_by: ctl.EndLog | None = None
        self._to_end_since_us: int | None = None

    @property
    def held_bytes(self) -> int:
        return self._unreleased.nbytes

    @staticmethod
    @safeguard("incarnation")
    def frame_key(job: bytes, incarnation: str) -> str:
        """Return the job's name in the frame log, which is different for each incarnation."""
        return f"{job.hex()}:{incarnation}"

    def reads(self, carried: Collection[str]) -> tuple[str, ...]:
        return ql.Query(self.statement, self._labels).streams_of(carried)

    def fields_of(self, stream: str) -> tuple[str, ...]:
        """Return the dotted paths that a stream's parser must extract, for all versions in use."""
        statements = [ql.parse(stage.manifest.text) for stage in self.stages]
        return tuple(sorted({path for each in statements for path in each.fields_of(stream)}))

    @safeguard("say-again")
    def recover(self, frames: FrameLog) -> list[ctl.Sealed | ctl.Revised]:
        """Return the events for everything that the right version sealed and that is not released.

        Of a revised interval this is the newest revision; the counts that revisions added come before all
        others.
        """
        found = recover(frames, self.key, self.start, self.stages, self.manifest.partitions)
        self._last, self._gaps, self.unwritten = found.last, found.lost, found.frames
        self._entries, self._floor, self._carried = found.entries, found.floor, found.carried
        read_up_to = [self._saying.revised(each, again=True) for each in found.revised]
        events = [
            event
            for each in found.ranges
            for event in self._saying.events(each.start, each.stop, each.entries, each.evaluated)
        ]
        return [*read_up_to, *(replace(event, again=True) for event in events)]

    @safeguard("restart-offsets", "open-panes")
    def begin(self, stream: ReadingStream) -> Sealed | None:
        """Start reading; returns the first frame of a new job, which has its start position."""
        last = self._last
        restart = positions_of(last.restart) if last else ()
        self.cost.memory = None if stream.memory is None else stream.memory.account()
        self.worker = StagedWorker(
            self.stages,
            start_index=self.start,
            resumed=Resumed(self.start, carried=self._carried) if last is None else _resumed(last),
            around=SharedWorkerState(
                stream.config.idle_us,
                self.cost.memory,
                stream.seed,
                stream.encode,
                self._labels,
                self.stream,
                self._lookups,
                self.functions.evaluators,
                self._member,
            ),
        )
        self._remember(last)
        read_from = "resume" if last or self.manifest.resumed else stream.config.read_from
        self._read(stream, restart, read_from, self.worker.edges if last else ())
        stream.jobs[self.key] = self
        self.sheds = stream.config.on_overload == "shed"
        begin = None
        if last is None:
            begin = last = self._first_frame(stream)
        self._sealing = Sealing(
            self.key,
            self.worker,
            self._saying,
            last,
            self._unreleased,
            lookups=self._lookups if self.statement.tables_read else None,
        )
        return begin

    def _read(
        self,
        stream: ReadingStream,
        positions: Sequence[FilePosition],
        read_from: ReadFrom,
        boundaries: Sequence[FilePosition],
    ) -> None:
        stream.reader.add(
            self.key,
            self.fields_of(self.stream),
            positions=positions,
            read_from=read_from,
            boundaries=boundaries,
            wanted=wanted_times([stage.manifest for stage in self.stages], self.stream),
        )

    def _first_frame(self, stream: ReadingStream) -> Sealed:
        version, at = self.worker.head.evaluated, stream.reader.positions(self.key)
        return Sealed(
            self.key, version, self.start, self.start, [], positions=(), restart=at, carried=self._carried
        )

    def _remember(self, last: Sealed | None) -> None:
        """Restore the sealed intervals that late records may revise."""
        late = self.worker.late
        if late is None or last is None:
            return
        self.worker.close_below(self._floor)
        self.worker.drop_closed()
        for entry in self._entries:
            late.sealed(as_closed(entry), entry.rev)
        self._entries = []

    def end(self, stream: ReadingStream) -> None:
        """Stop reading permanently; may be called repeatedly."""
        self.functions.close()
        stream.reader.remove(self.key)
        if stream.jobs.get(self.key) is self:
            del stream.jobs[self.key]

    def hold(self, stream: ReadingStream, reason: str, held: bool, now_us: int) -> None:
        """Pause or resume reading for a reason; it resumes when no reason is left. Other jobs continue."""
        before = bool(self.held)
        (self.held.add if held else self.held.discard)(reason)
        if self.key not in stream.jobs or before == bool(self.held):
            return
        if self.held:
            self._position = stream.reader.positions(self.key)
            stream.reader.remove(self.key)
            self.worker.pause(now_us)
        else:
            self._read(stream, self._position, "resume", self.worker.edges)
            self.worker.resume(now_us)

    def move(self, old: ReadingStream, new: ReadingStream, now_us: int) -> None:
        """Move to another reader at the same position; no block may be in flight in either."""
        self.part(old, now_us)
        self.join(new, now_us)

    def part(self, old: ReadingStream, now_us: int) -> None:
        self.hold(old, MOVING, True, now_us)
        self.end(old)

    def join(self, new: ReadingStream, now_us: int) -> None:
        """Perform the second half of a move."""
        new.jobs[self.key] = self
        self.hold(new, MOVING, False, now_us)

    def seal(
        self,
        at: Sequence[FilePosition],
        now_us: int,
        outcome: WorkerOutcome,
        spool_bytes_max: int | None = None,
    ) -> None:
        """Seal the intervals below the watermark, and revise those with late records; as `Sealing.seal`."""
        while True:
            self._sealing.seal(at, now_us, outcome, spool_bytes_max)
            if not self.worker.advance():
                return

    def early(self, now_us: int, outcome: WorkerOutcome) -> None:
        """Report the states of open windows, once in a period."""
        if (period_us := self._early_us) is None:
            return
        last_us = self._early_at_us
        if last_us is None or not last_us <= now_us < last_us + period_us:  # or the clock was set back
            self._early_at_us = now_us
            for evaluated, states in self.worker.take_early(self.early_members):
                outcome.events.append(self._saying.early(states, evaluated))

    def cut(self, now_us: int, outcome: WorkerOutcome) -> None:
        """Report open panes for the standby, once for each order."""
        if (order := self.cut_pace.take(now_us, has_read=self.worker.has_uncut)) is None:
            return
        if not order.number:
            self.worker.cut_no_more()
            return
        try:
            whole, panes = self.worker.cut(whole=order.whole)
        except PartialTooLarge as error:
            outcome.events.append(self._saying.not_cut(order.number, str(error)))
            return
        read = (self.worker.next_index, self.worker.newest_us, self.cut_pace.age_us)
        outcome.events.append(self._saying.cut(order.number, whole, panes, *read))

    @property
    def log_has_ended(self) -> bool:
        """Return whether this agent reads nothing more for the job, because it leaves at once."""
        return self._ended_by is not None

    def end_log(
        self,
        at: Sequence[FilePosition],
        now_us: int,
        outcome: WorkerOutcome,
        spool_bytes_max: int | None = None,
        *,
        at_end: bool,
    ) -> None:
        """Seal every open interval, once for each order, as soon as the logs are read to their end.

        Logs that grow faster than they are read end after `TO_END_US`.
        """
        order = self.end_order
        if order is None or order == self._ended_by:
            return
        if self._to_end_since_us is None:
            self._to_end_since_us = now_us
        if not (at_end or self.log_has_ended or now_us - self._to_end_since_us >= TO_END_US):
            return
        self._ended_by = order
        while self.worker.next_index < self.worker.ends_at(order.stop):
            self.seal(at, now_us, outcome, spool_bytes_max)
        outcome.events.append(self._saying.ended(self.worker.next_index))

    @property
    def _early_us(self) -> int | None:
        job = self.worker.head.statement.job
        return None if job is None else job.early_us

    def lose(self, gaps: Sequence[Gap]) -> None:
        """Count the losses of the sources, and keep the newest ones for display."""
        if gaps:
            self.worker.lost(gaps)
            self._gaps = (*self._gaps, *map(str, gaps))[-GAPS_REPORTED:]

    def doubt(self, records: BlockRows, source: str, stream: str) -> None:
        """Note the comparisons that the types of a block make impossible."""
        if stream not in self._doubts:
            self._doubts[stream] = ql.Query(self.statement, self._labels).doubts(stream)
        for each in self._doubts[stream].found(records.column, source):
            log.warning("job %s has an impossible comparison: %s", self.manifest.qualified, each)
            self._doubted = (*self._doubted, each)[-GAPS_REPORTED:]

    def report(self, outcome: WorkerOutcome) -> None:
        """Log once what could not be used or read."""
        reported = filter(None, (self.cost.slowed, self.cost.crowds))
        samples = (*reported, *self.worker.samples, *self._gaps, *self._doubted, *self.functions.notes)
        problem = self.functions.problem
        if (samples, problem) != self._reported:
            self._reported = (samples, problem)
            outcome.events.append(ctl.WorkerReport(self.manifest.job_id, samples, problem))

    def given(self, event: ctl.Sealed | ctl.Revised) -> None:
        """Note that a range or a revision is handed to the control plane; it is held until it is closed."""
        self._unreleased.given(event)

    def release(self, stop: int) -> None:
        self.worker.close_below(stop)
        self._unreleased.release(stop)

    def due_us(self) -> int | None:
        """Return when the next interval ends or early rows are due; None if neither is, or while held."""
        window, job = self.worker.head.statement.window, self.worker.head.statement.job
        if window is None or self.held or self.log_has_ended:
            return None
        early_us = None if job is None or self._early_at_us is None else job.early_us
        dues = [] if early_us is None else [(self._early_at_us or 0) + early_us]
        if not self.worker.next_index <= self.start < 0:
            lateness = clock_lag_us(job.lateness_us if job else 0)
            dues.append(self.worker.next_index * window.slide_us + window.size_us + lateness)
        return min(dues, default=None)

    def rests_until_us(self, now_us: int, agreed_us: int) -> int | None:
        """Return until when the job has nothing to do without input; None: for ever.

        The clocks are those of its last evaluation: what was due then and was not done waits for input. The
        watermark follows `agreed_us`.
        """
        worker = self.worker
        cut_us = self.cut_pace.due_us(now_us) if worker.has_uncut else None
        if (
            self.end_order
            or self.functions.admissions
            or (worker.late is not None and worker.late.is_pending)
            or cut_us == now_us
        ):
            return now_us
        times = (self.due_us(), cut_us, *(each.clock_counts_us(now_us) for each in worker.watermarks))
        return min((each for each in times if each is not None and each > agreed_us), default=None)


def _resumed(last: Sealed) -> Resumed:
    return Resumed(
        last.stop,
        shed=msgspec.convert(last.shed or (), tuple[tuple[FilePosition, int], ...]),
        read_up_to=read_up_to_by(last, last.stop),
        carried=msgspec.convert(last.carried or (), tuple[Carried, ...]),
        revs=tuple(last.revs),
        turns=positions_of(last.turns),
        newest=last.newest,
    )
