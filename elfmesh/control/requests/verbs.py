"""The verbs that clients may ask for: one record each.

Owns the records. The request dispatcher (`requests`, `handler`), the routes of the HTTP API, the role that
each needs, the audit log and the clients are made from them; what answers a verb stands in `job_verbs` under
the same name. Light: clients import it without the rest of the control machine.

A new verb of a job is a record here and its handler there; `Client.ask` and HTTP reach it then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import msgspec

HUNG_UP = "hung_up"
"""Asked by the agent of a client, under the token of its question: the client does not wait any more."""


class Need(StrEnum):
    """What a caller must be."""

    READ = "reader"
    SUBMIT = "submitter"
    OPERATE = "operator"
    JOIN = "agent"


class Scope(StrEnum):
    """Who answers, and the beginning of the route."""

    JOB = "/v1/jobs/{namespace}/{name}"
    ALL = "/v1"
    AGENT = "/v1/agent"
    OVER = "over other verbs"


class Fields(msgspec.Struct, frozen=True):
    """What a request says beside the job: the parameters of its route. None: it does not say."""


class Offsets(Fields, frozen=True):
    """Of `offsets`."""

    after: int | None = None
    wait: float | None = None
    revision: int | None = None
    state: Literal["final", "all"] = "final"


class Results(Fields, frozen=True, rename={"from_": "from"}):
    """Of `results`; from the interval `from` on."""

    from_: int | None = None
    to: int | None = None
    limit: int | None = None
    wait: float | None = None
    revision: int | None = None
    state: Literal["final", "all"] = "final"


class Schema(Fields, frozen=True):
    """Of `schema`."""

    wait: float | None = None
    view: Literal["", "pao"] = ""


class Arrow(Fields, frozen=True, rename={"from_": "from"}):
    """Of `arrow`; behind the interval `from`."""

    from_: int | None = None
    to: int | None = None
    revision: int | None = None
    state: Literal["final", "all"] = "final"
    view: Literal["", "pao"] = ""
    types: Literal["all", "own"] = "all"


class Verify(Fields, frozen=True):
    """Of `verify`."""

    interval: int | None = None
    again: bool = False


class Interval(Fields, frozen=True):
    """Of `interval` and `story`; the newest that is closed if it does not say."""

    interval: int | None = None


class Recover(Fields, frozen=True):
    """Of `recover`."""

    accept_loss: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        name: as clients and agents say it; in the audit log, if not all may ask.
        scope: who answers.
        route: method and path behind that of the scope; "" if only agents ask.
        need: the role of the caller.
        changes: its request names what the client has seen (`precondition`).
        acknowledged: its answer waits for the members' acknowledgements.
        patient: a refusal while the master changes is taken for silence, and it is asked again.
        request: the parameters of its route.
    """

    name: str
    scope: Scope = Scope.JOB
    route: str = ""
    need: Need = Need.READ
    changes: bool = False
    acknowledged: bool = False
    patient: bool = False
    request: type[Fields] = Fields

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """Of the route, with {namespace} and {name} of the job."""
        behind = self.route.partition(" ")[2]
        if behind.startswith("/v1"):
            return behind
        scope = Scope.JOB if self.scope is Scope.OVER else self.scope
        return f"{scope}/{behind}" if behind else str(scope)


VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("apply", Scope.OVER, "POST /v1/jobs", Need.SUBMIT, changes=True),
        Verb("describe", route="GET", patient=True),
        Verb("why", route="GET why", patient=True),
        Verb("interval", patient=True, request=Interval),
        Verb("story", Scope.OVER, "GET story", request=Interval),
        Verb("verify", route="POST verify", need=Need.OPERATE, request=Verify),
        Verb("delete", route="DELETE", need=Need.SUBMIT, changes=True),
        Verb("pause", route="POST pause", need=Need.SUBMIT, changes=True, acknowledged=True),
        Verb("resume", route="POST resume", need=Need.SUBMIT, changes=True, acknowledged=True),
        Verb("empty", route="POST empty", need=Need.SUBMIT, changes=True, acknowledged=True),
        Verb("recover", route="POST recover", need=Need.OPERATE, acknowledged=True, request=Recover),
        Verb("rollout", route="GET rollout"),
        Verb("undo", route="POST rollout/undo", need=Need.SUBMIT, changes=True, acknowledged=True),
        Verb("promote", Scope.OVER, "POST rollout/promote", Need.SUBMIT),
        Verb("results", route="GET results", patient=True, request=Results),
        Verb("rows", patient=True),
        Verb("arrow", Scope.OVER, "GET arrow", request=Arrow),
        Verb("schema", route="GET schema", patient=True, request=Schema),
        Verb("offsets", route="GET offsets", patient=True, request=Offsets),
        Verb("list", Scope.ALL, "GET jobs"),
        Verb("agents", Scope.ALL, "GET agents"),
        Verb("streams", Scope.ALL, "GET streams"),
        Verb("trees", Scope.ALL, "GET trees"),
        Verb("whose", Scope.ALL),
        Verb("steps", Scope.ALL),
        Verb("health", Scope.AGENT, "GET /v1/health"),
        Verb("agent", Scope.AGENT, "GET"),
        Verb("leave", Scope.AGENT, "POST leave", Need.OPERATE),
    )
}


def of_job(name: str) -> bool:
    """Whether a verb is about one job, and answered by its master."""
    return name in VERBS and VERBS[name].scope is Scope.JOB


def changes_job(name: str) -> bool:
    return name in VERBS and VERBS[name].changes
