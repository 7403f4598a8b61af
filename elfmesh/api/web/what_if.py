"""What the results of jobs would be worth without some agents, over HTTP.

  GET /v1/what-if?lose=rack=r3    as `elf what-if -o json`: {"cases": [...]}; `lose` is repeatable
  GET /v1/what-if?each=rack       each value of a label; &job=NS/NAME: only this job
  POST /v1/jobs/NS/NAME/what-if?interval=I&each=rack   measured: the state of the measurement of a closed
                                  interval, which this request starts; again=1 discards an earlier one

The routes only read. The first works in a thread, one request at a time. The last lets agents read their logs
again, so it needs the role of `verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from elfmesh.api.fleet_jobs import gather_all, job_rows
from elfmesh.api.web.responses import json_response
from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import OK
from elfmesh.errors import DataError, UsageError

WORK_MAX = 5_000_000
"""Maximum number of losses times members of jobs that a request may ask for, because a thread of the agent
evaluates each of them; `elf what-if` evaluates them at the client."""


async def what_if(
    ask: Asker, losses: Sequence[str], label: str | None, job: str | None, at_once: asyncio.Semaphore
) -> web.StreamResponse:
    """Answer for all jobs. Those without a master are rows with an error.

    Raises:
        UsageError: the parameters are wrong, or name what does not exist.
    """
    from elfmesh.api.what_if import cases, domain_values

    agents, listed = await ask("agents", {}), await ask("list", {})
    for reply in (agents, listed):
        if reply.status != OK:
            return json_response(reply.status, reply.body)
    rows = agents.body["agents"]
    jobs = await gather_all(ask, job_rows(listed.body["jobs"], rows))
    async with at_once:
        try:
            several = 1 if label is None else len(domain_values(rows, label))
            members = sum(len(each["roster"]["agents"]) for each in jobs.described.values())
            if several * members > WORK_MAX:
                text = f"{several} losses for {members} members of jobs are too many for one request"
                raise UsageError(text, hint="`elf what-if` evaluates them at the client.")
            found = await asyncio.to_thread(cases, rows, jobs, losses, label, job)
        except DataError as error:
            raise UsageError(error.message, hint=error.hint) from None
    return json_response(OK, {"cases": [case.as_json() for case in found]})


async def measured(ask: Asker, body: dict[str, Any]) -> web.StreamResponse:
    """Pass a measurement on to the master, with the agents that each value of a label names.

    Raises:
        UsageError: no agent has the label.
    """
    from elfmesh.api.what_if import domain_values, lost_agents

    agents = await ask("agents", {})
    if agents.status != OK:
        return json_response(agents.status, agents.body)
    rows, label = agents.body["agents"], str(body.pop("each"))
    try:
        losses = {value: lost_agents(rows, [(label, value)]) for value in domain_values(rows, label)}
    except DataError as error:
        raise UsageError(error.message, hint=error.hint) from None
    reply = await ask("measure", body | {"losses": losses})
    return json_response(reply.status, reply.body)
