"""The story of an interval over HTTP: the master says which interval, all agents answer with their steps.

GET  /v1/jobs/NS/NAME/story             of the newest closed interval, or of &interval=INDEX
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from elfmesh.control.answers import OK
from elfmesh.control.protocol.events import Reply
from elfmesh.control.requests.story import story as story_of

Ask = Callable[[str, dict[str, Any]], Awaitable[Reply]]


async def story(ask: Ask, job: dict[str, Any]) -> Reply:
    """Return what all agents have done for an interval of a job, in the order of cause and time."""
    about = await ask("interval", job)
    if about.status != OK:
        return about
    given = about.body
    which = {"id": given["id"], "partitions": given["partitions"], "interval": given["interval"]["index"]}
    reply = await ask("steps", which)
    if reply.status != OK:
        return reply
    status, body = story_of(given, reply.body["steps"])
    return Reply(reply.token, status, body | ({"asked": reply.body.get("asked")} if status == OK else {}))
