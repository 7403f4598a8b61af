"""`POST /v1/cost`: what each agent would read for a query or a job, before it runs.

Owns the job that a query would become, and the sums over all agents. Each agent measures its own part
(`control.member.read_cost`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from elfmesh import ql
from elfmesh.api.query_text import as_job
from elfmesh.api.web.responses import json_response
from elfmesh.control.answers import OK
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.protocol.replies_agents import AgentCost
from elfmesh.errors import UsageError

if TYPE_CHECKING:
    from elfmesh.api.web.whole_rows import Asker

WHOLE = "HISTORY TIMESTAMP '1970-01-01 00:00:00' UNTIL HISTORY"
"""Range of the job that stands for a query without one."""


RANGE_CHARS_MAX = 200


async def cost(ask: Asker, body: dict[str, Any], at_once: asyncio.Semaphore) -> web.StreamResponse:
    """Return what the text in a request costs; `at_once` limits the texts that are parsed concurrently.

    Raises:
        UsageError: the text is missing or too long.
        QueryError: the text is wrong, at a line and a column.
    """
    text = body.get("text")
    if not isinstance(text, str) or len(text.encode()) > TEXT_BYTES_MAX:
        raise UsageError(f"cost needs the text of a query or a job, at most {TEXT_BYTES_MAX} bytes")
    clause = body.get("range", WHOLE)
    if not isinstance(clause, str) or len(clause) > RANGE_CHARS_MAX:
        raise UsageError("the range of a query is HISTORY and UNTIL, as in HISTORY '1 h' UNTIL HISTORY")
    async with at_once:
        statement, job = await asyncio.to_thread(_read, text, clause)
    about = {
        "job": statement.job.qualified if statement.job else None,
        "streams": [name for name in statement.streams if not ql.job_read(name)],
    }
    if not about["streams"]:
        return json_response(OK, about | total([]))
    reply = await ask("cost", {"text": job, "leased": statement.job is None})
    if reply.status != OK:
        return json_response(reply.status, reply.body)
    rows = reply.body["cost"]
    return json_response(OK, about | total(rows) | {"asked": reply.body["asked"]})


def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows of agents with sums over those that do not refuse the query.

    The agents read at the same time, so the expected time is the longest one. A sum is None if an agent does
    not know its part.
    """
    found = [msgspec.convert(row, AgentCost) for row in rows]
    reading = [each for each in found if not each.refusal]
    lines, seconds = [each.lines for each in reading], [each.seconds for each in reading]
    return {
        "agents": rows,
        "bytes": sum(each.bytes for each in reading),
        "estimated": sum(each.estimated for each in reading),
        "lines": None if None in lines else sum(each or 0 for each in lines),
        "seconds": None if None in seconds else max((each or 0.0 for each in seconds), default=0.0),
    }


def _read(text: str, clause: str) -> tuple[ql.Statement, str]:
    """Return the statement of a text, and the text of its job.

    That of a query is the job that it would become, for the range of the clause.
    """
    statement = ql.parse(text)
    if any(ql.job_read(name) for name in statement.streams) and statement.job is None:
        return statement, ""
    job = text if statement.job else as_job(text, "CREATE JOB adhoc.cost", clause)
    read_plan(job)
    return statement, job
