"""Processor time of one agent: delays of reading, and the watchdog's timer.

Owns clocks and the timer; `allowance` has the arithmetic and `watchdog` the decision. Only reading waits.
Requests of peers and users run on the event loop, which is never delayed; their cost reduces what reading
gets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from elfmesh.ingest.budget.allowance import Allowance, ProcessAllowance
from elfmesh.ingest.budget.costs import JobCost
from elfmesh.ingest.budget.watchdog import Cost, ThrottleOrder, Watchdog

log = logging.getLogger("elf.agent")
WATCH_S = 1.0


class HostBudget:
    """Processor time of one agent.

    Args:
        cores: limit of the agent; None: no limit.
        job_share: share of the limit, or of one core, for the most expensive job under overload, and for all
            jobs together that are read apart.
        clock: monotonic seconds.
        used_s: processor seconds of the process.

    Attributes:
        waited_s: seconds that a stream has waited for the agent's allowance.
    """

    def __init__(
        self,
        cores: float | None,
        job_share: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        used_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._cores, self._share, self._clock, self._used_s = cores, job_share, clock, used_s
        self._allowance = None if cores is None else ProcessAllowance(cores, clock, used_s)
        self._watchdog = None if cores is None else Watchdog(cores, job_share)
        self._apart = Allowance((cores or 1.0) * job_share, clock)
        self._waiting: dict[str, float] = {}  # stream -> start of its wait
        self._waited: dict[str, float] = {}  # stream -> seconds waited since the last observation
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = clock()
        self._slowed: dict[str, tuple[str, str]] = {}
        self.waited_s = 0.0

    def delay_s(self, stream: str) -> float:
        """Return how long a stream's next poll must wait. Called repeatedly while it waits."""
        if self._allowance is None:
            return 0.0
        delay_s, now = self._allowance.delay_s, self._clock()
        since = self._waiting.pop(stream, None)
        if since is not None:
            self._waited[stream] = self._waited.get(stream, 0.0) + now - since
        if delay_s > 0:
            self._waiting[stream] = now
        return delay_s

    @property
    def of_apart(self) -> Allowance:
        """Return the common allowance of all jobs that are read apart and are not slowed individually."""
        return self._apart

    def watch(self, costs: Callable[[], Mapping[str, Cost]], obey: Callable[[ThrottleOrder], None]) -> None:
        """Observe the cost of jobs once a second, until `close`. Does nothing without a limit."""
        if self._watchdog is not None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._look, costs, obey)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, costs: Callable[[], Mapping[str, Cost]], obey: Callable[[ThrottleOrder], None]) -> None:
        assert self._watchdog is not None
        now = self._clock()
        for stream, since in self._waiting.items():
            self._waited[stream] = self._waited.get(stream, 0.0) + now - since
            self._waiting[stream] = now
        waited_s = max(self._waited.values(), default=0.0)
        self.waited_s += waited_s
        seconds, self._looked_at = max(now - self._looked_at, 1e-3), now
        self._waited.clear()
        found = costs()
        self._slowed = {job: reported for job, reported in self._slowed.items() if job in found}
        verdict = self._watchdog.observe(min(1.0, waited_s / seconds), found)
        if verdict is not None:
            obey(verdict)
        self.watch(costs, obey)

    @property
    def slowed(self) -> dict[str, str]:
        return dict(self._slowed.values())

    def carry_out(self, verdict: ThrottleOrder, cost: JobCost, job: str) -> None:
        if verdict.cores is None:
            cost.allowance, cost.slowed = None, ""
            self._slowed.pop(verdict.job, None)
            log.info("job %s is not slowed down any more: there is room", job)
            return
        cost.allowance = Allowance(verdict.cores, self._clock)
        what = "records beyond that are shed" if cost.sheds else "it waits"
        cost.slowed = (
            f"slowed down since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}: the agent is at its limit, this job"
            f" took {verdict.used_cores * 100:.3g} % of a core and gets {verdict.cores * 100:.3g} %; {what}"
        )
        self._slowed[verdict.job] = (job, cost.slowed)
        log.warning("job %s is %s", job, cost.slowed)

    def describe(self) -> dict[str, Any]:
        return {
            "cpu_seconds": round(self._used_s(), 3),
            "limit_cores": self._cores,
            "waited_seconds": round(self.waited_s, 3),
            "slowed": self.slowed,
        }
