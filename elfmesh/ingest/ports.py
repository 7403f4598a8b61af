"""Who carries out what the core wants: workers and results logs, as the pump sees them."""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.protocol import events as ctl
from elfmesh.storage.durable import Records

HELD_BYTES_MAX = 64 << 20
"""Sealed but not closed partials of one job; above it the job stops reading until half is closed."""


class Workers(Protocol):
    """Who reads streams and evaluates jobs on them; reports by events."""

    def start_job(self, effect: ctl.StartWorker) -> None:
        """Begin, or go on after a restart."""
        ...

    def stop_job(self, effect: ctl.StopWorker) -> None: ...

    def pause_job(self, job: bytes) -> None: ...

    def resume_job(self, job: bytes) -> None: ...

    def release(self, job: bytes, stop: int, received: int) -> None:
        """Intervals below `stop` are closed, revisions up to `received` accounted for."""
        ...

    async def close(self) -> None:
        """Stop reading, seal nothing early, flush the frame log."""
        ...

    def kill(self) -> None:
        """Stop at once, finish nothing."""
        ...


class Results(Records, Protocol):
    """The results logs of the jobs mastered here; synchronous."""

    def keep_page(self, effect: ctl.KeepPage) -> None:
        """Write a page of rows, durably."""
        ...

    def drop(self, job: bytes, *, retire: bool = False) -> None:
        """Delete the logs of a job, or set the present one aside."""
        ...

    def read(self, effect: ctl.ReadLog) -> ctl.LogRead: ...

    def mend(self, effect: ctl.MendLog) -> None: ...

    def damaged(self) -> tuple[ctl.LogInfo, ...]:
        """The logs in which holes were found since this was asked last."""
        ...

    def found(self) -> tuple[ctl.LogInfo, ...]:
        """The logs on disk."""
        ...
