"""Interfaces of workers and results logs for the pump, which execute the core's effects."""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.protocol import events as ctl
from elfmesh.storage.durable import Records

HELD_BYTES_MAX = 64 << 20
"""Maximum number of bytes of one job's partials that are sealed but not closed. Above it the job stops
reading, until half of them are closed."""


class Workers(Protocol):
    """Reads streams and evaluates jobs on them; reports by events."""

    def start_job(self, effect: ctl.StartWorker) -> None:
        """Start a job, or continue it after a restart."""
        ...

    def stop_job(self, effect: ctl.StopWorker) -> None: ...

    def pause_job(self, job: bytes) -> None: ...

    def resume_job(self, job: bytes) -> None: ...

    def share_early(self, job: bytes, members: int) -> None:
        """Share the thresholds of a job's early rows among this number of members."""
        ...

    def read_posts(self, effect: ctl.ReadPosts) -> None:
        """Read the next posts of a stream for an ordered topic."""
        ...

    def stop_posts(self, job: bytes) -> None: ...

    def cut_panes(self, order: ctl.CutPanes) -> None:
        """Report open panes of a job once, or (number 0) from now on no more."""
        ...

    def end_log(self, order: ctl.EndLog) -> None:
        """Read a job's logs to their end and seal every open interval."""
        ...

    def release(self, job: bytes, stop: int, received: int) -> None:
        """Release closed intervals below `stop`, and revisions up to `received`, which are counted."""
        ...

    async def close(self) -> None:
        """Stop reading without sealing early, and flush the frame log."""
        ...

    def kill(self) -> None:
        """Stop at once and finish nothing."""
        ...


class Results(Records, Protocol):
    """Results logs of the jobs whose master is here; synchronous."""

    def keep_page(self, effect: ctl.KeepPage) -> None: ...

    def drop(self, job: bytes, *, retire: bool = False) -> None:
        """Delete the logs of a job; with `retire`, set the current one aside."""
        ...

    def read(self, effect: ctl.ReadLog) -> ctl.LogRead: ...

    def mend(self, effect: ctl.MendLog) -> None: ...

    def damaged(self) -> tuple[ctl.LogInfo, ...]:
        """Return the logs in which damage was found since the last call."""
        ...

    def found(self) -> tuple[ctl.LogInfo, ...]: ...
