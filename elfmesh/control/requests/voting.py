"""What people should know of an agent: how it is, its votes, and those on its jobs.

Reads leadership; changes nothing.
"""

from __future__ import annotations

from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.election.election import Attempt
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.register.lost_votes import voting_text
from elfmesh.control.register.proposer import MAJORITY_S


def without_majority(context: Context, leadership: Leadership) -> dict[bytes, Attempt]:
    """The jobs that this agent should lead and cannot: no majority of their voters answers."""
    found, roots = leadership.elections.without_majority(), context.roots
    return {job: each for job, each in found.items() if job in roots and job not in leadership.masters}


def voting(context: Context, leadership: Leadership) -> dict[str, Any]:
    """What is wrong with votes.

    Returns:
        lost: {start, file, reason, kept, jobs}: a loss of votes, and the jobs that still count on one of
            them; null if there was none.
        without_majority: jobs that this agent leads or should lead, and whose voters do not answer.
    """
    led = [each for each in leadership.masters.values() if each.term.committer.unanswered_s > MAJORITY_S]
    stuck = [each.term.manifest.qualified for each in led]
    stuck += [each.terms.manifest.qualified for each in without_majority(context, leadership).values()]
    lost = leadership.registers.acceptors.lost
    if lost.loss is None:
        return {"lost": None, "without_majority": stuck}
    jobs = [_name_of(leadership, job) for job in lost.asked(context.now)]
    loss = lost.loss
    reported = {"start": loss.boot, "file": loss.path, "reason": loss.reason, "kept": loss.kept}
    return {"lost": {**reported, "jobs": jobs}, "without_majority": stuck}


def _name_of(leadership: Leadership, job: bytes) -> str:
    terms, _ = leadership.known(job)
    return job.hex() if terms is None else terms.manifest.qualified


def health(context: Context, voting: dict[str, Any], dead: list[dict[str, Any]]) -> dict[str, Any]:
    """How an agent is: its worst problem, what `voting` says of its votes, and the dead that it knows."""
    facts = context.facts("problem")
    problem = facts.get("problem")
    found = {"status": "waiting", "problem": problem} if problem else {"status": "ok"}
    reported = ("sinks", "slowed", "archives", "held", "insecure")
    found |= {key: facts[key] for key in reported if facts.get(key)}
    functions = context.facts("functions").get("problem")
    if functions and not problem:
        found |= {"status": "degraded", "problem": functions}
    if (held := facts.get("held")) and not problem:
        found |= {"status": "degraded", "problem": next(iter(held.values()))}
    if not problem and (votes_report := voting_text(voting)):
        found |= {"status": "degraded", "problem": votes_report}
    if names := [row["name"] for row in dead]:  # which a restart of this agent would not mend
        found |= {"dead_agents": names}
    return found | {"agent": context.name}
