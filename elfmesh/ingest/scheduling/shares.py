"""Shares of the jobs of an agent that has less processor time than its jobs need.

Once a second the agent notes how long reading waited for its processor time and what each job used. If
reading waits repeatedly, a job gets at most an equal share of the time, and what a job does not use goes to
the others (max-min fairness, which is what deficit round robin converges to). Owns the decision, and holds no
job to it.

Invariants: a limit begins only if reading waited during the last `WINDOW` seconds. In streams that lose
nothing (`on_overload = "wait"`), only a job that uses more than `share` of the time of all jobs is limited,
because equal delays would help no job. A limit rises as soon as the others leave time, so it may stay until
the job has needed less for `CALM` decisions.

Paper: none. Shedding is by cost instead of random, because overload is usually caused by one bad job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WINDOW = 5
"""Observations per decision, one per second; most bursts are shorter."""

WAITED = 0.25
"""Share of time that reading waited above which the agent is overloaded."""

ROOM = 0.95
"""Part of the agent's time that is shared out; with all of it, reading would always wait a little."""

WAITED_MAX = 0.9
"""Share of time that reading waited above which the needs of jobs are unknown, because it works off a
backlog."""

SHORT = 0.8
"""Part of its limit from which a job is taken to need more than it."""

CALM = 12
"""Decisions, one per `WINDOW`, without need after which a limit ends."""

CORES_MIN = 0.001
"""Minimum limit; with less, a poll of the job would take minutes."""


@dataclass(frozen=True, slots=True)
class Use:
    """Use of an agent's processor by a job since its start.

    Attributes:
        cpu_s: processor seconds.
        sheds: the job's stream drops what there is no room for.
    """

    cpu_s: float
    sheds: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """New limit of a job in cores; None: no limit any more. `used_cores` is its use so far."""

    job: str
    cores: float | None
    used_cores: float = 0.0


class Shares:
    """Limits of jobs.

    Args:
        cores: the agent's processor time per second.
        share: part of it that a limited job gets at most.
    """

    def __init__(self, cores: float, share: float) -> None:
        self._cores, self._share = cores, share
        self._waited: list[float] = []
        self._first: tuple[float, dict[str, float]] = (0.0, {})  # of the process, and of each job
        self._limit = 0.0  # of every limited job
        self._calm: dict[str, int] = {}  # limited job -> decisions since it last needed more

    def observe(self, waited: float, used_s: float, jobs: Mapping[str, Use]) -> list[Limit]:
        """Process the observations of one second. Returns the limits in force, and those that end.

        Args:
            waited: part of the second in which reading waited for processor time.
            used_s: processor seconds of the process since its start.
            jobs: use by all jobs here.

        Cost: one pass over the jobs; every `WINDOW` seconds a sort.
        """
        cpu_s = {job: use.cpu_s for job, use in jobs.items()}
        if not self._waited:
            self._first = used_s, cpu_s
        self._waited.append(waited)
        if len(self._waited) < WINDOW:
            return []
        mean, self._waited = sum(self._waited) / WINDOW, []
        seconds, (began_s, before) = WINDOW - 1, self._first
        used = {job: max(0.0, cpu_s[job] - before.get(job, cpu_s[job])) / seconds for job in jobs}
        return self._decide(mean, (used_s - began_s) / seconds, used, jobs)

    def _decide(
        self, waited: float, cores: float, used: Mapping[str, float], jobs: Mapping[str, Use]
    ) -> list[Limit]:
        self._calm = {job: calm for job, calm in self._calm.items() if job in jobs}
        if waited <= WAITED and not self._calm:
            return []
        total = sum(used.values())
        needs = {job: self._need(job, each, waited) for job, each in used.items()}
        equal = level(needs.values(), self._cores * ROOM - max(0.0, cores - total))
        self._limit = min(max(equal, CORES_MIN), self._cores * self._share)
        least = total * (self._share if len(jobs) > 1 else 1.0)
        heavy = [job for job, use in jobs.items() if use.sheds or used[job] > least]
        free = [job for job in heavy if needs[job] > equal and job not in self._calm]
        if waited > WAITED and free:
            self._calm[min(free, key=lambda job: (-used[job], job))] = 0
        limits = []
        for job, calm in list(self._calm.items()):
            self._calm[job] = 0 if needs[job] > equal else calm + 1
            if self._calm[job] == CALM:
                del self._calm[job]
            limits.append(Limit(job, self._limit if job in self._calm else None, used[job]))
        return limits

    def _need(self, job: str, used: float, waited: float) -> float:
        """Return how many cores a job would use, as far as that is known."""
        if job in self._calm and used >= SHORT * self._limit:
            return float("inf")
        return used / max(1.0 - waited, 1.0 - WAITED_MAX)


def level(needs: Iterable[float], cores: float) -> float:
    """Return the limit under which all needs together take these cores; infinite if there is enough."""
    left, rest = cores, sorted(needs)
    for number, need in enumerate(rest):
        if need * (len(rest) - number) >= left:
            return max(left, 0.0) / (len(rest) - number)
        left -= need
    return float("inf")
