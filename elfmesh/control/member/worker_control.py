"""The commands of a member to the worker of its job, and the part of the worker's reports that counts.

Owns the start, the pauses and the releases of the worker, and the changes of versions that annul its reports.
Contributes nothing.

Invariants: a pause and its end alternate; each release is beyond the one before.
"""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.stages import evaluations, valid_until
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.member.worker_generations import WorkerGenerations
from elfmesh.control.protocol.events import (
    PauseWorker,
    ReleaseWorker,
    ResumeWorker,
    Revised,
    Sealed,
    StartWorker,
    StopWorker,
)
from elfmesh.safeguards import safeguard

PENDING_MAX = 64
"""Sealed ranges that wait for a number. If there are more, the worker pauses."""


class WorkerControl:
    """Controls the worker of one member.

    Attributes:
        start: the worker's first interval, None until it is started.
        paused: whether the job is paused.
        stages: the versions of the job, each from its first interval on.
    """

    def __init__(self, context: Context, manifest: Manifest) -> None:
        self._context, self._job = context, manifest.job_id
        self.start: int | None = None
        self.stages: tuple[Stage, ...] = (Stage(FIRST, manifest, manifest.version),)
        self._generations = WorkerGenerations()
        self.paused = self._held = False
        self._released: int | None = None

    def begin(self, start: int, manifest: Manifest) -> None:
        """Start the worker at its first interval, unless it is started."""
        if self.start is None:
            self.start = start
            self.run(manifest)

    def run(self, manifest: Manifest) -> None:
        """Start the worker again, so that it evaluates the present stages."""
        if self.start is not None:
            stages = evaluations(self.stages)
            # The start of the first version tells the worker which intervals are closed.
            alone = stages == (Stage(FIRST, manifest, manifest.version),)
            begun = self._generations.next()
            self._context.emit(StartWorker(manifest, self.start, () if alone else stages, begun))

    def stop(self, incarnation: str, *, keeps_frames: bool = False) -> None:
        self._context.emit(StopWorker(self._job, incarnation, keeps_frames))

    def pause(self, paused: bool, pending: int) -> None:
        """Pause the worker while the job is paused, or while `pending` ranges are too many."""
        self.paused = paused
        self.limit(pending)

    def limit(self, pending: int) -> None:
        """Pause the worker while too many ranges wait for a number."""
        held = self.paused or pending >= PENDING_MAX
        if held != self._held and self.start is not None:
            self._held = held
            self._context.emit(PauseWorker(self._job) if held else ResumeWorker(self._job))

    def release(self, floor: int, received: int) -> None:
        """Let the worker discard what lies below an interval, and the revisions up to a number."""
        if self._released is None or floor > self._released:
            self._released = floor
            self._context.emit(ReleaseWorker(self._job, floor, received))

    # -- reports ---------------------------------------------------------------------------------------

    def annuls(self, at: int) -> None:
        """Annul the reports about intervals from `at` on, because another version evaluates them."""
        self._generations.changed(at)

    def valid_until(self, event: Sealed | Revised, start: int, stop: int) -> int:
        """The interval below which a report within `start` and `stop` is of the version of its intervals."""
        stands = self._generations.stands_until(event.begun)
        return valid_until(self.stages, event.evaluated, start, min(stop, stands))

    @safeguard("annulled-below-the-first")
    def stands(self, event: Sealed) -> Sealed:
        """The part of a worker's report that no change has annulled which the worker has missed.

        A later worker reads the records of the annulled intervals again.
        """
        stands = self._generations.stands_until(event.begun)
        return event.within(event.start, max(event.start, stands))
