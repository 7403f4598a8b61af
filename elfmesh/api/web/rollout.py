"""Changes of a running job over HTTP: progress, undo, promote, and canaries.

The module defines a canary: a job named NAME-canary that runs a new text on the agents with certain labels,
beside the job NAME. The master of the job does everything else.

  GET  /v1/jobs/NS/NAME/rollout           the active version, and its canary if there is one
  POST /v1/jobs/NS/NAME/rollout/undo      ends the canary, or restores the previous version
  POST /v1/jobs/NS/NAME/rollout/promote   makes the canary's text the version of all agents
  POST /v1/jobs/NS/NAME/empty             starts a new batch on all agents at one boundary
"""

from __future__ import annotations

from typing import Any

from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import CONFLICT, NOT_FOUND, OK, error_body
from elfmesh.control.jobs.manifest import canary_name
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import Description, read_reply


async def rollout(ask: Asker, job: dict[str, Any]) -> Reply:
    """Return the progress of the last change of a job, and of its canary."""
    reply = await ask("rollout", job)
    if reply.status != OK:
        return reply
    canary = await ask("rollout", _canary(job))
    body = reply.body | ({"canary": canary.body} if canary.status == OK else {})
    return Reply(reply.token, OK, body)


async def undo(ask: Asker, job: dict[str, Any]) -> Reply:
    """End the canary. If there is none, restore the previous version."""
    canary = await ask("delete", _canary(job))
    none = canary.status == NOT_FOUND or (canary.status == OK and not canary.body.get("job"))
    # a canary whose master does not answer may still exist
    return await ask("undo", job) if none else canary


async def promote(ask: Asker, job: dict[str, Any]) -> Reply:
    """Make the text of the canary the job's next version, then end the canary."""
    canary = await ask("describe", _canary(job))
    if canary.status == NOT_FOUND:
        hint = "Start one with `elf update JOB -f FILE --canary KEY=VALUE`."
        return Reply(0, CONFLICT, error_body("this job has no canary", hint=hint))
    if canary.status != OK:
        return canary
    about = read_reply(Description, canary.body)
    wanted = {"text": about.text, "creator": about.creator, "job": job["job"], "signed": about.signed or ""}
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
