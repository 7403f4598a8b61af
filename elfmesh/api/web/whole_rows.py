"""The rows of records in an answer of a job's master, page by page where they are pages of their own.

Owns the questions for these pages. Used by what reads results at an agent: the routes of the API, sinks.
Knows neither JSON nor Arrow tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from elfmesh.control.answers import GONE, OK, UNAVAILABLE
from elfmesh.control.jobs.records import ResultRecord, partials_of
from elfmesh.control.jobs.row_pages import Page, joined, table_of
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import RuntimeFailure, Unreachable

Asker = Callable[[str, dict[str, Any]], Awaitable[Reply]]
PATIENCE_S, AGAIN_S = 60.0, 0.5
"""How long a page is asked for that the job's master cannot give just now, and how often."""


class RowsLost(RuntimeFailure):
    """No agent has a page of a record's rows any more."""


async def pages_of(
    ask: Asker, job: dict[str, Any], index: int, pages: Sequence[Page]
) -> AsyncIterator[bytes]:
    """Pages of an interval's rows, one after the other.

    Raises:
        RowsLost: no agent has one of them.
        Unreachable: no agent that could have it answers.
        ProtocolError: an agent gives another page.
    """
    for page in pages:
        data = await _page(ask, _name(job) | {"index": index, "digest": page.digest.hex()})
        page.check(data)
        yield data


async def parts(
    ask: Asker, job: dict[str, Any], record: ResultRecord, rows: bytes
) -> AsyncIterator[tuple[bytes, tuple[int, int]]]:
    """The rows of a record, and which part of them they are, from 1, of how many; raises as `pages_of`."""
    table = table_of(rows)
    if table is None:
        yield rows, (1, 1)
        return
    number = 0
    async for data in pages_of(ask, job, record.index, table.pages):
        number += 1
        yield data, (number, len(table.pages))


async def whole(ask: Asker, job: dict[str, Any], record: ResultRecord, rows: bytes) -> bytes:
    """The rows of a record as they would stand in it; raises as `pages_of`. Cost: two copies at a time."""
    table = table_of(rows)
    if table is None:
        return rows
    found = [data async for data in pages_of(ask, job, record.index, table.all)]
    count = len(table.pages)
    return b"".join((joined(found[:count]), *found[count:]))


async def partials(ask: Asker, job: dict[str, Any], record: ResultRecord, rows: bytes) -> bytes:
    """The partial aggregates behind the rows of a record, Arrow IPC; raises as `pages_of`."""
    table = table_of(rows)
    if table is None:
        return partials_of(rows)
    found = [data async for data in pages_of(ask, job, record.index, table.partials)]
    return await asyncio.to_thread(lambda: partials_of(b"".join(found)))


async def _page(ask: Asker, question: dict[str, Any]) -> bytes:
    until = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            reply = await ask("rows", question)
        except Unreachable as error:
            reply = Reply(0, UNAVAILABLE, {"error": error.message})
        why = str(reply.body.get("error") or f"status {reply.status}")
        if reply.status == OK:
            return reply.payload
        if reply.status == GONE:
            raise RowsLost(why)
        if reply.status != UNAVAILABLE or asyncio.get_running_loop().time() > until:
            raise Unreachable(why)
        await asyncio.sleep(AGAIN_S)


def _name(job: dict[str, Any]) -> dict[str, Any]:
    return {key: job[key] for key in ("job", "creator", "incarnation") if key in job}
