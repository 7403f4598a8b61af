"""Load of an agent: the numbers in its row of a list of all agents.

A list of 200 agents with 500 jobs each must stay small. It has sums, and only the jobs with the highest cost.

Paper: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

OPEN = "INSECURE"
INSECURE = f"{OPEN} NETWORK: any peer that reaches this agent is trusted"
"""Report of an agent that was started with --dangerously-insecure-network."""

SKEW_S = 1.0
"""A clock that differs more than this from those of the other agents is a problem."""

EXPIRY_DAYS = 14
"""A certificate that expires within so many days is a problem."""

WORST = 5
"""Number of jobs with their cost in an agent's row."""


def is_insecure(agent: Mapping[str, Any]) -> bool:
    """Return whether an agent, or its row in a list, reports that its network has no authentication."""
    return security_of(agent) == OPEN


def security_of(agent: Mapping[str, Any]) -> str:
    """Return the network security that an agent reports; "" if it reports none."""
    reported = agent.get("security")
    mode = str(reported.get("mode", "")) if isinstance(reported, Mapping) else ""
    return OPEN if mode.startswith(OPEN) else mode


def seconds_at(reported: object) -> float | None:
    """Return the Unix time of an ISO time that an agent reports, UTC by default; None if it is no time."""
    try:
        at = datetime.fromisoformat(reported) if isinstance(reported, str) else None
    except ValueError:
        return None
    return None if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def days_left(security: Mapping[str, Any], now_s: float) -> float | None:
    """Return the days until the certificate of an agent expires; None if it has none, or reports no time."""
    end_s = seconds_at(security.get("expires"))
    return None if end_s is None else (end_s - now_s) / 86_400


def warnings_of(agent: Mapping[str, Any], now_s: float) -> Iterator[str]:
    """Yield what is wrong with the clock and the certificate of an agent, from its report or its row."""
    skew = agent.get("skew_seconds")
    if skew is not None and abs(skew) > SKEW_S:
        yield f"its clock differs by {skew:+.1f} s from those of the other agents"
    security: Mapping[str, Any] = agent.get("security") or {}
    if security.get("problem"):
        yield str(security["problem"])
    expires, days = security.get("expires"), days_left(security, now_s)
    if expires and days is None:
        yield f"its certificate ends at {expires!r}, which is no time"
    if days is not None and days < EXPIRY_DAYS:
        yield f"its certificate expires in {int(days)} days" if days >= 0 else "its certificate has expired"


def insecurity(agents: Iterable[Mapping[str, Any]]) -> str:
    names = sorted(str(each.get("name")) for each in agents if is_insecure(each))
    if not names:
        return ""
    shown = ", ".join(names[:WORST]) + (f" and {len(names) - WORST} more" if len(names) > WORST else "")
    return f"{OPEN} NETWORK: any peer that reaches these agents is trusted: {shown}"


def load_of(agent: Mapping[str, Any], wall_s: float, rss: int | None) -> dict[str, Any]:
    """Return the load of an agent from its own report (`/v1/agent`).

    The counters run since the agent's start, and `clock_seconds` is its clock, so that a client computes
    rates from two requests. `behind_seconds` is the delay of the slowest job, for live logs.
    """
    jobs: Mapping[str, Mapping[str, Any]] = agent["job_costs"]
    watermarks = [each["watermark_seconds"] for each in jobs.values() if each.get("watermark_seconds")]
    crowding = [job for job, each in jobs.items() if each.get("crowds")]
    worst = sorted(jobs, key=lambda job: (-jobs[job]["cpu_seconds"], job))[:WORST]
    return {
        "clock_seconds": round(wall_s, 3),
        "cpu_seconds": agent["processor"].get("cpu_seconds"),
        "limit_cores": agent["processor"].get("limit_cores"),
        "rss_bytes": rss,
        "lines": sum(source["lines"] for source in agent["sources"].values()),
        "behind_seconds": round(max(0.0, wall_s - min(watermarks)), 3) if watermarks else None,
        "jobs": len(jobs),
        "slowed": sorted({*agent["processor"].get("slowed", ()), *crowding}),
        "worst": {job: jobs[job]["cpu_seconds"] for job in worst},
    }
