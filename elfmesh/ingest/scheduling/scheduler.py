"""Scheduler of the jobs of one agent, by processor time: turns of the loops, and limits of jobs.

Owns the accounts: the agent's own limit, the common one of all jobs that are read apart, and one for each job
that is limited while others lack time. `round_robin` decides which loop reads next and how much, `shares`
which jobs are limited. Only reading waits. Requests of peers and users run on the event loop, which is never
delayed; their cost reduces what reading gets. Has no timer: `job_isolation` calls `observe`, and moves jobs.

Paper: none. One bad job must not affect the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from elfmesh.ingest.budget.allowance import Allowance, ProcessAllowance
from elfmesh.ingest.budget.costs import JobCost
from elfmesh.ingest.scheduling.round_robin import LoopAccount
from elfmesh.ingest.scheduling.shares import Limit, Shares, Use

log = logging.getLogger("elf.agent")


class Scheduler:
    """Scheduler of one agent.

    Args:
        cores: limit of the agent; None: no limit.
        job_share: share of the limit, or of one core, for a job while others lack time, and for all jobs
            together that are read apart; None: no limit.
        clock: monotonic seconds.
        used_s: processor seconds of the process.

    Attributes:
        apart: common account of all jobs that are read apart and are not limited individually.
        waited_s: seconds that a stream has waited for the agent's limit.
    """

    def __init__(
        self,
        cores: float | None = None,
        job_share: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        used_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._cores, self._clock, self._used_s = cores, clock, used_s
        self._agent = None if cores is None else ProcessAllowance(cores, clock, used_s)
        self._loops: list[LoopAccount] = []
        self.apart = None if job_share is None else Allowance((cores or 1.0) * job_share, clock)
        self._shares = None if cores is None else Shares(cores, job_share or 1.0)
        self._observed_s: float | None = None
        self._slowed: dict[str, tuple[str, str]] = {}
        self.waited_s = 0.0

    def open(self, bytes_most: int, *, apart: bool = False) -> LoopAccount:
        """Return the account of a new loop, until `close`; see `LoopAccount`."""
        self._loops.append(LoopAccount(self._loops, self._agent, bytes_most, apart))
        return self._loops[-1]

    def close(self, account: LoopAccount) -> None:
        if account in self._loops:
            self._loops.remove(account)

    @property
    def has_limit(self) -> bool:
        return self._cores is not None

    @property
    def reader_cores(self) -> float:
        """Return what one reader may use of a processor while the others use little."""
        return min(self._cores or 1.0, 1.0)

    def observe(self, now_s: float, jobs: Mapping[str, Use]) -> list[Limit]:
        """Process the use of all jobs here, about once a second. Returns the limits in force or at their end.

        Args:
            now_s: the clock of the loops.
            jobs: use by all jobs here.
        """
        if self._shares is None:
            return []
        waited_s = max((each.take_waited_s(now_s) for each in self._loops), default=0.0)
        self.waited_s += waited_s
        seconds = 1.0 if self._observed_s is None else max(now_s - self._observed_s, 1e-3)
        self._observed_s = now_s
        self._slowed = {job: reported for job, reported in self._slowed.items() if job in jobs}
        return self._shares.observe(min(1.0, waited_s / seconds), self._used_s(), jobs)

    def hold(self, limit: Limit, cost: JobCost, job: str, *, is_apart: bool) -> None:
        """Hold a job to its limit, or release it."""
        if limit.cores is None:
            cost.allowance, cost.slowed = self.apart if is_apart else None, ""
            self._slowed.pop(limit.job, None)
            log.info("job %s is not slowed down any more: there is room", job)
            return
        if cost.slowed and cost.allowance is not None:
            cost.allowance.cores = limit.cores
            return
        cost.allowance = Allowance(limit.cores, self._clock)
        what = "records beyond that are shed" if cost.sheds else "it waits"
        cost.slowed = (
            f"slowed down since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}: the agent is at its limit, this job"
            f" took {limit.used_cores * 100:.3g} % of a core and gets {limit.cores * 100:.3g} %; {what}"
        )
        self._slowed[limit.job] = (job, cost.slowed)
        log.warning("job %s is %s", job, cost.slowed)

    @property
    def slowed(self) -> dict[str, str]:
        return dict(self._slowed.values())

    def describe(self) -> dict[str, Any]:
        return {
            "cpu_seconds": round(self._used_s(), 3),
            "limit_cores": self._cores,
            "waited_seconds": round(self.waited_s, 3),
            "slowed": self.slowed,
        }
