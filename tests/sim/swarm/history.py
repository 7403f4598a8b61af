"""Everything a run did that an invariant may ask about, noted as it happens.

Owns the taps: on each agent's machines (events in, effects out) and on its frame log. Judges nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from elfmesh.agent.assembly import LocalAgent
from elfmesh.agent.framelog import Frame, Sealed
from elfmesh.control import events as ctl
from elfmesh.control.records import ResultRecord
from elfmesh.machine import Effect, Event

Incarnation = tuple[str, str]
"""A job's name and the incarnation of its results."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A record was added to the results log of one host."""

    at: float
    host: str
    record: ResultRecord
    rows: bytes


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a host sealed: a range of intervals, the counts of each, how far each file was read."""

    at: float
    start: int
    stop: int
    counts: dict[int, tuple[int, ...]]
    positions: dict[int, int]
    version: int


@dataclass
class History:
    """One run."""

    now: Callable[[], float]
    appended: dict[Incarnation, list[Appended]] = field(default_factory=dict)
    followed: dict[tuple[str, Incarnation], dict[int, list[tuple[ResultRecord, bytes]]]] = field(
        default_factory=dict
    )
    """What readers with a stored position got: (reader, job) -> index -> every answer."""
    contributions: dict[tuple[str, Incarnation], list[Contribution]] = field(default_factory=dict)
    """By host and job: frames in the order in which they were appended."""
    given: dict[tuple[str, Incarnation], list[ctl.Sealed]] = field(default_factory=dict)
    """By host and job: what was handed to the control plane, after it was durable."""
    epochs: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)
    leaders: dict[tuple[bytes, int], dict[str, None]] = field(default_factory=dict)
    rosters: dict[tuple[Incarnation, int, int], tuple[str, ...]] = field(default_factory=dict)
    """By job, epoch and interval: names of the members that its master expected."""
    starts: dict[tuple[str, Incarnation], tuple[int, float]] = field(default_factory=dict)
    """By host and job: the interval its worker was first told to begin with, and when."""
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

    def say(self, text: str) -> None:
        line = f"{self.now():9.3f}  {text}"
        self.log.append(line)
        if self.on_log is not None:
            self.on_log(line)

    def tap(self, host: str, local: LocalAgent, entered: Callable[[], None]) -> None:
        """Note what this agent does from now on; `entered` is told that its code runs."""
        step, append = local.core.step, local.frames.append

        def noted(event: Event, now: float) -> list[Effect]:
            entered()
            if isinstance(event, ctl.WorkerReport) and event.error:
                self.worker_errors.append(f"{host}: {event.error}")
            if isinstance(event, ctl.Sealed):
                job = self.names.get(event.job, event.job.hex())
                self.given.setdefault((host, (job, event.incarnation)), []).append(event)
            effects = step(event, now)
            for effect in effects:
                self._effect(host, local, effect)
            for job_id, master in local.control.leadership.masters.items():
                self.leaders.setdefault((job_id, master.epoch), {})[host] = None
            return effects

        def kept(frame: Frame) -> None:
            append(frame)
            if isinstance(frame, Sealed):
                self._frame(host, frame)

        local.core.step = noted  # type: ignore[method-assign]  # listens in
        local.frames.append = kept  # type: ignore[method-assign]  # listens in

    def _effect(self, host: str, local: LocalAgent, effect: Effect) -> None:
        self.counters[type(effect).__name__] += 1
        if isinstance(effect, ctl.Append):
            record = effect.record
            job: Incarnation = (record.job, effect.incarnation)
            self.names[effect.job] = record.job
            self.appended.setdefault(job, []).append(Appended(self.now(), host, record, effect.rows))
            master = local.control.leadership.masters.get(effect.job)
            if master is not None and master.epoch == record.epoch:
                self.say(f"{host} publishes {_short(record)}")
                names = master.book.names(master.book.required(record.index))
                self.rosters[job, record.epoch, record.index] = tuple(names)
        elif isinstance(effect, ctl.StartWorker):
            manifest = effect.manifest
            self.names[manifest.job_id] = manifest.qualified
            job = (manifest.qualified, manifest.incarnation)
            self.starts.setdefault((host, job), (effect.start, self.now()))
        elif isinstance(effect, ctl.Persist) and effect.kind == "epoch":
            self.epochs.setdefault((host, effect.key), []).append(int.from_bytes(effect.data))

    def _frame(self, host: str, frame: Sealed) -> None:
        job_hex, _, incarnation = frame.job.partition(":")
        job = (self.names.get(bytes.fromhex(job_hex), job_hex), incarnation)
        positions = {position.inode: position.offset for position in frame.positions or ()}
        counts = {entry.interval: tuple(entry.counts) for entry in frame.entries}
        note = Contribution(self.now(), frame.start, frame.stop, counts, positions, frame.version)
        self.contributions.setdefault((host, job), []).append(note)


def _short(record: ResultRecord) -> str:
    missing = f" without {', '.join(record.missing)}" if record.missing else ""
    return f"{record.job} {record.index} {record.state}{missing} (epoch {record.epoch}, {record.counts})"
