"""What the hosts of a new job state about where their data is kept, and which master satisfies most of it.

Owns the rule that a new job's text amounts to, as a function of the list of agents. Asks the agents for it
when a client submits a job; where the job lives is decided by `control.requests.placement`.

A rule only ranks the two candidate placements. Which data leaves a host is checked at that host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from elfmesh import ids
from elfmesh.control.answers import OK
from elfmesh.control.jobs.manifest import CREATOR
from elfmesh.control.jobs.plan import JobPlan, read_job
from elfmesh.errors import DataError, QueryError, Unreachable
from elfmesh.machine import Contact
from elfmesh.srt.residency import ANYWHERE, Rule, admitted, allows, together

if TYPE_CHECKING:
    from elfmesh.api.web.whole_rows import Asker

Row = Mapping[str, Any]
NAMES_TRIED = range(2, 10)
"""Numbers that are appended to the name of a job, to find one whose master satisfies all rules."""

NOT_PLACED = ("dry_run", "job", "canary", "leased")
"""Fields of requests that begin no lasting job; a leased one should not wait for all agents."""


def rule_of(row: Row) -> Rule:
    """Return the rule of an agent, from its row in `elf get agents`."""
    clause = (row.get("authority") or {}).get("keep_in") or ()
    return (tuple(map(str, clause)),) if clause else ANYWHERE


def members_rule(agents: Iterable[Row], plan: JobPlan) -> Rule:
    """Return the rules of all agents that would be members of a job, as one rule."""
    alive = (row for row in agents if row.get("status") == "alive")
    return together(rule_of(row) for row in alive if plan.read_at(row["streams"], row["labels"]))


def masters(agents: Iterable[Contact], qualified: str, rule: Rule) -> list[tuple[Contact, bytes]]:
    """Return which agents may lead a new job, and under which id: of two, the one with fewer jobs leads it.

    Args:
        agents: those that are alive; one at least.
        qualified: name of the job.
        rule: of its members.
    """
    alive = list(agents)
    places = ids.job_placements(qualified, CREATOR)
    found = [(min(alive, key=lambda each: ids.distance(each.id, place)), place) for place in places]
    most = max(admitted(rule, each) for each, _ in found)
    return [(each, place) for each, place in found if admitted(rule, each) == most]


def better_name(agents: Iterable[Contact], qualified: str, rule: Rule) -> str:
    """Return another name under which all rules admit the master; "" if there is none among those tried."""
    alive = list(agents)
    names = (f"{qualified}{number}" for number in NAMES_TRIED)
    return next((each for each in names if allows(rule, masters(alive, each, rule)[0][0])), "")


async def rule_for(ask: Asker, body: dict[str, Any]) -> Rule:
    """Return the rule of the hosts that would be members of a submitted job; ANYWHERE if none is known.

    Costs a request to all agents. A text that cannot be read has no members, and `apply` states why.
    """
    if any(body.get(each) for each in NOT_PLACED) or not isinstance(text := body.get("text"), str):
        return ANYWHERE
    try:
        _, plan = await asyncio.to_thread(read_job, text)
        reply = await ask("agents", {})
    except (DataError, QueryError, Unreachable):
        return ANYWHERE
    return members_rule(reply.body.get("agents", ()), plan) if reply.status == OK else ANYWHERE
