"""The story of an interval over HTTP: the master says which interval, all agents answer with their steps.

GET  /v1/jobs/NS/NAME/story             of the newest closed interval, or of &interval=INDEX
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import OK
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import IntervalState, Story, read_reply
from elfmesh.control.requests.story import story as story_of


async def story(ask: Asker, job: dict[str, Any]) -> Reply:
    """Return what all agents have done for an interval of a job, in the order of cause and time."""
    about = await ask("interval", job)
    if about.status != OK:
        return about
    given = read_reply(IntervalState, about.body)
    which = {"id": given.id, "partitions": given.partitions, "interval": given.interval.index}
    reply = await ask("steps", which)
    if reply.status != OK:
        return reply
    status, body = story_of(given, reply.body["steps"])
    body = replace(body, asked=reply.body["asked"]) if isinstance(body, Story) else body
    return Reply(reply.token, status, msgspec.to_builtins(body))
