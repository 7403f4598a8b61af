"""Changes of a running job over HTTP: how the last one went, undo, empty, and canaries.

Owns what a canary is: a job named NAME-canary that runs a new text on the agents with certain labels, beside
the job it is for. Everything else is the business of the job's master.

    GET  /v1/jobs/NS/NAME/rollout           the version in force, and its canary if there is one
    POST /v1/jobs/NS/NAME/rollout/undo      ends the canary, or brings the version before the newest back
    POST /v1/jobs/NS/NAME/rollout/promote   the canary's text for all agents
    POST /v1/jobs/NS/NAME/empty             a new batch on all agents at one boundary
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from elfmesh.control.answers import CONFLICT, NOT_FOUND, OK, error_body
from elfmesh.control.jobs.manifest import canary_name
from elfmesh.control.protocol.events import Reply

Ask = Callable[[str, dict[str, Any]], Awaitable[Reply]]


async def rollout(ask: Ask, job: dict[str, Any]) -> Reply:
    """How the last change of a job went; its canary beside it."""
    reply = await ask("rollout", job)
    if reply.status != OK:
        return reply
    canary = await ask("rollout", _canary(job))
    body = reply.body | ({"canary": canary.body} if canary.status == OK else {})
    return Reply(reply.token, OK, body)


async def undo(ask: Ask, job: dict[str, Any]) -> Reply:
    """End the canary; without one, bring the last version back."""
    canary = await ask("delete", _canary(job))
    none = canary.status == NOT_FOUND or (canary.status == OK and not canary.body.get("job"))
    return await ask("undo", job) if none else canary  # one that cannot be asked now may still be there


async def promote(ask: Ask, job: dict[str, Any]) -> Reply:
    """The canary's text becomes the job's next version, then the canary ends."""
    canary = await ask("describe", _canary(job))
    if canary.status == NOT_FOUND:
        hint = "Start one with `elf update JOB -f FILE --canary KEY=VALUE`."
        return Reply(0, CONFLICT, error_body("this job has no canary", hint=hint))
    if canary.status != OK:
        return canary
    wanted = {"text": canary.body["text"], "creator": canary.body["creator"], "job": job["job"]}
    wanted["signed"] = canary.body.get("signed") or ""
    reply = await ask("apply", wanted)
    if reply.status != OK:
        return reply
    ended = await ask("delete", _canary(job))
    if ended.status in (OK, NOT_FOUND):
        return reply
    hint = f"The canary continues because {ended.body.get('error')}; end it with `elf rollout undo`."
    return Reply(reply.token, OK, reply.body | {"hint": hint})


def _canary(job: dict[str, Any]) -> dict[str, Any]:
    namespace, _, name = str(job["job"]).partition("/")
    return job | {"job": f"{namespace}/{canary_name(name)}"}
