"""The routes of the API for results: JSON lines, Arrow streams and the schema.

The module converts pages of records to the requested form. Large conversions run in a thread, so that they do
not delay heartbeats.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from elfmesh.api.client.client import INCARNATION, NEXT, REVISION
from elfmesh.api.web.responses import json_response
from elfmesh.api.web.whole_rows import Asker, RowsLost, partials, parts
from elfmesh.control.answers import CONFLICT, GONE, NOT_FOUND, OK, UNAVAILABLE, error_body, error_of
from elfmesh.control.jobs.pages import decode_page, names_pages
from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.control.jobs.row_pages import columns_of
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import ResultPage, ResultSchema, read_reply
from elfmesh.errors import DataError, ElfError, Unreachable
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_schema, ipc_to_table
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
THREAD_BYTES = 64 << 10
PAGE_LIMIT = 1000
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


def _lines(page: bytes, *, heads: bool = False) -> bytes:
    return b"".join(_line(record, (1, 1), b"" if heads else rows) for record, rows in decode_page(page))


async def _written(ask: Asker, body: dict[str, Any], page: bytes) -> AsyncIterator[bytes]:
    """Yield lines of records, all at once, or one for each page of their rows. Raises as `whole_rows`."""
    heads = body.get("rows") is False
    if heads or not names_pages(page):
        yield await _in_thread(partial(_lines, heads=heads), page)
        return
    for record, rows in await asyncio.to_thread(decode_page, page):
        async for data, part in parts(ask, body, record, rows):
            line = partial(_line, record, part)
            yield await _in_thread(line, data)


def _line(record: ResultRecord, part: tuple[int, int], rows: bytes) -> bytes:
    return encode_json(to_json(record, ipc_to_table(rows), part)) + b"\n"


async def _in_thread(call: Callable[[bytes], Any], data: bytes) -> Any:
    return call(data) if len(data) < THREAD_BYTES else await asyncio.to_thread(call, data)


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
        lines = await _in_thread(partial(_lines, heads=heads), reply.payload)
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
    first = await ask("results", {"revision": 0, **body, "wait": 0})
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
    numbering = ""
    while True:
        if reply.status == OK:
            received_at = loop.time()
            await _write(response, ask, body, reply.payload)
            page, upto = read_reply(ResultPage, reply.body), body.get("to")
            revision, numbering = page.revision or 0, str(page.incarnation)
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
        question |= {"revision": revision, "near": numbering}
        try:
            reply = await ask("results", question)
        except Unreachable as error:
            reply = Reply(0, UNAVAILABLE, error_of(error))


async def schema(ask: Asker, body: dict[str, Any]) -> web.StreamResponse:
    """Answer with the columns of a result row, as Spark DDL and as an Arrow schema."""
    reply = await ask("schema", body)
    if reply.status != OK:
        return json_response(reply.status, reply.body)
    columns = _row_schema(reply)
    encoded = base64.b64encode(columns.serialize().to_pybytes()).decode()
    return json_response(OK, {"ddl": spark_types.ddl(columns), "arrow": encoded})


def _row_schema(reply: Reply) -> pa.Schema:
    data = base64.b64decode(read_reply(ResultSchema, reply.body).arrow)
    return spark_types.row_schema(pa.ipc.read_schema(pa.py_buffer(data)))


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
    again meanwhile.

    Args:
        request: request of the client.
        ask: sends a request to the master of the job.
        job: fields that name the job.
        question: from, to, state and revision, as the verb "results" accepts them.
        view: PAO for the partial aggregates that are kept beside the rows.
        only: states of the wanted records; None: all.
        own: only the newest record of each page, with its own columns and types. Versions of a job may differ
            in them, and the schema that fits all intervals is wider than that of one interval.
    """
    question = {**job, **question, "limit": PAGE_LIMIT, "strict": True}
    known, reply = await asyncio.gather(ask("schema", job | {"view": view}), ask("results", question))
    if known.status not in (OK, CONFLICT) or (view and known.status != OK):
        return json_response(known.status, known.body)
    if reply.status != OK:
        return json_response(reply.status, reply.body)
    columns = _row_schema(known) if known.status == OK else _first_schema(reply.payload)
    if own:
        columns = _own_schema(reply.payload, columns)
    sink = _Sink()
    converted = partial(_tables, ask, job, _Wanted(columns, view, only, newest=own))
    tables = converted(reply.payload)
    try:  # errors are reported before the answer starts, so that the client gets a status
        first = [table] if (table := await anext(tables, None)) is not None else []
        first += [table async for table in tables] if not names_pages(reply.payload) else []
    except RowsLost as error:
        return json_response(GONE, error_of(error))
    except DataError as error:
        return json_response(CONFLICT, error_of(error))
    except pa.ArrowException as error:
        return json_response(CONFLICT, error_body(f"results of different types in one column: {error}"))
    page = read_reply(ResultPage, reply.body)
    whose = page.incarnation
    if known.status == OK and known.body.get("incarnation") != whose:
        return json_response(UNAVAILABLE, error_body("the job is being created again"))
    response = web.StreamResponse(headers={"Content-Type": ARROW, INCARNATION: whose})
    await response.prepare(request)
    with pa.ipc.new_stream(sink, columns) as writer:
        for table in first:
            writer.write_table(table)
            await response.write(sink.take())
        while reply.payload:
            async for table in tables:
                writer.write_table(table)
                await response.write(sink.take())
            question |= {"from": page.next} | ({} if page.revision is None else {"revision": page.revision})
            reply = await ask("results", question)
            if reply.status != OK or (page := read_reply(ResultPage, reply.body)).incarnation != whose:
                raise ConnectionAbortedError("the results log broke off")
            tables = converted(reply.payload)
    await response.write(sink.take())
    await response.write_eof()
    return response


def _first_schema(page: bytes) -> pa.Schema:
    first = next((rows for _, rows in decode_page(page) if rows), b"")
    return spark_types.row_schema(ipc_schema(columns_of(first)[0]) if first else pa.schema([]))


def _own_schema(page: bytes, known: pa.Schema) -> pa.Schema:
    records = decode_page(page)
    if not records or not records[-1][1]:
        return known
    types = {field.name: field.type for field in known}
    fields = [
        pa.field(
            field.name, types.get(field.name, field.type) if pa.types.is_null(field.type) else field.type
        )
        for field in ipc_schema(columns_of(records[-1][1])[0])
    ]
    return spark_types.row_schema(pa.schema(fields))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Parameters of `arrow`."""

    columns: pa.Schema
    view: str
    only: frozenset[str] | None
    newest: bool


async def _tables(ask: Asker, job: dict[str, Any], wanted: _Wanted, page: bytes) -> AsyncIterator[pa.Table]:
    """Yield the rows of the records of a page, or their partial aggregates, as one table or more each.

    Raises:
        DataError: partial aggregates are requested of an interval that has none.
    """
    for record, rows in (await _in_thread(decode_page, page))[-1 if wanted.newest else 0 :]:
        if wanted.only is not None and record.state not in wanted.only:
            continue
        if rows and wanted.view and not columns_of(rows)[1]:
            raise DataError(
                f"interval {record.index} has no partial aggregates: it was closed before the job kept them",
                hint="Begin with a later interval.",
            )
        convert = partial(_table, record, wanted.columns)
        if wanted.view:
            yield await _in_thread(convert, await partials(ask, job, record, rows))
            continue
        async for data, _ in parts(ask, job, record, rows):
            yield await _in_thread(convert, data)


def _table(record: ResultRecord, columns: pa.Schema, rows: bytes) -> pa.Table:
    return spark_types.result_rows(record, ipc_to_table(rows), columns)


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
