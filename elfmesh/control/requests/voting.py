"""The health of an agent: its problems, its votes, and the votes on the jobs that it leads or should lead.

The module reads leadership and changes nothing.
"""

from __future__ import annotations

from msgspec import UNSET

from elfmesh.control.context import Context
from elfmesh.control.election.election import Attempt
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol.replies_agents import DeadAgentRow, Health, VotesLoss, VotesReport
from elfmesh.control.register.acceptor_contacts import MAJORITY_S
from elfmesh.control.register.lost_votes import voting_text


def without_majority(context: Context, leadership: Leadership) -> dict[bytes, Attempt]:
    """Return the jobs that this agent should lead and cannot, because no majority of their voters answers."""
    found, roots = leadership.elections.without_majority(), context.roots
    return {job: each for job, each in found.items() if job in roots and job not in leadership.masters}


def voting(context: Context, leadership: Leadership) -> VotesReport:
    led = [each for each in leadership.masters.values() if each.term.committer.unanswered_s > MAJORITY_S]
    stuck = [each.term.manifest.qualified for each in led]
    stuck += [each.terms.manifest.qualified for each in without_majority(context, leadership).values()]
    lost, loss = leadership.registers.acceptors.lost, leadership.registers.acceptors.lost.loss
    if loss is None:
        return VotesReport(None, stuck)
    jobs = [_name_of(leadership, job) for job in lost.asked(context.now)]
    return VotesReport(VotesLoss(loss.boot, loss.path, loss.reason, loss.kept, jobs), stuck)


def _name_of(leadership: Leadership, job: bytes) -> str:
    terms, _ = leadership.known(job)
    return job.hex() if terms is None else terms.manifest.qualified


def health(context: Context, votes: VotesReport, dead: list[DeadAgentRow], broken: str = "") -> Health:
    """Return the worst problem of an agent; `broken` is a job whose assumptions do not hold (`contradicted`).

    Dead agents are none, because a restart would not remove them.
    """
    facts = context.facts("problem")
    problem = str(facts.get("problem") or "")
    held, functions = facts.get("held") or {}, context.facts("functions").get("problem")
    degraded = next(filter(None, (voting_text(votes), *held.values(), functions, broken)), "")
    reported = ("sinks", "slowed", "archives", "held", "insecure", "warnings")
    return Health(
        status="waiting" if problem else "degraded" if degraded else "ok",
        **{key: facts[key] for key in reported if facts.get(key)},
        problem=problem or degraded or UNSET,
        dead_agents=[row.name for row in dead] or UNSET,
        agent=context.name,
    )


def contradicted(leadership: Leadership) -> str:
    """Return the first job led by this agent whose recent records contradict its ASSUME clauses, or ""."""
    for each in leadership.masters.values():
        if broken := each.tally.broken:
            return f"{each.term.manifest.qualified}: violations of ASSUME in recent intervals: {broken}"
    return ""
