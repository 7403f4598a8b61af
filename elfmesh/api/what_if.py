"""What the results of every job would be worth if some agents were lost together.

Pure functions on the list of agents and the descriptions of jobs. Assumes that lost agents take their records
along, as a lost rack does, and that the others continue. Paper: PPA III-A, with usual rates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from elfmesh import ql
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.errors import DataError
from elfmesh.text import suggest

AGENT = "agent"
"""Each agent is a failure domain of its own: `agent=web1`."""

ON_TIME, CHANGE_OF_MASTERS, NONE = "on time", "after a change of masters", "none"


@dataclass(frozen=True, slots=True)
class JobLoss:
    """What a job's later windows would be worth.

    Attributes:
        job: its name.
        fidelity: share of the usual input that its records would represent.
        at_least: least fidelity, whichever records of joined inputs belong together.
        at_most: greatest fidelity.
        members: number of its members.
        lost: names of lost members, and of those that are dead already.
        voters: number of its voters.
        voters_left: how many of them would remain.
        next_result: when the next result would come; `none` without a majority of the voters, or members.
    """

    job: str
    fidelity: float
    at_least: float
    at_most: float
    members: int
    lost: tuple[str, ...]
    voters: int
    voters_left: int
    next_result: str


def failure_domains(agent: Mapping[str, Any]) -> dict[str, str]:
    """Return the failure domains of a row of `elf get agents`, by label. A dead agent's row has no labels."""
    return {**agent.get("labels", {}), AGENT: str(agent["name"])}


def domain_values(agents: Iterable[Mapping[str, Any]], label: str) -> list[str]:
    """Return the values of a label.

    Raises:
        DataError: no agent has it.
    """
    domains = [failure_domains(each) for each in agents]
    values = sorted({each[label] for each in domains if label in each})
    if not values:
        known = sorted({name for each in domains for name in each})
        hint = suggest(label, known) or f"Agents have: {', '.join(known)}."
        raise DataError(f"no agent has the label {label!r}", hint=hint)
    return values


def lost_agents(agents: Sequence[Mapping[str, Any]], losses: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names of all agents in one of some domains (label, value), sorted.

    Raises:
        DataError: no agent is in one of the domains.
    """
    found: set[str] = set()
    for label, value in losses:
        values = domain_values(agents, label)
        if value not in values:
            hint = suggest(value, values) or f"There are: {', '.join(values[:8])}."
            raise DataError(f"no agent has {label}={value}", hint=hint)
        found |= {str(each["name"]) for each in agents if failure_domains(each).get(label) == value}
    return sorted(found)


def worth_without(
    agents: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]], lost: Collection[str]
) -> list[JobLoss]:
    """Return what every job would be worth, in the order of `jobs`.

    Args:
        agents: rows of `elf get agents`.
        jobs: descriptions of all jobs; a job that reads another is judged by its description.
        lost: names of the agents that are lost.
    """
    gone = {str(each["name"]) for each in agents if each["status"] == "dead"} | set(lost)
    addresses = {str(each["address"]) for each in agents if each["name"] in gone}
    by_name = {str(each["job"]): each for each in jobs}
    known: dict[str, JobLoss] = {}

    def judged(name: str, reading: tuple[str, ...]) -> JobLoss | None:
        """Return the loss of a job; None if it has no description, or reads itself through others."""
        if name not in known:
            if name not in by_name or name in reading:
                return None
            job, plan = by_name[name], read_plan(str(by_name[name]["text"]))
            read = {each: judged(each, (*reading, name)) for each in plan.jobs}
            own = _own_loss(job, plan, gone, addresses)
            known[name] = _with_read(own, plan, read)
        return known[name]

    found = [judged(name, ()) for name in by_name]
    return [each for each in found if each is not None]


def _own_loss(
    job: Mapping[str, Any], plan: JobPlan, gone: Collection[str], addresses: Collection[str]
) -> JobLoss:
    """Return the loss of a job by its own members, master and voters."""
    rates, required, missing = Rates(), 0, 0
    members = job["roster"]["agents"]
    for each in members:
        number = int(each["number"])
        rates.reported(number, each.get("usual_records") or ())
        required |= 1 << number
        if each["agent"] in gone or each["dead"]:
            missing |= 1 << number
    shares = rates.shares(required, missing, plan.shape)
    voters = list(job["voters"])
    left = [each for each in voters if each not in addresses and each not in job["voters_without_votes"]]
    stopped = 2 * len(left) <= len(voters) or (bool(members) and required == missing)
    next_result = NONE if stopped else CHANGE_OF_MASTERS if job["master"] in gone else ON_TIME
    lost = tuple(sorted(str(each["agent"]) for each in members if missing >> int(each["number"]) & 1))
    bounds = plan.shape.bounds(*shares)
    return JobLoss(
        str(job["job"]), plan.shape.share(*shares), *bounds, len(members), lost, len(voters), len(left),
        next_result,
    )  # fmt: skip


def _with_read(own: JobLoss, plan: JobPlan, read: Mapping[str, JobLoss | None]) -> JobLoss:
    """Return the loss of a job with what the jobs that it reads lose."""
    losses = [each for each in read.values() if each is not None]
    if not losses:
        return own
    if plan.reads:
        sources = [read.get(ql.job_read(source)) for source in plan.sources]
        even = [1.0] * len(sources)
        share, (least, _), (_, most) = (
            plan.shape.share([1.0 if each is None else each.fidelity for each in sources], even),
            plan.shape.bounds([1.0 if each is None else each.at_least for each in sources], even),
            plan.shape.bounds([1.0 if each is None else each.at_most for each in sources], even),
        )
    else:  # results beside a stream multiply
        share = own.fidelity * prod(each.fidelity for each in losses)
        least = max(0.0, own.at_least + sum(each.at_least for each in losses) - len(losses))
        most = min(own.at_most, *(each.at_most for each in losses))
    waits = any(each.next_result == NONE for each in losses)
    return replace(
        own, fidelity=share, at_least=least, at_most=most, next_result=NONE if waits else own.next_result
    )
