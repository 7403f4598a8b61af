"""The handlers of verbs: of a job at its master, of all agents at each of them.

The tables contain the handler of each name in `verbs.VERBS`, and of the verbs that only agents use (`feed`,
`readable`, `hung_up`). A handler returns the reply that the record of its verb names. The parts of the master
change the job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import asdict

from elfmesh.control.answers import BAD_REQUEST, NEW_MASTER, OK, UNAVAILABLE, Body, refuse, respond
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job, read_plan
from elfmesh.control.jobs.resuming import within_range
from elfmesh.control.master.activation import summary
from elfmesh.control.master.master import Master
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.member.read_cost import cost_of
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.protocol.replies import JobRow, KeptSteps, ReportedStep, StreamRow, TreeRow
from elfmesh.control.protocol.replies_agents import AgentCost, AgentRow, DeadAgentRow, ForgottenAgent
from elfmesh.control.protocol.replies_changes import Deleted, JobSummary, MeasuredLoss, Verification
from elfmesh.control.requests.dead_agents import DeadAgents
from elfmesh.control.requests.describe import agent_row, description, job_row, known_row, stream_row
from elfmesh.control.requests.no_majority import NoMajority
from elfmesh.control.requests.paths_plan import job_layout
from elfmesh.control.requests.precondition import admits
from elfmesh.control.requests.story import interval_of, own_steps
from elfmesh.control.requests.verbs import HUNG_UP, KNOWN, OVER
from elfmesh.control.requests.version_handler import VersionHandler, status
from elfmesh.control.requests.voting import contradicted, health, voting
from elfmesh.control.requests.why import explanation
from elfmesh.errors import QueryError

LOSSES_MAX = 64
"""Failure domains of one measurement; the master makes the rows without each of them."""


@dataclass(frozen=True, slots=True)
class RequestParts:
    """The parts of an agent that answer requests."""

    context: Context
    leadership: Leadership
    member_host: MemberHost
    dead: DeadAgents
    no_majority: NoMajority
    versions: VersionHandler


@dataclass(frozen=True, slots=True)
class Asked:
    """A request about a job of this master. `tag` is the version that the client of a change has seen."""

    parts: RequestParts
    master: Master
    ask: Ask
    body: dict[str, Any]
    tag: str


JobHandler = Callable[[Asked], Body | None]
"""Returns the reply, or None if the handler sends it itself."""

AllHandler = Callable[[RequestParts, dict[str, Any]], Sequence[msgspec.Struct]]
"""Returns the rows of this agent for an answer of all agents."""


def verify(asked: Asked) -> Verification | None:
    interval = asked.body.get("interval")
    if not isinstance(interval, int) or isinstance(interval, bool):
        text = "verify needs the number of an interval"
        refuse(asked.parts.context, asked.ask.origin, asked.ask.token, BAD_REQUEST, text)
        return None
    if asked.body.get("again"):
        asked.master.term.verifier.again(interval)
    found = asked.master.term.verifier.status(interval)
    assert isinstance(found, Verification), "there are no losses"
    return found


def measure(asked: Asked) -> MeasuredLoss | None:
    """Measure the worth of an interval without the agents of each failure domain, which the request names."""
    interval, named = asked.body.get("interval"), asked.body.get("losses")
    try:
        losses = msgspec.convert(named, dict[str, list[str]])
    except msgspec.ValidationError:
        losses = {}
    if not isinstance(interval, int) or isinstance(interval, bool) or not 0 < len(losses) <= LOSSES_MAX:
        text = f"what-if needs the number of an interval, and 1 to {LOSSES_MAX} failure domains"
        refuse(asked.parts.context, asked.ask.origin, asked.ask.token, BAD_REQUEST, text)
        return None
    domains = tuple((value, tuple(sorted(losses[value]))) for value in sorted(losses))
    if asked.body.get("again"):
        asked.master.term.verifier.again(interval, domains)
    found = asked.master.term.verifier.status(interval, domains)
    assert isinstance(found, MeasuredLoss), "there are losses"
    return found


def interval(asked: Asked) -> None:
    status, body = interval_of(asked.master, asked.body.get("interval"))
    respond(asked.parts.context, asked.ask.origin, asked.ask.token, status, body)


def read(asked: Asked) -> None:
    asked.master.term.bounded.asked()
    asked.master.term.result_service.ask(asked.ask, asked.body)


def hung_up(asked: Asked) -> None:
    dropped = asked.master.term.result_service.hung_up(asked.ask)
    if dropped is not None and not dropped.spare_s:
        asked.master.term.bounded.hung_up()


def change(asked: Asked) -> None:
    asked.parts.versions.asked(asked.master, asked.ask, asked.tag)


def pause(asked: Asked) -> None:
    asked.parts.versions.pause(asked.master, asked.ask, asked.tag)


def delete(asked: Asked) -> None:
    """Delete a job if it has the incarnation that the client has seen."""
    context, master, ask = asked.parts.context, asked.master, asked.ask
    if not admits(context, ask, asked.tag, master.term.terms, "incarnation"):
        return

    def ended(over: bool) -> None:
        if not over:
            refuse(context, ask.origin, ask.token, UNAVAILABLE, NEW_MASTER)
            return
        asked.parts.leadership.ended(master)
        body = summary(JobSummary, master.term.terms, master.term.book, "deleted")
        stopped = master.term.ending.stopped
        # members that leave acknowledge it, and are not expected any more
        given = asdict(body) | {"acknowledged": stopped, "expected": max(body.expected, stopped)}
        respond(context, ask.origin, ask.token, OK, Deleted(**given))

    master.term.end(ended)


JOB_HANDLERS: dict[str, JobHandler] = {
    **dict.fromkeys(("results", "feed", "readable", "offsets", "schema"), read),
    **dict.fromkeys(("undo", "empty"), change),
    **dict.fromkeys(("pause", "resume"), pause),
    HUNG_UP: hung_up,
    "rows": lambda asked: asked.master.term.result_service.ask_page(asked.ask, asked.body),
    "describe": lambda asked: description(asked.parts.context, asked.master),
    "why": lambda asked: explanation(asked.parts.context, asked.master),
    "plan": lambda asked: job_layout(asked.parts.context, asked.master),
    "interval": interval,
    "rollout": lambda asked: status(asked.master),
    "verify": verify,
    "measure": measure,
    "delete": delete,
}


def jobs(parts: RequestParts, body: dict[str, Any]) -> list[JobRow]:
    """Return the jobs that this agent leads or should lead; if the request contains `job`, only this one."""
    rows = [job_row(parts.context, master) for master in parts.leadership.masters.values()]
    return [row for row in rows + parts.no_majority.rows() if body.get("job") in (None, row.job)]


def whose(parts: RequestParts, body: dict[str, Any]) -> list[JobRow]:
    """Return the jobs of one name that this agent leads, or only knows, because its master may be dead."""
    rows = jobs(parts, body)
    if rows or not body.get(KNOWN):
        return rows
    manifests = {job: replica.terms.manifest for job, replica in parts.leadership.replicas.items()}
    manifests |= {job: member.manifest for job, member in parts.member_host.members.items()}
    given = body.get(OVER)
    over = given if isinstance(given, list) else []
    named = [
        each
        for _, each in sorted(manifests.items())
        if each.qualified == body.get("job") and each.incarnation not in over
    ]
    return [known_row(manifest) for manifest in named if parts.leadership.leader(manifest.job_id)]


def agents(parts: RequestParts, body: dict[str, Any]) -> list[AgentRow | DeadAgentRow]:
    leads = [master.term.manifest.qualified for master in parts.leadership.masters.values()]
    found = health(parts.context, voting(parts.context, parts.leadership), [], contradicted(parts.leadership))
    return [agent_row(parts.context, parts.member_host, leads, found), *parts.dead.rows()]


def forget(parts: RequestParts, body: dict[str, Any]) -> list[ForgottenAgent]:
    return [
        ForgottenAgent(parts.context.name, row.name, row.id) for row in parts.dead.forget(body.get("agent"))
    ]


def cost(parts: RequestParts, body: dict[str, Any]) -> list[AgentCost]:
    """Return what a job would read at this agent; nothing if the agent is no member of it."""
    admission, text = parts.member_host.admission, str(body.get("text") or "")
    try:
        plan = read_plan(text)
        found = plan.read_at(admission.streams, admission.labels)
        if not found:
            return []
        job, _ = read_job(text)
        now_us = int(parts.context.facts("clock")["now_us"])
        manifest = new_manifest(job, text, "", created=now_us, incarnation="")
        manifest, _ = within_range(manifest, now_us, leased=bool(body.get("leased")))
    except QueryError:  # the agent of the client has read the text, so this one is of another release
        return []
    return [cost_of(parts.context, found, manifest)]


def streams(parts: RequestParts, body: dict[str, Any]) -> list[StreamRow]:
    return [stream_row(parts.context, stream) for stream in parts.member_host.admission.streams.values()]


def trees(parts: RequestParts, body: dict[str, Any]) -> list[TreeRow]:
    """Return all trees of this agent; if the request contains `tree`, only this one."""
    names = {master.job.hex(): master.term.manifest.qualified for master in parts.leadership.masters.values()}
    return [
        TreeRow(agent=parts.context.name, **tree, job=names.get(tree["tree"], ""))
        for tree in parts.context.facts("trees").get("items", [])
        if body.get("tree") in (None, tree["tree"])
    ]


def steps(parts: RequestParts, body: dict[str, Any]) -> list[KeptSteps | ReportedStep]:
    return own_steps(parts.context, body)


ALL_HANDLERS: dict[str, AllHandler] = {
    "list": jobs,
    "whose": whose,
    "agents": agents,
    "forget": forget,
    "cost": cost,
    "streams": streams,
    "trees": trees,
    "steps": steps,
}
