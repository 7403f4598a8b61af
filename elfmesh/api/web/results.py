"""The routes of the API for results: JSON lines, Arrow streams and the schema.

The module converts pages of records to the requested form. Large conversions run in a thread, so that they do
not delay heartbeats.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from elfmesh.api.client.client import INCARNATION, NEXT, REVISION
from elfmesh.api.web.responses import json_response
from elfmesh.api.web.row_stream import RowsRefused, in_thread, open_rows, row_schema_of
from elfmesh.api.web.whole_rows import Asker, parts
from elfmesh.control.answers import NOT_FOUND, OK, UNAVAILABLE, error_of
from elfmesh.control.jobs.pages import decode_page, names_pages
from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import ResultPage, read_reply
from elfmesh.errors import ElfError, Unreachable
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.control.jobs import spark_types
else:
    pa = lazy_module("pyarrow")
    spark_types = lazy_module("elfmesh.control.jobs.spark_types")


FOLLOW_WAIT_S = 15.0
FOLLOW_LIMIT = 100
FOLLOW_PATIENCE_S = 60.0
"""How long a follower waits while the master of the job is being replaced."""

RETRY_S = 0.5
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


def _lines(page: bytes, *, heads: bool = False) -> bytes:
    return b"".join(_line(record, (1, 1), b"" if heads else rows) for record, rows in decode_page(page))


async def _written(ask: Asker, body: dict[str, Any], page: bytes) -> AsyncIterator[bytes]:
    """Yield lines of records, all at once, or one for each page of their rows. Raises as `whole_rows`."""
    heads = body.get("rows") is False
    if heads or not names_pages(page):
        yield await in_thread(partial(_lines, heads=heads), page)
        return
    for record, rows in await asyncio.to_thread(decode_page, page):
        async for data, part in parts(ask, body, record, rows):
            line = partial(_line, record, part)
            yield await in_thread(line, data)


def _line(record: ResultRecord, part: tuple[int, int], rows: bytes) -> bytes:
    return encode_json(to_json(record, ipc_to_table(rows), part)) + b"\n"


async def results(request: web.Request, ask: Asker, body: dict[str, Any]) -> web.StreamResponse:
    """Answer with one page of results as JSON lines.

    The headers X-Elf-Next and, if all states are requested, X-Elf-Revision say where to continue.
    """
    reply = await ask("results", body)
    if reply.status != OK:
        return json_response(reply.status, reply.body)
    page = read_reply(ResultPage, reply.body)
    headers = {NEXT: str(page.next)} | ({} if page.revision is None else {REVISION: str(page.revision)})
    heads = body.get("rows") is False
    if heads or not names_pages(reply.payload):
        lines = await in_thread(partial(_lines, heads=heads), reply.payload)
        return web.Response(body=lines, content_type=NDJSON, charset="utf-8", headers=headers)
    response = web.StreamResponse(headers=headers | {"Content-Type": f"{NDJSON}; charset=utf-8"})
    await response.prepare(request)
    await _write(response, ask, body, reply.payload)
    await response.write_eof()
    return response


async def _write(response: web.StreamResponse, ask: Asker, body: dict[str, Any], page: bytes) -> None:
    """Write lines as they are encoded. An error is written as the last line, so that a reader notices it."""
    try:
        async for lines in _written(ask, body, page):
            await response.write(lines or b"\n")
    except ElfError as error:
        await response.write(encode_json(error_of(error)) + b"\n")
        raise ConnectionAbortedError("the rows of a record broke off") from None


async def follow(request: web.Request, ask: Asker, body: dict[str, Any]) -> web.StreamResponse:
    """Stream results until the reader disconnects, the job ends, or interval `to` is reached.

    Empty lines show that the agent is alive.
    """
    first = await ask("results", {"revision": 0, **body, "wait": 0, "site": ""})
    if first.status != OK:
        return json_response(first.status, first.body)
    response = web.StreamResponse(headers={"Content-Type": NDJSON, "Cache-Control": "no-store"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        await _follow(response, ask, body, first)
        await response.write_eof()
    return response


async def _follow(response: web.StreamResponse, ask: Asker, body: dict[str, Any], reply: Reply) -> None:
    loop = asyncio.get_running_loop()
    following, revision, received_at = body.get("from"), 0, loop.time()
    numbering = site = ""
    while True:
        if reply.status == OK:
            received_at = loop.time()
            await _write(response, ask, body, reply.payload)
            page, upto = read_reply(ResultPage, reply.body), body.get("to")
            revision, numbering, site = page.revision or 0, str(page.incarnation), page.site or ""
            if page.latest >= page.earliest:  # "next" of an empty log has no meaning
                following = page.next if reply.payload else following
            if upto is not None and page.latest >= upto and not reply.payload:
                return
        elif reply.status != UNAVAILABLE or loop.time() - received_at > FOLLOW_PATIENCE_S:
            if reply.status != NOT_FOUND:
                await response.write(encode_json(reply.body) + b"\n")
            return
        else:
            await asyncio.sleep(RETRY_S)
            await response.write(b"\n")
        question = {**body, "from": following, "limit": FOLLOW_LIMIT, "wait": FOLLOW_WAIT_S}
        question |= {"revision": revision, "near": numbering, "site": site}
        try:
            reply = await ask("results", question)
        except Unreachable as error:
            reply = Reply(0, UNAVAILABLE, error_of(error))


async def schema(ask: Asker, body: dict[str, Any]) -> web.StreamResponse:
    """Answer with the columns of a result row, as Spark DDL and as an Arrow schema."""
    reply = await ask("schema", body)
    if reply.status != OK:
        return json_response(reply.status, reply.body)
    columns = row_schema_of(reply)
    encoded = base64.b64encode(columns.serialize().to_pybytes()).decode()
    return json_response(OK, {"ddl": spark_types.ddl(columns), "arrow": encoded})


async def arrow(
    request: web.Request,
    ask: Asker,
    job: dict[str, Any],
    question: dict[str, Any],
    *,
    view: str = "",
    only: frozenset[str] | None = None,
    own: bool = False,
) -> web.StreamResponse:
    """Stream the rows of intervals as Arrow; answer 410 if the first interval has expired.

    The header X-Elf-Incarnation is the incarnation of the rows. The stream is aborted if the job is created
    again meanwhile. The arguments are those of `open_rows`.
    """
    try:  # errors are reported before the answer starts, so that the client gets a status
        rows = await open_rows(ask, job, question, view=view, only=only, own=own)
    except RowsRefused as error:
        return json_response(error.status, error.body)
    sink = _Sink()
    response = web.StreamResponse(headers={"Content-Type": ARROW, INCARNATION: rows.incarnation})
    await response.prepare(request)
    with pa.ipc.new_stream(sink, rows.columns) as writer:
        async for table in rows.tables:
            writer.write_table(table)
            await response.write(sink.take())
    await response.write(sink.take())
    await response.write_eof()
    return response


class _Sink:
    """File object whose content `take` returns and discards."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self.closed = False

    def write(self, data: Any) -> int:
        # bytes, or an Arrow buffer that stays valid while it is referenced, so no copy is made before
        # `take`
        self._parts.append(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data
