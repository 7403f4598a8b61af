"""Fetches the rows of records from the master of a job, also if they are stored as separate pages.

The routes of the API and sinks use this module. It knows neither JSON nor Arrow tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from elfmesh.control.answers import GONE, OK, UNAVAILABLE
from elfmesh.control.jobs.kept_partials import partials_of
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import RowPage, joined, table_of
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import RuntimeFailure, Unreachable

Asker = Callable[[str, dict[str, Any]], Awaitable[Reply]]
"""Passes a verb with its parameters to the control machine, and returns the reply."""

PATIENCE_S, AGAIN_S = 60.0, 0.5
"""Time limit for a page that is temporarily unavailable, and the pause between two requests for it."""


class RowsLost(RuntimeFailure):
    """Raised if no agent has a page of a record's rows any more."""


async def pages_of(
    ask: Asker, job: dict[str, Any], index: int, pages: Sequence[RowPage]
) -> AsyncIterator[bytes]:
    """Yield the pages of an interval's rows in order.

    Raises:
        RowsLost: no agent has a page.
        Unreachable: no agent that may have a page answers.
        ProtocolError: an agent returned another page.
    """
    for page in pages:
        data = await _page(ask, _name(job) | {"index": index, "digest": page.digest.hex()})
        page.check(data)
        yield data


async def parts(
    ask: Asker, job: dict[str, Any], record: ResultRecord, rows: bytes
) -> AsyncIterator[tuple[bytes, tuple[int, int]]]:
    """Yield the rows of a record with (number of the part from 1, number of parts)."""
    table = table_of(rows)
    if table is None:
        yield rows, (1, 1)
        return
    number = 0
    async for data in pages_of(ask, job, record.index, table.pages):
        number += 1
        yield data, (number, len(table.pages))


async def whole(ask: Asker, job: dict[str, Any], record: ResultRecord, rows: bytes) -> bytes:
    """Return the rows of a record as if they were stored in it. Raises as `pages_of`. Cost: two copies."""
    table = table_of(rows)
    if table is None:
        return rows
    found = [data async for data in pages_of(ask, job, record.index, table.all)]
    count = len(table.pages)
    return b"".join((joined(found[:count]), *found[count:]))


async def partials(ask: Asker, job: dict[str, Any], record: ResultRecord, rows: bytes) -> bytes:
    """Return the partial aggregates of a record as Arrow IPC. Raises as `pages_of`."""
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
