"""How loaded an agent is, in a few numbers: what its row in a list of all agents carries.

A list of 200 agents with 500 jobs each must stay small: sums, and the few jobs that cost most.

Paper: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

OPEN = "INSECURE"
INSECURE = f"{OPEN} NETWORK: any peer that reaches this agent is trusted"
"""How an agent says that it was started with --dangerously-insecure-network."""

WORST = 5
"""Jobs named with their cost in an agent's row."""


def is_insecure(agent: Mapping[str, Any]) -> bool:
    """Whether an agent, or its row in a list, says that its network is open to strangers."""
    return security_of(agent) == OPEN


def security_of(agent: Mapping[str, Any]) -> str:
    """How an agent keeps strangers out, in its own words; "" if it does not say."""
    reported = agent.get("security")
    mode = str(reported.get("mode", "")) if isinstance(reported, Mapping) else ""
    return OPEN if mode.startswith(OPEN) else mode


def insecurity(agents: Iterable[Mapping[str, Any]]) -> str:
    names = sorted(str(each.get("name")) for each in agents if is_insecure(each))
    if not names:
        return ""
    shown = ", ".join(names[:WORST]) + (f" and {len(names) - WORST} more" if len(names) > WORST else "")
    return f"{OPEN} NETWORK: any peer that reaches these agents is trusted: {shown}"


def load_of(agent: Mapping[str, Any], wall_s: float, rss: int | None) -> dict[str, Any]:
    """The load of an agent, of what it says of itself (`/v1/agent`).

    Counters since its start, so that a client that asks twice knows rates: `clock_seconds` is the agent's own
    clock for that. `behind_seconds`: by how much the job that is furthest behind is behind the clock, of live
    logs.
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
