"""Computes the rows and histories of `elf top` from samples of all agents and jobs, without a terminal.

Invariant: a value is None, never 0, if it cannot be known, because there is one sample only or the agent was
restarted in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elfmesh.control.jobs.load import security_of

AGENT_COLUMNS = (
    "agent", "status", "cpu_percent", "limit_percent", "rss_mb", "lines_per_second", "behind_seconds",
    "skew_seconds", "jobs", "slowed", "worst_job", "worst_percent",
    "last_seen", "security",
)  # fmt: skip
JOB_COLUMNS = (
    "job", "state", "agents", "latest", "result", "completeness", "held_for_seconds", "missing",
    "cpu_percent", "master",
)  # fmt: skip
AGENT_SORTS = {
    "c": "cpu_percent",
    "m": "rss_mb",
    "l": "lines_per_second",
    "b": "behind_seconds",
    "n": "agent",
}
JOB_SORTS = {"c": "cpu_percent", "h": "held_for_seconds", "p": "completeness", "n": "job"}
"""Sort column of each key. Names and completeness are sorted in ascending order, so that the worst row is
first."""

ASCENDING = ("agent", "job", "completeness")

AGENTS, JOBS = "agents", "jobs"
COLUMNS = {AGENTS: AGENT_COLUMNS, JOBS: JOB_COLUMNS}
"""Columns of each view; the first one has the name."""

SORTS = {AGENTS: AGENT_SORTS, JOBS: JOB_SORTS}
SAMPLES_MAX = 240
"""Maximum number of samples in a history: eight minutes of samples two seconds apart."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """A sample: the rows of `get agents` and of `get jobs`."""

    agents: Sequence[Mapping[str, Any]]
    jobs: Sequence[Mapping[str, Any]]


def agent_rows(before: FleetView | None, now: FleetView) -> list[dict[str, Any]]:
    """Return one row per agent. Cost: one pass over the agents."""
    earlier = {row.get("id"): row for row in before.agents} if before else {}
    return [_agent(earlier.get(row.get("id")), row) for row in now.agents]


def _agent(before: Mapping[str, Any] | None, row: Mapping[str, Any]) -> dict[str, Any]:
    load: Mapping[str, Any] = row.get("load") or {}
    then: Mapping[str, Any] = (before or {}).get("load") or {}
    if (before or {}).get("incarnation") != row.get("incarnation"):
        then = {}
    rate = _rates(then, load)
    used = {job: rate(_of_job(job)) for job in load.get("worst") or {}}
    known = {job: cores for job, cores in used.items() if cores is not None}
    worst = max(known, key=lambda job: (known[job], job), default=None)
    cores, limit, rss = (
        rate(lambda each: each.get("cpu_seconds")),
        load.get("limit_cores"),
        load.get("rss_bytes"),
    )
    return {
        "agent": row.get("name"),
        "status": row.get("status"),
        "cpu_percent": _percent(cores),
        "limit_percent": _percent(limit),
        "rss_mb": None if rss is None else round(rss / 1e6, 1),
        "lines_per_second": _rounded(rate(lambda each: each.get("lines"))),
        "behind_seconds": load.get("behind_seconds"),
        "skew_seconds": row.get("skew_seconds"),
        "jobs": load.get("jobs"),
        "slowed": load.get("slowed") or [],
        "worst_job": worst,
        "worst_percent": _percent(known[worst]) if worst is not None else None,
        "last_seen": row.get("last_seen"),
        "security": security_of(row) or None,
    }


def _of_job(job: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda each: (each.get("worst") or {}).get(job)


def _rates(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> Callable[[Callable[[Mapping[str, Any]], float | None]], float | None]:
    seconds = (now.get("clock_seconds") or 0.0) - (before.get("clock_seconds") or 0.0) if before else 0.0

    def rate(of: Callable[[Mapping[str, Any]], float | None]) -> float | None:
        first, last = of(before), of(now)
        if seconds <= 0 or first is None or last is None or last < first:
            return None
        return (last - first) / seconds

    return rate


def job_rows(before: FleetView | None, now: FleetView) -> list[dict[str, Any]]:
    """Return one row per job. Its processor time is that of agents where it is among the costliest."""
    spent: dict[str, float] = {}
    earlier = {row.get("id"): row for row in before.agents} if before else {}
    for row in now.agents:
        then = earlier.get(row.get("id")) or {}
        load, past = row.get("load") or {}, then.get("load") or {}
        rate = _rates(past if then.get("incarnation") == row.get("incarnation") else {}, load)
        for job in load.get("worst") or {}:
            cores = rate(_of_job(job))
            if cores is not None:
                spent[job] = spent.get(job, 0.0) + cores
    return [
        {
            **{key: row.get(key) for key in JOB_COLUMNS},
            "cpu_percent": _percent(spent.get(str(row.get("job")))),
        }
        for row in now.jobs
    ]


def ordered(rows: Sequence[dict[str, Any]], column: str, name: str) -> list[dict[str, Any]]:
    """Sort rows by a column, the worst first and unknown values last, then by name."""
    sign = 1 if column in ASCENDING else -1

    def key(row: dict[str, Any]) -> tuple[bool, Any, str]:
        value = row.get(column)
        if isinstance(value, int | float):
            return False, sign * value, str(row.get(name))
        return value is None, 0, str(row.get(name))

    return sorted(rows, key=key)


def _percent(cores: float | None) -> float | None:
    return None if cores is None else round(100 * cores, 2)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def rows_of(view: str, before: FleetView | None, now: FleetView) -> list[dict[str, Any]]:
    """Return the rows of a view."""
    return job_rows(before, now) if view == JOBS else agent_rows(before, now)


def parts_of(view: str, name: str, before: FleetView | None, now: FleetView) -> list[dict[str, Any]]:
    """Return what an agent or a job consists of: its costliest jobs, or the agents that spend most on it."""
    earlier = {row.get("id"): row for row in before.agents} if before else {}
    found = []
    for row in now.agents:
        if view == AGENTS and row.get("name") != name:
            continue
        load: Mapping[str, Any] = row.get("load") or {}
        then = earlier.get(row.get("id")) or {}
        same = then.get("incarnation") == row.get("incarnation")
        rate = _rates((then.get("load") or {}) if same else {}, load)
        for job in load.get("worst") or {}:
            if view == AGENTS or job == name:
                cores = rate(_of_job(job))
                part = {"job": job} if view == AGENTS else {"agent": row.get("name")}
                found.append({**part, "cpu_percent": _percent(cores)})
    return ordered(found, "cpu_percent", "job" if view == AGENTS else "agent")


class LoadHistory:
    """The last samples of each agent and job, for the lines of their screens, without unknown values."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str, str], deque[float]] = {}

    def add(self, before: FleetView | None, now: FleetView) -> None:
        """Add a sample. An agent or job that is no longer listed has no history."""
        kept: dict[tuple[str, str, str], deque[float]] = {}
        for view, columns in HISTORIES.items():
            for row in rows_of(view, before, now):
                for column in columns:
                    key = view, str(row.get(COLUMNS[view][0])), column
                    kept[key] = self._samples.get(key) or deque(maxlen=SAMPLES_MAX)
                    if isinstance(value := row.get(column), int | float):
                        kept[key].append(value)
        self._samples = kept

    def of(self, view: str, name: str, column: str) -> list[float]:
        """Return the known values of a column, oldest first."""
        return list(self._samples.get((view, name, column), ()))


HISTORIES = {
    AGENTS: ("cpu_percent", "lines_per_second", "behind_seconds"),
    JOBS: ("cpu_percent", "completeness", "held_for_seconds"),
}
"""Columns with a history, by view."""
