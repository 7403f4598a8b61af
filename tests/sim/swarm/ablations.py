"""Safeguards of the product, each removable for a test: what the simulator must notice.

Owns one line per safeguard: what it is, and how the product behaves without it. Every removal is a patch that
lasts for one run; the product knows nothing of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec

from elfmesh.agent import framelog, framescan, ingest, jobs, pump, storage, watermark, worker
from elfmesh.agent.sources import blocks
from elfmesh.control import (
    leadership,
    master_close,
    master_founding,
    master_roster,
    resultslog,
)
from elfmesh.errors import StorageError
from elfmesh.srt import barrier, coverage, multicast, parts, uplink

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Ablation:
    """One safeguard.

    Attributes:
        what: the safeguard, in words.
        promise: of the guarantees, that it serves.
        patches: what is replaced by its absence; called anew for every run.
    """

    what: str
    promise: str
    patches: Callable[[], list[Patch]]


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a safeguard."""


def always(owner: Any, name: str, value: Any) -> Callable[[], list[Patch]]:
    """A safeguard that is one attribute."""
    return lambda: [(owner, name, value)]


def _options(owner: Any, **changed: Any) -> list[Patch]:
    """A class that is always made with these arguments."""
    original = owner.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **{**options, **changed})

    return [(owner, "__init__", init)]


def _restart(positions: Callable[[framelog.Sealed], Any]) -> list[Patch]:
    """A restart reads from elsewhere."""
    original = jobs.LocalJob.begin

    def begin(self: Any, stream: Any) -> Any:
        if self._last is not None:
            self._last = msgspec.structs.replace(self._last, restart=positions(self._last))
        return original(self, stream)

    return [(jobs.LocalJob, "begin", begin)]


def _given_before_written() -> list[Patch]:
    async def evaluate(self: Any, polled: Any) -> None:
        outcome = await self._executor.run(self._working, lambda: self.stream.evaluate(polled))
        for event in outcome.events:
            self.stream.given(event)
            self._emit(event)
        if outcome.frames:
            await self._write(outcome.frames)

    return [(ingest.Ingest, "_evaluate", evaluate)]


def _no_frames_said_again() -> list[Patch]:
    original = jobs.LocalJob.recover

    def recover(self: Any, frames: Any) -> list[Any]:
        original(self, frames)
        return []

    return [(jobs.LocalJob, "recover", recover)]


def _effects_do_not_wait() -> list[Patch]:
    original = pump.Pump._drain

    def drain(self: Any) -> None:
        self._stored.set()
        original(self)

    return [(pump.Pump, "_drain", drain)]


def _write_in_place() -> list[Patch]:
    def write(self: Any, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)

    return [(storage.DiskStorage, "write", write)]


def _failed_sync_ignored() -> list[Patch]:
    original = storage.DiskFile.sync

    def sync(self: Any) -> None:
        with contextlib.suppress(StorageError):
            original(self)

    return [(storage.DiskFile, "sync", sync)]


def _epoch_forgotten() -> list[Patch]:
    def note(self: Any, job: bytes, epoch: int) -> None:
        self._epochs[job] = epoch

    return [(leadership.Leadership, "_note_epoch", note)]


def _blind(verdict: coverage.Verdict) -> list[Patch]:
    """A partial of which something is counted already passes as new."""
    new = coverage.Verdict.NEW

    def judge(partial: int, known: int) -> coverage.Verdict:
        return new if (found := coverage.judge(partial, known)) is verdict else found

    return [(barrier, "judge", judge)]


def _sent_once() -> list[Patch]:
    original = uplink.Uplink._transmit

    def transmit(self: Any, parent: Any, waiting: Any) -> None:
        if waiting.tries:
            waiting.due = None
        else:
            original(self, parent, waiting)

    return [(uplink.Uplink, "_transmit", transmit)]


def _unfinished_lines() -> list[Patch]:
    def push(self: Any, chunk: bytes) -> bytes:
        self.taken += len(chunk)
        return chunk

    return [(blocks.LineCutter, "push", push)]


def _late_in_the_newest() -> list[Patch]:
    original = worker.JobWorker._count

    def count(self: Any, bucket: int, number: int, index: Any, block: Any, replaying: bool) -> None:
        if bucket in (worker.LATE, worker.EXPIRED):
            index = self._newest_index()
        original(self, bucket, number, index, block, replaying)

    return [(worker.JobWorker, "_count", count)]


def _no_lateness() -> list[Patch]:
    original = watermark.Watermark.__init__

    def init(self: Any, lateness_us: int = 0, **options: Any) -> None:
        original(self, 0, **options)

    return [(watermark.Watermark, "__init__", init)]


def _any_incarnation() -> list[Patch]:
    return [(jobs.LocalJob, "frame_key", staticmethod(lambda job, incarnation: f"{job.hex()}:"))]


REGISTRY: dict[str, Ablation] = {
    "replay-boundary": Ablation(
        "what was counted before a restart is not counted again",
        "D-1",
        lambda: _options(worker.JobWorker, replay_until=()),
    ),
    "restart-offsets": Ablation(
        "a restart reads on where the last frame says", "D-1", lambda: _restart(lambda last: ())
    ),
    "open-panes": Ablation(
        "a restart reads what is not sealed once more",
        "D-1",
        lambda: _restart(lambda last: last.positions or last.restart),
    ),
    "sync-before-send": Ablation(
        "frames are synced before they are handed on", "D-1", always(framelog.FrameLog, "sync", nothing)
    ),
    "write-before-send": Ablation(
        "frames are written before they are handed on", "D-1", _given_before_written
    ),
    "failed-sync": Ablation("a failed sync ends the agent", "D-1", _failed_sync_ignored),
    "say-again": Ablation("a restart hands on what is not closed", "D-8", _no_frames_said_again),
    "keep-until-closed": Ablation(
        "frames are kept until their interval is closed",
        "D-8",
        always(framelog.FrameLog, "unreleased", lambda self, job: iter(())),
    ),
    "torn-tail": Ablation(
        "a torn frame is cut off before the next is written",
        "D-1",
        always(storage.DiskFile, "cut", nothing),
    ),
    "frame-checksum": Ablation(
        "a frame's checksum is checked", "D-1", always(framescan, "zlib", SimpleNamespace(crc32=lambda *_: 0))
    ),
    "effects-wait": Ablation("what follows a write waits for it", "D-1", _effects_do_not_wait),
    "atomic-write": Ablation("state is replaced by a synced file, never in place", "D-1", _write_in_place),
    "late-in-the-next": Ablation(
        "late records are counted in the next interval to be sealed", "D-1", _late_in_the_newest
    ),
    "whole-lines": Ablation("only finished lines are records", "D-2", _unfinished_lines),
    "incarnation": Ablation("frames of a deleted job are not those of the next", "D-16", _any_incarnation),
    "epoch-fence": Ablation(
        "what comes from a lower epoch is refused",
        "D-5",
        always(leadership.Leadership, "admits", lambda *_: True),
    ),
    "epoch-on-disk": Ablation("the highest epoch is remembered", "D-5", _epoch_forgotten),
    "duplicates": Ablation(
        "what is counted is not counted again", "D-7", lambda: _blind(coverage.Verdict.DUPLICATE)
    ),
    "disjoint-merge": Ablation(
        "only disjoint coverages are merged", "D-7", lambda: _blind(coverage.Verdict.OVERLAP)
    ),
    "recollect-overlap": Ablation(
        "an overlap is collected again", "D-7", always(uplink.Uplink, "overlap", nothing)
    ),
    "retransmit": Ablation("what is not acknowledged is sent again", "D-7", _sent_once),
    "shelf": Ablation(
        "a new parent gets what the last one got",
        "D-7",
        always(parts.Shelf, "__iter__", lambda self: iter(())),
    ),
    "repair": Ablation(
        "what was lost on the way is collected again",
        "D-7",
        always(master_close.Closer, "_repair", nothing),
    ),
    "watermark": Ablation(
        "an interval is sealed once the watermark has passed it",
        "D-12",
        always(worker.JobWorker, "ready_index", property(lambda self: self.end_index)),
    ),
    "lateness": Ablation(
        "the watermark stays behind by the lateness",
        "D-12",
        _no_lateness,
    ),
    "clock-lag": Ablation(
        "the clock alone closes intervals a moment late",
        "D-12",
        always(watermark, "WRITING_US", -500_000),
    ),
    "future": Ablation(
        "a time far ahead is an error", "D-12", lambda: _options(worker.JobWorker, max_future_us=None)
    ),
    "roster-ahead": Ablation(
        "a new member starts above the frontier", "D-14", always(master_founding, "AHEAD", -2)
    ),
    "completeness": Ablation(
        "the root waits for the roster",
        "D-6",
        always(master_roster.RosterBook, "required", lambda self, interval: 0),
    ),
    "tombstone": Ablation(
        "a deleted job is not led again",
        "D-16",
        always(leadership.Leadership, "_is_dead", lambda self, manifest: False),
    ),
    "multicast-retry": Ablation(
        "a multicast is repeated until it is acknowledged",
        "D-16",
        lambda: [(multicast, "RETRY_S", 1e9), (multicast, "RETRY_S_MAX", 1e9)],
    ),
    "multicast-latecomers": Ablation(
        "who joins a tree gets what was said",
        "D-16",
        always(multicast.Multicasts, "child_joined", nothing),
    ),
    "append-once": Ablation(
        "a record is appended once",
        "D-17",
        always(resultslog.ResultsLog, "latest", property(lambda self: None)),
    ),
}
"""By name. What each costs to find stands in docs/reliability.md."""


@contextlib.contextmanager
def without(name: str | None) -> Iterator[None]:
    """Run without a safeguard; with all of them if `name` is None."""
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in REGISTRY[name].patches() if name else ():
            stack.enter_context(mock.patch.object(owner, attribute, value))
        yield
