"""What the results of every job would be worth if some agents were lost together.

Pure functions on the list of agents and the descriptions of jobs. Assumes that lost agents take their records
along, as a lost rack does, and that the others continue. Paper: PPA III-A, with usual rates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, prod
from typing import Any

from elfmesh import ql
from elfmesh.api.fleet_jobs import FleetJobs
from elfmesh.control.closing.copy_recovery import ANSWER_S
from elfmesh.control.closing.straggler_policy import GONE_S, PROBES_MAX
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.errors import DataError, UsageError
from elfmesh.text import suggest

AGENT = "agent"
"""Each agent is a failure domain of its own: `agent=web1`."""

FAIL_OVER_S = 5.0
"""Greatest time from the death of a master to the next result; a test holds all fail-overs to it."""

FOUND_DEAD_S = 1.5
"""Greatest time until as many probes as are sent at once have found dead agents."""

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
        kept: share of what the members had read in open windows that would remain, with the panes that
            standbys hold.
        standby: the budget of its STANDBY, such as KEEPS 0.95; None: its text has no STANDBY.
        standbys: number of members with a standby.
        standby_bytes_per_second: what these ship together.
        late_seconds: greatest delay of the next result by the loss; None: there is no next result.
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
    kept: float
    standby: str | None = None
    standbys: int = 0
    standby_bytes_per_second: int = 0
    late_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LossCase:
    """What some agents are worth.

    Attributes:
        lost: the failure domains that are lost together, such as rack=r3.
        agents: names of the agents in them.
        jobs: what the jobs would be worth.
        silent: by the names of the other jobs, why no master describes them.
    """

    lost: str
    agents: tuple[str, ...]
    jobs: tuple[JobLoss, ...]
    silent: Mapping[str, str]

    @property
    def stopped(self) -> list[str]:
        """Names of the jobs that would have no result."""
        return sorted({each.job for each in self.jobs if each.next_result == NONE} | {*self.silent})

    def as_json(self) -> dict[str, Any]:
        silent = [
            {"job": job, "next_result": NONE, "error": error} for job, error in sorted(self.silent.items())
        ]
        return {
            "lost": self.lost,
            "agents": list(self.agents),
            "jobs": [*map(asdict, self.jobs), *silent],
        }


def cases(
    agents: Sequence[Mapping[str, Any]],
    jobs: FleetJobs,
    losses: Sequence[str] = (),
    label: str | None = None,
    job: str | None = None,
) -> list[LossCase]:
    """Return what every job would be worth if failure domains were lost.

    Args:
        agents: rows of `elf get agents`.
        jobs: all jobs.
        losses: domains that are lost together, as LABEL=VALUE.
        label: instead of `losses`: its values are lost, one after the other.
        job: name of the only job of the answer.

    Raises:
        DataError: no agent is in a domain, or the job does not exist.
        UsageError: a domain or the name of the job is malformed, or no loss is given, or two kinds of it.
    """
    if bool(losses) == bool(label):
        raise UsageError("what is lost?", hint="Write --lose rack=r3, or --each rack.")
    wanted = None if job is None else _job_name(job, (*jobs.described, *jobs.silent))
    several = [[_pair(each) for each in losses]]
    if label is not None:
        several = [[(label, value)] for value in domain_values(agents, label)]
    found = []
    for domains in several:
        lost = lost_agents(agents, domains)
        worth = worth_without(agents, [*jobs.described.values()], lost, jobs.silent)
        shown = tuple(each for each in worth if wanted in (None, each.job))
        silent = {name: why for name, why in jobs.silent.items() if wanted in (None, name)}
        found.append(LossCase(" ".join("=".join(each) for each in domains), tuple(lost), shown, silent))
    return found


def _pair(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not (label and equals and value):
        raise UsageError(f"--lose {text}: write LABEL=VALUE")
    return label, value


def _job_name(job: str, known: Sequence[str]) -> str:
    try:
        name = "/".join(split_name(job))
    except ValueError as error:
        raise UsageError(str(error), hint="A job is named NAMESPACE/NAME, such as shop/top.") from None
    if name not in known:
        raise DataError(f"there is no job {name}", hint=suggest(name, sorted(known)) or "")
    return name


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
    agents: Sequence[Mapping[str, Any]],
    jobs: Sequence[Mapping[str, Any]],
    lost: Collection[str],
    silent: Collection[str] = (),
) -> list[JobLoss]:
    """Return what every job would be worth, in the order of `jobs`.

    Args:
        agents: rows of `elf get agents`.
        jobs: descriptions of all jobs; a job that reads another is judged by its description.
        lost: names of the agents that are lost.
        silent: names of jobs without a description, for whose results the jobs that read them wait.
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
            if not {*plan.jobs}.isdisjoint(silent):
                known[name] = replace(known[name], next_result=NONE, late_seconds=None)
        return known[name]

    found = [judged(name, ()) for name in by_name]
    return [each for each in found if each is not None]


def _own_loss(
    job: Mapping[str, Any], plan: JobPlan, gone: Collection[str], addresses: Collection[str]
) -> JobLoss:
    """Return the loss of a job by its own members, master and voters."""
    rates, missing, held = Rates(), 0, 0
    members = job["roster"]["agents"]
    for at, each in enumerate(members):  # its own number may be of any size
        rates.reported(at, each.get("usual_records") or ())
        if each["agent"] in gone or each["dead"]:
            missing |= 1 << at
            if each.get("standby") and each["standby"] not in gone:
                held |= 1 << at
    required = (1 << len(members)) - 1
    shares = rates.shares(required, missing, plan.shape)
    voters = list(job["voters"])
    left = [each for each in voters if each not in addresses and each not in job["voters_without_votes"]]
    stopped = 2 * len(left) <= len(voters) or (bool(members) and required == missing)
    next_result = NONE if stopped else CHANGE_OF_MASTERS if job["master"] in gone else ON_TIME
    lost = tuple(sorted(str(each["agent"]) for at, each in enumerate(members) if missing >> at & 1))
    bounds = plan.shape.bounds(*shares)
    losing = sum(each["agent"] in gone and not each["dead"] for each in members)
    late_s = None if stopped else _late_s(plan, losing, changes=next_result == CHANGE_OF_MASTERS)
    return JobLoss(
        str(job["job"]), plan.shape.share(*shares), *bounds, len(members), lost, len(voters), len(left),
        next_result, plan.shape.share(*rates.shares(required, missing & ~held, plan.shape)),
        None if plan.standby_s is None else str(plan.standbys),
        sum(bool(each.get("standby")) for each in members),
        sum(each.get("standby_bytes_per_second") or 0 for each in members), late_s,
    )  # fmt: skip


def _late_s(plan: JobPlan, losing: int, *, changes: bool) -> float:
    """Return how much later the next result comes at most.

    The master waits for the deadline, finds the members dead, gives them time to return, and asks the agents
    that hold copies or open panes of them.
    """
    late_s = FAIL_OVER_S if changes else 0.0
    if losing:
        gone_s = GONE_S if plan.horizon_s is None else plan.horizon_s
        late_s += plan.deadline_s + (0.0 if plan.on_straggler == "skip" else gone_s)
        late_s += FOUND_DEAD_S * ceil(losing / PROBES_MAX)
        late_s += ANSWER_S if plan.replicas or plan.standby_s is not None else 0.0
    return late_s


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
        kept = plan.shape.share([1.0 if each is None else each.kept for each in sources], even)
    else:  # results beside a stream multiply
        share = own.fidelity * prod(each.fidelity for each in losses)
        least = max(0.0, own.at_least + sum(each.at_least for each in losses) - len(losses))
        most = min(own.at_most, *(each.at_most for each in losses))
        kept = own.kept * prod(each.kept for each in losses)
    waits = any(each.next_result == NONE for each in losses)
    return replace(
        own, fidelity=share, at_least=least, at_most=most, kept=kept,
        next_result=NONE if waits else own.next_result, late_seconds=_summed(own, losses, waits=waits),
    )  # fmt: skip


def _summed(own: JobLoss, read: Sequence[JobLoss], *, waits: bool) -> float | None:
    """Return the delay of a job that waits for those that it reads; None if there is no next result."""
    if waits or own.late_seconds is None:
        return None
    return own.late_seconds + max(each.late_seconds or 0.0 for each in read)
