"""Loads the engine (Arrow, numpy, SQL and the modules that need them) behind the ready line of an agent.

Loading takes a good part of a second of processor time. `load` runs in a thread, so that the agent answers
its peers meanwhile (`late_control` keeps what may need the engine). An agent with stored jobs loads the
engine before it starts them.

The module owns the objects that create parts of the engine with the first job: `LateWorkers` and
`LateCompute`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.host import Executor
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.plugins import refused
from elfmesh.storage.failpoints import reach
from elfmesh.storage.framelog import FrameLog

if TYPE_CHECKING:
    from elfmesh.cbt import Content
    from elfmesh.control.jobs.row_pages import RowLimits
    from elfmesh.ingest.budget.read_rates import ReadRate
    from elfmesh.ingest.compute import PartialCompute
    from elfmesh.ingest.read_loop import Ingest
    from elfmesh.ingest.sources.position import FilePosition
    from elfmesh.ingest.workers import WorkerHost

log = logging.getLogger("elf.plugins")
NEEDED = (
    "pyarrow.compute",
    "elfmesh.ql.engine.changes",
    "elfmesh.ql.engine.group_steps",
    "elfmesh.ql.engine.whole",
    "elfmesh.control.jobs.spark_types",
    "elfmesh.ingest.authority.redact",
    "elfmesh.ingest.compute",
    "elfmesh.ingest.stream_formats",
    "elfmesh.ingest.worker.describing",
    "elfmesh.ingest.workers",
)
"""Modules that a job needs."""


def load() -> None:
    """Load the engine, or wait for a thread that is loading it. Cost: most of a second at the first call."""
    for name in NEEDED:
        if name not in sys.modules:
            reach("load", name)
        importlib.import_module(name)
    _report()


@cache
def _report() -> None:
    from elfmesh.agent.runtime.native import fallback_reasons

    for each in refused():
        log.warning("%s", each)
    for reason in fallback_reasons():
        logging.getLogger("elf.agent").warning("%s", reason)


class LateCompute:
    """`Compute` of the pump. Each call runs in a thread, because it may load the engine."""

    def __init__(self, rows: RowLimits | None = None) -> None:
        self._rows = rows
        self._made: PartialCompute | None = None

    def encode(self, tables: Mapping[str, Content], partitions: int) -> list[bytes]:
        return self._compute.encode(tables, partitions)

    def merge(self, parts: tuple[bytes, ...]) -> bytes:
        return self._compute.merge(parts)

    def finalise(self, effect: ctl.Finalise) -> bytes:
        """Return all rows of an interval, whatever their size."""
        return self._compute.finalise(effect)

    def finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
        return self._compute.finalised(effect)

    def merged_early(self, effect: ctl.MergeEarly) -> ctl.EarlyMerged:
        return self._compute.merged_early(effect)

    @property
    def _compute(self) -> PartialCompute:
        if self._made is None:
            from elfmesh.ingest.compute import PartialCompute

            self._made = PartialCompute(self._rows)
        return self._made


class LateWorkers:
    """`Workers` of the pump: a `WorkerHost` from the first job on; before that, the answers of an idle host.

    Args:
        make: creates the host with this `held_bytes_max`; called on the event loop after the engine is
            loaded.
        held_bytes_max: initial limit.
        streams: streams of this agent.
        frames, executor: closed by this object if the host was never created.
    """

    def __init__(
        self,
        make: Callable[[int], WorkerHost],
        held_bytes_max: int,
        streams: Mapping[str, StreamConfig],
        frames: FrameLog,
        executor: Executor,
    ) -> None:
        self._make, self._streams, self._frames, self._executor = make, streams, frames, executor
        self._host: WorkerHost | None = None
        self._held_bytes_max = held_bytes_max

    def start_job(self, effect: ctl.StartWorker) -> None:
        self._made.start_job(effect)

    def stop_job(self, effect: ctl.StopWorker) -> None:
        self._made.stop_job(effect)

    def pause_job(self, job: bytes) -> None:
        """Stop reading for a job. Without a host there is no job."""
        if self._host is not None:
            self._host.pause_job(job)

    def resume_job(self, job: bytes) -> None:
        if self._host is not None:
            self._host.resume_job(job)

    def share_early(self, job: bytes, members: int) -> None:
        self._made.share_early(job, members)

    def read_posts(self, effect: ctl.ReadPosts) -> None:
        self._made.read_posts(effect)

    def stop_posts(self, job: bytes) -> None:
        if self._host is not None:
            self._host.stop_posts(job)

    def post_positions(self) -> list[tuple[FilePosition, ...]]:
        """Return the positions before which no ordered topic needs posts."""
        return [] if self._host is None else self._host.post_positions()

    def cut_panes(self, order: ctl.CutPanes) -> None:
        self._made.cut_panes(order)

    def end_log(self, order: ctl.EndLog) -> None:
        self._made.end_log(order)

    def release(self, job: bytes, stop: int, received: int) -> None:
        if self._host is not None:
            self._host.release(job, stop, received)

    def lacks(self, problem: str) -> None:
        if self._host is not None:
            self._host.lacks(problem)

    async def close(self) -> None:
        """Stop reading without sealing intervals early, and flush the frame log."""
        if self._host is not None:
            await self._host.close()
        else:
            await self._executor.run("store", self._frames.close)

    def kill(self) -> None:
        if self._host is not None:
            self._host.kill()

    @property
    def held_bytes_max(self) -> int:
        return self._held_bytes_max

    @held_bytes_max.setter
    def held_bytes_max(self, limit: int) -> None:
        self._held_bytes_max = limit
        if self._host is not None:
            self._host.held_bytes_max = limit

    @property
    def ingests(self) -> Mapping[str, Ingest]:
        return {} if self._host is None else self._host.ingests

    @property
    def problem(self) -> str:
        """Why reading waits for the disk; "" if it does not wait."""
        return "" if self._host is None else self._host.problem

    @property
    def rates(self) -> Mapping[str, ReadRate]:
        return {} if self._host is None else self._host.rates

    def describe(self) -> dict[str, object]:
        if self._host is not None:
            return self._host.describe()
        return {name: _unread(config) for name, config in self._streams.items()}

    def describe_jobs(self) -> dict[str, dict[str, object]]:
        return {} if self._host is None else self._host.describe_jobs()

    @property
    def _made(self) -> WorkerHost:
        if self._host is None:
            # raises without a running event loop, because tasks read the streams
            asyncio.get_running_loop()
            self._host = self._make(self._held_bytes_max)
        return self._host


def _unread(config: StreamConfig) -> dict[str, Any]:
    reported = {"path": config.path, "format": config.format, "lines": 0, "bytes": 0, "polls": 0}
    return {**reported, "jobs": [], "problems": {}}
