"""The sinks of one agent: a follower for each sink and each job that matches its patterns.

Only the agent's own configuration defines sinks. A sink that fails delays no job and no other sink, and does
not stop the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from elfmesh.agent.sinks.base import LogName, Sink, SinkItem
from elfmesh.agent.sinks.config import KafkaSink, PrometheusSink, SinkConfig, WebhookSink, sends_alerts
from elfmesh.agent.sinks.dead_letters import SinkDeadLetters
from elfmesh.agent.sinks.follow import Follower
from elfmesh.agent.sinks.metrics import Exposition
from elfmesh.agent.sinks.open import open_sink
from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import OK
from elfmesh.errors import Unreachable
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.storage.storage import DiskStorage

if TYPE_CHECKING:
    from elfmesh.agent.sinks.alerts import AlertSink

log = logging.getLogger("elf.sinks")
LOOK_S = 3.0
"""How often the list of jobs is requested from the overlay."""

JOBS_MAX = 256
"""Maximum number of followed jobs of all sinks together, because each one is a waiting request. Further jobs
are left out and reported by their sink."""


class _Running:
    """A sink with its followers."""

    def __init__(self, name: str, config: SinkConfig, sink: Sink, letters: SinkDeadLetters) -> None:
        self.name, self.config, self.sink, self.letters = name, config, sink, letters
        self.followers: dict[tuple[str, str], tuple[Follower, asyncio.Task[None]]] = {}
        self.left_out = 0

    def wants(self, job: str) -> bool:
        patterns = (pattern.replace(".", "/", 1) for pattern in self.config.jobs)
        return any(pattern == "*" or fnmatchcase(job, pattern) for pattern in patterns)


class Sinks:
    """All sinks of one agent. `may_carry` returns whether a sink may copy the results of a job."""

    def __init__(
        self,
        configs: Mapping[str, SinkConfig],
        directory: Path,
        may_carry: Callable[[str, str], bool] = lambda _sink, _job: True,
    ) -> None:
        self._may_carry = may_carry
        self._lookup_task: asyncio.Task[None] | None = None
        self._sinks: list[_Running] = []
        self._storage: DiskStorage | None = None
        if not configs:
            return
        self._disk = WorkerThread("disk")
        self._storage = storage = DiskStorage(directory)
        for name, config in configs.items():
            sink = open_sink(name, config, storage)
            self._sinks.append(_Running(name, config, sink, SinkDeadLetters(storage, name)))

    @property
    def metrics(self) -> Callable[[], bytes] | None:
        shown = [each.sink for each in self._sinks if isinstance(each.config, PrometheusSink)]
        if not shown:
            return None
        return Exposition(shown, self.describe).text

    def start(self, ask: Asker) -> None:
        if self._sinks:
            self._ask = ask
            self._lookup_task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Stop all sinks. The rest is written after a restart. May be called repeatedly."""
        tasks = [task for each in self._sinks for _, task in each.followers.values()]
        tasks += [] if self._lookup_task is None else [self._lookup_task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._sinks:
            await each.sink.close()
        self._sinks.clear()
        if self._storage is not None:
            self._disk.close()
            self._storage.close()
            self._storage = None

    def describe(self) -> dict[str, Any]:
        """Describe all sinks. Thread-safe, because `/metrics` is written outside the event loop."""
        return {
            each.name: {
                "type": str(each.config.__struct_config__.tag),
                **each.sink.describe(),
                "letters": each.letters.describe(),
                "jobs_left_out": each.left_out,
                "jobs": {
                    job: asdict(follower.progress)
                    for (job, _), (follower, _) in tuple(each.followers.items())
                },
            }
            for each in tuple(self._sinks)
        }

    def problems(self) -> dict[str, str]:
        return {
            f"{each.name}: {job}": follower.progress.problem
            for each in self._sinks
            for (job, _), (follower, _) in each.followers.items()
            if follower.progress.problem
        }

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(Unreachable):
                reply = await self._ask("list", {})
                if reply.status == OK:
                    # no follower of a leased job, because its requests would keep the job alive
                    jobs = [row for row in reply.body["jobs"] if not row.get("leased")]
                    self._found([(str(row["job"]), str(row["creator"])) for row in jobs])
            await asyncio.sleep(LOOK_S)

    def _found(self, jobs: list[tuple[str, str]]) -> None:
        for each in self._sinks:
            each.followers = {
                job: follower for job, follower in each.followers.items() if not follower[1].done()
            }
            new = [job for job in jobs if self._carries(each, job[0]) and job not in each.followers]
            room = max(0, JOBS_MAX - sum(len(other.followers) for other in self._sinks))
            each.left_out = max(0, len(new) - room)
            for job in new[:room]:
                self._follow(each, job)

    def _carries(self, each: _Running, job: str) -> bool:
        return each.wants(job) and self._may_carry(each.name, job)

    def _follow(self, each: _Running, job: tuple[str, str]) -> None:
        name, creator = job
        keep = partial(self._keep, each.letters)
        alerts = sends_alerts(each.config)
        shown = alerts or isinstance(each.config, PrometheusSink)
        state: str = getattr(each.config, "state", "final")
        if isinstance(each.config, WebhookSink | KafkaSink) and each.config.early:
            state = "early"
        body = {"job": name, "creator": creator}
        if alerts:
            cast("AlertSink", each.sink).reads(self._ask, body)
        follower = Follower(each.sink, each.name, body, state, self._ask, keep, newest=shown, resumes=alerts)
        task = asyncio.get_running_loop().create_task(follower.run())
        each.followers[job] = follower, task

    async def _keep(self, letters: SinkDeadLetters, source: LogName, item: SinkItem, reason: str) -> None:
        await self._disk.run(partial(letters.keep, source, item, reason))
