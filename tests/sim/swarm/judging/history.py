"""Everything a run did that an invariant may ask about, noted as it happens.

Owns the taps: on each agent's machines (events in, effects out) and on its frame log. Judges nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.jobs.records import CONTRIBUTED, EXPIRED, FILTERED, FIRST, LATE, ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.master.master import Master
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.worker.offsets import ReadUpTo
from elfmesh.ingest.worker.recovered import positions_of
from elfmesh.machine import Effect, Event, Send
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Forgotten, Frame, Sealed
from elfmesh.storage.results.logs import ResultsLogs
from tests.sim.swarm.clients import Clients
from tests.sim.swarm.judging.emitted import early_lines
from tests.sim.swarm.judging.sites import AT_SITES, ControlSteps, SiteWatch, at_site
from tests.sim.swarm.judging.worker_starts import WorkerStarts, goes_out_last, guarded, on_append, on_put_back
from tests.sim.swarm.residing.watch import Residence
from tests.sim.swarm.row_pages import PageWatch

Incarnation = tuple[str, str]
"""A job's name and the incarnation of its results."""

GOOD_BUCKETS = (CONTRIBUTED, FILTERED, LATE, EXPIRED)
"""Of good lines."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A record was added to the results log of one host."""

    at: float
    host: str
    record: ResultRecord
    rows: bytes
    boot: int = 0
    """Which of the host's lives it was: what one did not get onto the disk, the next one adds again."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A master has closed a run of intervals, with a record or without; `expected` are names."""

    start: int
    stop: int
    epoch: int
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a host sealed: a range of intervals, the counts of each, how far each file was read.

    `revised` are intervals that were sealed before, with the revision, all counts and the version that has
    evaluated them; `revs` are the revisions of the others: not the first where another version was revised.
    `read_up_to` is what lives before had read beyond `positions`: inode, offset, and below which interval it
    counts. `annuls` and `seq` are the frame's; `carried` are good lines that count in what is sealed next.
    """

    at: float
    start: int
    stop: int
    counts: dict[int, tuple[int, ...]]
    positions: dict[int, int]
    version: int
    revised: dict[int, tuple[int, tuple[int, ...], int]] = field(default_factory=dict)
    revs: dict[int, int] = field(default_factory=dict)
    seq: int = 0
    annuls: int | None = None
    read_up_to: tuple[tuple[int, int, int], ...] = ()
    carried: int = 0

    @property
    def place(self) -> tuple[int, int, int, int]:
        """What tells it from the other frames of its job in one log."""
        return self.start, self.stop, self.version, self.seq


@dataclass(frozen=True, slots=True)
class Safe:
    """A contribution that peers had on their disks when its agent was lost with its own.

    Attributes:
        at: when that was.
        host: who was lost.
        start: first interval of it that the host did not know to be closed.
        stop: end of the contribution.
        copy_hosts: ids of the peers.
        evaluated: the version that has evaluated it.
    """

    at: float
    host: str
    start: int
    stop: int
    copy_hosts: tuple[bytes, ...]
    evaluated: int = 1


@dataclass
class History:
    """One run."""

    now: Callable[[], float]
    clients: Clients = field(init=False)
    pages: PageWatch = field(default_factory=PageWatch)
    appended: dict[Incarnation, list[Appended]] = field(default_factory=dict)
    followed: dict[tuple[str, Incarnation], dict[int, list[tuple[ResultRecord, bytes]]]] = field(
        default_factory=dict
    )
    """What readers with a stored position got: (reader, job) -> index -> every answer."""
    contributions: dict[tuple[str, Incarnation], list[Contribution]] = field(default_factory=dict)
    """By host and job: frames in the order in which they were appended, without those a power cut took; see
    `standing`."""
    given: dict[tuple[str, Incarnation], list[ctl.Sealed]] = field(default_factory=dict)
    """By host and job: what was handed to the control plane, after it was durable."""
    epochs: dict[tuple[str, bytes], list[tuple[float, int]]] = field(default_factory=dict)
    """By host and job: the highest epoch that the agent knew of and had told of, and since when."""
    leaders: dict[tuple[bytes, int], dict[str, float]] = field(default_factory=dict)
    """By job and epoch: who has led it, and since when."""
    versions: dict[tuple[str, Incarnation], list[tuple[float, int]]] = field(default_factory=dict)
    """By host and job: the versions that a worker was started by, and when."""
    asked: Counter[str] = field(default_factory=Counter)
    """By job: how often clients have asked for another version, or for the job."""
    terms: dict[Incarnation, dict[int, float]] = field(default_factory=dict)
    """By job: its epochs, and when each began."""
    texts: dict[Incarnation, dict[int, str]] = field(default_factory=dict)
    """By job: the text of each version."""
    deleted: dict[Incarnation, float] = field(default_factory=dict)
    """By job: when a client was told that it is deleted."""
    safe: dict[Incarnation, list[Safe]] = field(default_factory=dict)
    disordered: list[str] = field(default_factory=list)
    """Answers with records twice or out of order."""
    damaged: list[str] = field(default_factory=list)
    """Frame logs with a hole that no fault made."""
    rosters: dict[tuple[Incarnation, int, int], tuple[str, ...]] = field(default_factory=dict)
    """By job, epoch and interval: names of the members that its master expected."""
    evaluated: dict[tuple[Incarnation, int, int], int] = field(default_factory=dict)
    """By the same: the version that evaluated it."""
    voters: dict[str, list[tuple[float, tuple[tuple[bytes, ...], ...]]]] = field(default_factory=dict)
    """By job: whose majorities decide about it, since when."""
    gone: dict[bytes, float] = field(default_factory=dict)
    """By id: when an agent left or lost its disk."""
    forgot: dict[bytes, float] = field(default_factory=dict)
    """By id: when an agent lost its votes, the last time."""
    revised: dict[tuple[Incarnation, int, int], dict[str, int]] = field(default_factory=dict)
    """By the same: the revision of each member's contribution, where it is not the first."""
    early: dict[Incarnation, list[tuple[ResultRecord, bytes]]] = field(default_factory=dict)
    """By job: the lines with early rows, in the order in which masters emitted them."""
    decided: dict[Incarnation, list[Decided]] = field(default_factory=dict)
    """By job: what its masters have closed, in the order in which they did."""
    starts: dict[tuple[str, Incarnation], tuple[int, float]] = field(default_factory=dict)
    """By host and job: the interval its worker was first told to begin with, and when."""
    released: dict[tuple[str, Incarnation], list[tuple[float, int]]] = field(default_factory=dict)
    """By host and job: when its worker was told that everything below an interval is closed."""
    worker_starts: WorkerStarts = field(default_factory=WorkerStarts)
    residence: Residence = field(default_factory=Residence)
    sites: SiteWatch = field(default_factory=SiteWatch)
    opened: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    """By agent and file: when the agent opened it."""
    counters: Counter[str] = field(default_factory=Counter)
    worker_errors: list[str] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)
    peaks: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    on_log: Callable[[str], None] | None = None
    tampered: dict[str, str] = field(default_factory=dict)
    """Hosts whose disk was damaged in a way that no product survives exactly, and how."""
    lost_state: dict[str, str] = field(default_factory=dict)
    """Hosts that may have forgotten what they remembered of jobs, and why."""
    unnoticed: list[str] = field(default_factory=list)
    """Hosts that went back in time, and voted on beside an agent that had seen what they have lost."""

    def __post_init__(self) -> None:
        self.clients = Clients(self.now)

    _lives: Counter[str] = field(default_factory=Counter)
    _frame_keys: dict[tuple[str, str], Incarnation] = field(default_factory=dict)
    """By host and the name of a job in its frame log: the job."""
    _forgotten: set[tuple[str, str]] = field(default_factory=set)

    def say(self, text: str) -> None:
        line = f"{self.now():9.3f}  {text}"
        self.log.append(line)
        if self.on_log is not None:
            self.on_log(line)

    def tap(self, host: str, local: LocalAgent, entered: Callable[[], None]) -> None:
        """Note what this agent does from now on; `entered` is told that its code runs."""
        boot = self._lives[host] = self._lives[host] + 1
        self.recovered(host, local.frames)
        self.pages.tap(local)
        self.residence.tap(local)
        steps = ControlSteps(local)
        self.sites.tap(host, local, self.now, steps)
        self._notified(host, local, steps)
        step, moved = local.core.step, steps.watch()
        closed: dict[tuple[bytes, int], int] = {}
        voting: dict[bytes, RegisterCell] = {}
        emitted: dict[tuple[bytes, int], int] = {}

        def noted(event: Event, now: float) -> list[Effect]:
            entered()
            if type(event) is ctl.WorkerReport and event.error:
                self.worker_errors.append(f"{host}: {event.error}")
            if type(event) is ctl.Sealed:
                job = self.names.get(event.job, event.job.hex())
                self.given.setdefault((host, (job, event.incarnation)), []).append(event)
            effects = step(event, now)
            if type(event) is ctl.EarlyMerged:
                early_lines(self.early, local, event, emitted)
            for effect in [each for each in effects if type(each) is not Send]:
                self._effect(host, local, effect)
            masters = local.control.leadership.masters if moved() else {}
            for job_id, master in masters.items():
                cell = master.term.committer.cell
                if voting.get(job_id) is not cell:
                    self.leaders.setdefault((job_id, master.term.epoch), {}).setdefault(host, self.now())
                    led = (master.term.manifest.qualified, master.term.manifest.incarnation)
                    self.texts.setdefault(led, {})[master.term.manifest.version] = master.term.manifest.text
                    self.terms.setdefault(led, {}).setdefault(master.term.epoch, self.now())
                    if job_id not in voting or voting[job_id].groups != cell.groups:
                        self.voters.setdefault(led[0], []).append((self.now(), cell.groups))
                    voting[job_id] = cell
                    self.worker_starts.closed(led, self.now(), cell.value.closed)
                before = closed.setdefault((job_id, master.term.epoch), master.term.closer.next)
                if (upto := master.term.closer.next) != before:
                    closed[job_id, master.term.epoch] = upto
                    self._decided(master, before)
            return effects

        local.core.step = noted  # type: ignore[method-assign]  # listens in
        local.frames.append = guarded(local.frames.append, partial(self.noted, host), self.unnoticed)  # type: ignore[method-assign, assignment]  # listens in
        on_append(local, partial(self._appended, host, boot))

    def restores(self, host: str, results: ResultsLogs) -> None:
        """Note what this agent finds again; before it is made."""
        on_put_back(results, partial(self._appended, host, self._lives[host] + 1))

    def _appended(self, host: str, boot: int, effect: ctl.Append) -> None:
        note = Appended(self.now(), host, effect.record, self.pages.whole(effect.rows), boot)
        self.appended.setdefault((effect.record.job, effect.incarnation), []).append(note)

    def _decided(self, master: Master, start: int) -> None:
        key = (master.term.manifest.qualified, master.term.manifest.incarnation)
        while start < master.term.closer.next:
            stop = min(master.term.closer.next, master.term.book.changes_after(start))
            names = master.term.book.names(master.term.book.required(start))
            self.decided.setdefault(key, []).append(Decided(start, stop, master.term.epoch, tuple(names)))
            start = stop

    def _effect(self, host: str, local: LocalAgent, effect: Effect) -> None:
        if isinstance(effect, ctl.Append):
            record = effect.record
            job: Incarnation = (record.job, effect.incarnation)
            self.names[effect.job] = record.job
            master = local.control.leadership.masters.get(effect.job)
            if master is not None and master.term.epoch == record.epoch:
                self.say(f"{host} publishes {_short(record)}")
                self.pages.was_published(master, effect)
                book = master.term.book
                self.rosters[job, record.epoch, record.index] = tuple(book.names(book.required(record.index)))
                # By the record's version: what follows it may begin with this very interval meanwhile. The
                # terms leave a version out as soon as its last interval is closed, by this record perhaps.
                stages = master.term._term_state.began.stages
                by_version = {stage.manifest.version: stage.evaluated for stage in stages}
                evaluated = by_version.get(record.version, record.version)
                self.evaluated[job, record.epoch, record.index] = evaluated
                revs = {book.names(1 << number)[0]: rev for number, rev in record.revs}
                self.revised[job, record.epoch, record.index] = revs
                self.counters["revisions inside"] += len(revs)
            elif (expected := at_site(local, effect)) is not None:
                self.counters[AT_SITES] += 1
                self.rosters.setdefault((job, record.epoch, record.index), expected)
        elif isinstance(effect, ctl.StartWorker):
            manifest = effect.manifest
            self.names[manifest.job_id] = manifest.qualified
            job = (manifest.qualified, manifest.incarnation)
            self.starts.setdefault((host, job), (effect.start, self.now()))
            self.released.setdefault((host, job), []).append((self.now(), effect.start))
            self.worker_starts.begun(host, job, self.now(), effect.stages)
        elif isinstance(effect, ctl.ReleaseWorker):
            member = local.control.member_host.members.get(effect.job)
            if member is not None:
                job = (member.manifest.qualified, member.manifest.incarnation)
                self.released.setdefault((host, job), []).append((self.now(), effect.stop))

    def _notified(self, host: str, local: LocalAgent, steps: ControlSteps) -> None:
        """Note the epochs that an agent has told of, and the versions that it has begun.

        What it has learned and not yet written counts from the first effect that goes out behind the write: a
        crash before makes it unknown again, to all agents.
        """
        step, carry_out = local.core.step, local.pump._outbox._carry_out
        knew: dict[bytes, int] = {}
        waiting: deque[tuple[Effect | None, dict[bytes, int]]] = deque()
        moved = steps.watch()

        def learned(event: Event, now: float) -> list[Effect]:
            effects = step(event, now)
            knows = local.control.leadership._epochs._known if moved() else {}
            if new := {job: epoch for job, epoch in knows.items() if knew.get(job) != epoch}:
                knew.update(new)
                waiting.append((None, new))
            waits = waiting and waiting[-1][0] is None
            if waits and (last := goes_out_last(effects, behind_an_epoch=bool(new))) is not None:
                waiting.append((last, {}))
            return effects

        def went_out(effect: Effect) -> None:
            carry_out(effect)
            if waiting and any(watermark is effect for watermark, _ in waiting):
                while waiting:
                    watermark, new = waiting.popleft()
                    for job, epoch in new.items():
                        self.epochs.setdefault((host, job), []).append((self.now(), epoch))
                    if watermark is effect:
                        break
            if isinstance(effect, ctl.StartWorker):
                manifest = effect.manifest
                begun = (manifest.qualified, manifest.incarnation)
                self.versions.setdefault((host, begun), []).append((self.now(), manifest.version))

        local.core.step = learned  # type: ignore[method-assign]  # listens in
        local.pump._outbox._carry_out = went_out  # listens in

    def loses_disk(self, host: str, local: LocalAgent) -> None:
        """An agent is about to be lost with its disk: note what of it was safe (D-8)."""
        for member in local.control.member_host.members.values():
            key = (member.manifest.qualified, member.manifest.incarnation)
            for copy in member.copy_sender._open.values():
                if member.copy_sender._is_safe(copy):
                    start = max(copy.event.start, FIRST if member.closed is None else member.closed)
                    about = host, start, copy.event.stop, tuple(copy.at), copy.event.evaluated
                    self.safe.setdefault(key, []).append(Safe(self.now(), *about))

    def answered(self, reader: str, job: str, indices: list[int], start: int | None) -> None:
        """A reader got a page of a job's results."""
        wanted = [index for index in sorted(set(indices)) if start is None or index >= start]
        if indices != wanted:
            self.disordered.append(f"{job}: {reader} asked from {start} and got {indices}")

    def recovered(self, host: str, frames: FrameLog) -> None:
        """Strike out what was appended and not synced before a power cut: it was never a contribution.

        Its records are read again, and count again. A damaged log is no measure of what was in it.
        """
        if host in self.tampered:
            return
        if frames.recovery.gaps:
            self.damaged.append(f"{host}: damaged at {frames.recovery.gaps}")
        for (of, key), job in self._frame_keys.items():
            last = frames.last(key) if of == host else None
            if of != host or (last is None and (host, key) in self._forgotten):
                continue
            noted = self.contributions[host, job]
            place = None if last is None else (last.start, last.stop, last.version, last.seq)
            while noted and noted[-1].place != place:
                noted.pop()

    def noted(self, host: str, frame: Frame) -> None:
        """A frame was appended at a host."""
        if isinstance(frame, Forgotten):
            self._forgotten.add((host, frame.job))
        if not isinstance(frame, Sealed):
            return
        job_hex, _, incarnation = frame.job.partition(":")
        job = (self.names.get(bytes.fromhex(job_hex), job_hex), incarnation)
        self._frame_keys[host, frame.job] = job
        # A frame that continues one of the log has the positions as the log has read them.
        positions = {position.inode: position.offset for position in positions_of(frame.positions)}
        read_up_to = msgspec.convert(frame.read_up_to or (), tuple[ReadUpTo, ...])
        counts = {entry.interval: tuple(entry.counts) for entry in frame.entries}
        revised = {each.interval: (each.rev, tuple(each.counts), each.version) for each in frame.revised}
        revs = {entry.interval: entry.rev for entry in frame.entries}
        reported = tuple((to.inode, to.offset, below) for to, below in read_up_to)
        carried = sum(counted[bucket] for *_, counted in frame.carried or () for bucket in GOOD_BUCKETS)
        span, more = (self.now(), frame.start, frame.stop), (frame.seq, frame.annuls, reported)
        note = Contribution(
            *span, counts, positions, frame.version, revised, revs, *more, carried=int(carried)
        )
        self.counters["revisions"] += len(revised)
        self.contributions.setdefault((host, job), []).append(note)


def _short(record: ResultRecord) -> str:
    missing = f" without {', '.join(record.missing)}" if record.missing else ""
    return f"{record.job} {record.index} {record.state}{missing} (epoch {record.epoch}, {record.counts})"
