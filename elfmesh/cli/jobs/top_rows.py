"""Computes the rows of `elf top` from two samples of all agents and jobs, without a terminal.

Invariant: a value is None, never 0, if it cannot be known, because there is one sample only or the agent was
restarted in between.
"""

from __future__ import annotations

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
JOB_SORTS = {"c": "cpu_percent", "h": "held_for_seconds", "p": "completeness", "a": "agents", "n": "job"}
"""Sort column of each key. Names and completeness are sorted in ascending order, so that the worst row is
first."""

ASCENDING = ("agent", "job", "completeness")

CUT = ("job", "missing", "master", "worst_job", "security")
"""Columns that are shortened if the screen is too narrow."""

CUT_TO = 9
"""Minimum width of these columns. If this is not enough, the last columns are left out."""

GAP = 2
"""Number of blanks between two columns."""


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


def fitted(widths: Mapping[str, int], keep: Sequence[str], width: int) -> dict[str, int]:
    """Return the width of each column on a screen, without the columns that do not fit.

    Args:
        widths: desired width of each column including its heading; 0 if no row has a value.
        keep: columns that are never left out.
        width: width of the screen.
    """
    found = {column: wanted for column, wanted in widths.items() if wanted or column in keep}
    while (over := sum(found.values()) + GAP * (len(found) - 1) - width) > 0:
        widest = max((column for column in found if column in CUT), key=found.__getitem__, default="")
        spare = found.get(widest, 0) - CUT_TO
        others = [column for column in found if column not in keep]
        if spare > 0:
            found[widest] -= 1
        elif others:
            del found[others[-1]]
        else:
            last = max(found, key=found.__getitem__)
            if found[last] == 1:
                break
            found[last] = max(1, found[last] - over)
    return found
