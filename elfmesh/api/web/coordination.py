"""Labels of the jobs of the fleet, and of a text, over HTTP.

  GET  /v1/coordination           the dataflow of all jobs, as `elf blazes --fleet -o json` prints it
  POST /v1/coordination  {"text"} that of a text, as `elf blazes -o json` prints it

Both only read. An analysis runs in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from elfmesh.api.fleet_jobs import gather_all, job_rows
from elfmesh.api.web.responses import json_response
from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import OK
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX
from elfmesh.errors import DataError, UsageError

STATEMENTS_MAX = 64
"""Statements of a text. The agent that answers analyses it beside its other work."""


async def of_fleet(ask: Asker, at_once: asyncio.Semaphore) -> web.StreamResponse:
    """Analyse all jobs. Jobs without an answer are in the notes."""
    reply = await ask("list", {})
    if reply.status != OK:
        return json_response(reply.status, reply.body)
    rows = job_rows(reply.body["jobs"])
    found = await gather_all(ask, rows)
    named = {str(row["job"]): found.described.get(str(row["job"]), {}).get("text") for row in rows}
    async with at_once:
        return json_response(OK, await asyncio.to_thread(_fleet, named))


async def of_text(body: dict[str, Any], at_once: asyncio.Semaphore) -> web.StreamResponse:
    """Analyse the text of one or more statements.

    Raises:
        UsageError: the text is missing or too long, or creates a job twice.
        QueryError: the text is wrong, at a line and a column.
    """
    text = body.get("text")
    if not isinstance(text, str) or len(text.encode()) > TEXT_BYTES_MAX:
        raise UsageError(f"coordination needs a text of at most {TEXT_BYTES_MAX} bytes")
    async with at_once:
        return json_response(OK, await asyncio.to_thread(labels_of_text, text))


def _fleet(texts: dict[str, str | None]) -> dict[str, Any]:
    from elfmesh.api.fleet_dataflow import fleet_dataflow
    from elfmesh.control.coordination.analysis import analyse
    from elfmesh.control.coordination.drawing import values

    return values(analyse(fleet_dataflow(texts)))


def labels_of_text(text: str) -> dict[str, Any]:
    """Analyse statements; the values are those of `elf blazes -o json`. Raises UsageError, QueryError."""
    from elfmesh import ql
    from elfmesh.control.coordination.analysis import analyse
    from elfmesh.control.coordination.drawing import values
    from elfmesh.control.coordination.statements import dataflow
    from elfmesh.control.jobs.graph import job_graph

    if text.count(";") > STATEMENTS_MAX:
        raise UsageError(f"coordination needs a text of at most {STATEMENTS_MAX} statements")
    try:
        jobs = job_graph(ql.parse_many(text))
    except DataError as error:
        raise UsageError(error.message) from None
    return values(analyse(dataflow(jobs)))
