"""The verbs of clients: one record per verb.

The dispatcher of requests (`requests`, `handler`), the routes of the HTTP API with the role that each
requires, the audit log and the clients are made from these records. The handler of a verb is in `job_verbs`
under the name of the verb. Clients import this module without the control machine.

To add a verb of a job, add its record here, its reply in `control.protocol.replies` and its handler in
`job_verbs`. `Client.ask` and HTTP then accept it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal

import msgspec

from elfmesh.control.protocol import replies, replies_agents
from elfmesh.control.protocol.replies_changes import (
    Applied,
    Deleted,
    MeasuredLoss,
    Recovery,
    RolloutStatus,
    Verification,
)
from elfmesh.control.protocol.replies_plan import JobLayout

HUNG_UP = "hung_up"
"""Sent by the agent of a client, with the token of the client's request, when the client stops waiting."""

KNOWN = "known"
"""Field of `whose`: agents that know a living job without leading it answer too. Agents of wire version 1 do
not send it, because they would take these rows for other creators' jobs."""

OVER = "over"
"""Field of `whose`: incarnations of the job that have ended."""


class Need(StrEnum):
    """The role that a caller must have."""

    READ = "reader"
    SUBMIT = "submitter"
    OPERATE = "operator"
    JOIN = "agent"


class Scope(StrEnum):
    """Which agents answer, with the first part of the route."""

    JOB = "/v1/jobs/{namespace}/{name}"
    ALL = "/v1"
    AGENT = "/v1/agent"
    OVER = "over other verbs"


class Fields(msgspec.Struct, frozen=True):
    """The parameters of a route. None: the request does not contain the parameter.

    A request must contain a parameter without a default.
    """


class Offsets(Fields, frozen=True):
    """`after`: wait for a record above this interval."""

    after: int | None = None
    wait: float | None = None
    revision: int | None = None
    state: Literal["final", "all"] = "final"


class Results(Fields, frozen=True, rename={"from_": "from"}):
    """`from` is the first interval of the answer, `to` the last one.

    State "all" adds tentative records, "early" the early rows of open windows.
    """

    from_: int | None = None
    to: int | None = None
    limit: int | None = None
    wait: float | None = None
    revision: int | None = None
    state: Literal["final", "all", "early"] = "final"


class Schema(Fields, frozen=True):
    """`wait`: wait for the first result. The view "pao" is that of the partial aggregates."""

    wait: float | None = None
    view: Literal["", "pao"] = ""


class Arrow(Fields, frozen=True, rename={"from_": "from"}):
    """The answer begins after the interval `from`, and ends with `to`."""

    from_: int | None = None
    to: int | None = None
    revision: int | None = None
    state: Literal["final", "all"] = "final"
    view: Literal["", "pao"] = ""
    types: Literal["all", "own"] = "all"


class ResultFile(Fields, frozen=True):
    """Intervals that start at `since` or later and before `until`: times, or durations ago."""

    since: str | None = None
    until: str | None = None


class Verify(Fields, frozen=True):
    """`again`: discard an earlier outcome."""

    interval: int | None = None
    again: bool = False


class Measure(Fields, frozen=True):
    """`each`: the label whose values are lost, one after the other. `again`: discard an earlier outcome."""

    interval: int
    each: str
    again: bool = False


class Interval(Fields, frozen=True):
    """The default is the newest closed interval."""

    interval: int | None = None


class Forget(Fields, frozen=True):
    """`agent`: the name or the id of a dead agent."""

    agent: str


class CostOf(Fields, frozen=True):
    """`text`: of a job; `leased`: it is a query, which an agent may refuse because of its limit."""

    text: str
    leased: bool = False


class Recover(Fields, frozen=True):
    """`accept_loss`: recover the job; otherwise only report what may be lost."""

    accept_loss: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        name: name in requests, messages and the audit log.
        scope: which agents answer.
        route: method and the path after that of the scope; "" if only agents use the verb.
        need: role of the caller.
        changes: the request contains the version of the job that the client has seen (`precondition`).
        acknowledged: the answer is sent after the acknowledgements of the members.
        patient: the agent repeats a request that is refused while the job has no master.
        request: parameters of the route.
        reply: the JSON of the answer; of a verb of all agents, of each row in it.
        other_row: the JSON of rows of another kind.
    """

    name: str
    scope: Scope = Scope.JOB
    route: str = ""
    need: Need = Need.READ
    changes: bool = False
    acknowledged: bool = False
    patient: bool = False
    request: type[Fields] = Fields
    reply: type[msgspec.Struct] = replies.ArrowStream
    other_row: type[msgspec.Struct] | None = None

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path of the route, with {namespace} and {name} of the job."""
        behind = self.route.partition(" ")[2]
        if behind.startswith("/v1"):
            return behind
        scope = Scope.JOB if self.scope is Scope.OVER else self.scope
        return f"{scope}/{behind}" if behind else str(scope)


_operation = partial(Verb, need=Need.OPERATE)
_change = partial(Verb, need=Need.SUBMIT, changes=True, acknowledged=True, reply=Applied)

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("apply", Scope.OVER, "POST /v1/jobs", Need.SUBMIT, changes=True, reply=Applied),
        Verb("describe", route="GET", patient=True, reply=replies.Description),
        Verb("why", route="GET why", patient=True, reply=replies.Why),
        Verb("plan", route="GET plan", patient=True, reply=JobLayout),
        Verb("interval", patient=True, request=Interval, reply=replies.IntervalState),
        Verb("story", Scope.OVER, "GET story", request=Interval, reply=replies.Story),
        _operation("verify", route="POST verify", request=Verify, reply=Verification),
        _operation("measure", route="POST what-if", request=Measure, reply=MeasuredLoss),
        Verb("delete", route="DELETE", need=Need.SUBMIT, changes=True, reply=Deleted),
        _change("pause", route="POST pause"),
        _change("resume", route="POST resume"),
        _change("empty", route="POST empty"),
        _operation("recover", route="POST recover", acknowledged=True, request=Recover, reply=Recovery),
        Verb("rollout", route="GET rollout", reply=RolloutStatus),
        _change("undo", route="POST rollout/undo"),
        Verb("promote", Scope.OVER, "POST rollout/promote", Need.SUBMIT, reply=Applied),
        Verb("results", route="GET results", patient=True, request=Results, reply=replies.ResultPage),
        Verb("rows", patient=True, reply=replies.PageOfRows),
        Verb("arrow", Scope.OVER, "GET arrow", request=Arrow),
        Verb("parquet_file", Scope.OVER, "GET results.parquet", request=ResultFile),
        Verb("arrow_file", Scope.OVER, "GET results.arrow", request=ResultFile),
        Verb("schema", route="GET schema", patient=True, request=Schema, reply=replies.ResultSchema),
        Verb("offsets", route="GET offsets", patient=True, request=Offsets, reply=replies.ResultOffsets),
        Verb("list", Scope.ALL, "GET jobs", reply=replies.JobRow),
        Verb(
            "agents",
            Scope.ALL,
            "GET agents",
            reply=replies_agents.AgentRow,
            other_row=replies_agents.DeadAgentRow,
        ),
        Verb(
            "forget",
            Scope.ALL,
            "POST agents/forget",
            Need.OPERATE,
            request=Forget,
            reply=replies_agents.ForgottenAgent,
        ),
        Verb("cost", Scope.ALL, "POST cost", request=CostOf, reply=replies_agents.AgentCost),
        Verb("streams", Scope.ALL, "GET streams", reply=replies.StreamSummary),
        Verb("trees", Scope.ALL, "GET trees", reply=replies.TreeRow),
        Verb("whose", Scope.ALL, reply=replies.JobRow),
        Verb("steps", Scope.ALL, reply=replies.ReportedStep, other_row=replies.KeptSteps),
        Verb("health", Scope.AGENT, "GET /v1/health", reply=replies_agents.Health),
        Verb("agent", Scope.AGENT, "GET", reply=replies_agents.AgentDetails),
        _operation("leave", Scope.AGENT, "POST leave", reply=replies_agents.LeavingAgent),
    )
}


def of_job(name: str) -> bool:
    """Whether the master of a job answers the verb."""
    return name in VERBS and VERBS[name].scope is Scope.JOB


def changes_job(name: str) -> bool:
    return name in VERBS and VERBS[name].changes
