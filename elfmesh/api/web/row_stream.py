"""Rows of the intervals of a job as Arrow tables with one schema, page by page from the job's master.

The routes that answer with Arrow or with files use this module. It knows no HTTP. Large conversions run in a
thread, so that they do not delay heartbeats.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from elfmesh.api.web.whole_rows import Asker, RowsLost, partials, parts
from elfmesh.control.answers import CONFLICT, GONE, OK, UNAVAILABLE, error_body, error_of
from elfmesh.control.jobs.pages import decode_page, names_pages
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import columns_of
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import ResultPage, ResultSchema, read_reply
from elfmesh.errors import DataError, RemoteError
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_schema, ipc_to_table

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.control.jobs import spark_types
else:
    pa = lazy_module("pyarrow")
    spark_types = lazy_module("elfmesh.control.jobs.spark_types")

THREAD_BYTES = 64 << 10
PAGE_LIMIT = 1000


class RowsRefused(RemoteError):
    """Raised with the answer of the master, or of this agent, to a request that cannot be met."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body.get("error", ""))
        self.status, self.body = status, body


@dataclass(frozen=True, slots=True)
class RowStream:
    """The rows of a range of intervals.

    Attributes:
        columns: the schema of all tables.
        incarnation: incarnation of the job to which the rows belong.
        tables: the rows, at least one table per record that has rows. The iterator raises
            ConnectionAbortedError if the results log breaks off or the job is created again, and the
            errors that `refusing` catches.
    """

    columns: pa.Schema
    incarnation: str
    tables: AsyncIterator[pa.Table]


async def open_rows(
    ask: Asker,
    job: dict[str, Any],
    question: dict[str, Any],
    *,
    view: str = "",
    only: frozenset[str] | None = None,
    own: bool = False,
) -> RowStream:
    """Return the rows of intervals, after the first page of records has been read.

    Args:
        ask: sends a request to the master of the job.
        job: fields that name the job.
        question: from, to, state and revision, as the verb "results" accepts them.
        view: PAO for the partial aggregates that are kept beside the rows.
        only: states of the wanted records; None: all.
        own: only the newest record of each page, with its own columns and types. Versions of a job may differ
            in them, and the schema that fits all intervals is wider than that of one interval.

    Raises:
        RowsRefused: with status 410 if the first interval has expired, 409 if the rows do not fit one schema,
            503 if the job is being created again.
    """
    question = {**job, **question, "limit": PAGE_LIMIT, "strict": True}
    known, reply = await asyncio.gather(ask("schema", job | {"view": view}), ask("results", question))
    if known.status not in (OK, CONFLICT) or (view and known.status != OK):
        raise RowsRefused(known.status, known.body)
    if reply.status != OK:
        raise RowsRefused(reply.status, reply.body)
    columns = row_schema_of(known) if known.status == OK else _first_schema(reply.payload)
    if own:
        columns = _own_schema(reply.payload, columns)
    converted = partial(_tables, ask, job, _Wanted(columns, view, only, newest=own))
    tables = converted(reply.payload)
    with refusing():
        first = [table] if (table := await anext(tables, None)) is not None else []
        first += [table async for table in tables] if not names_pages(reply.payload) else []
    whose = read_reply(ResultPage, reply.body).incarnation
    if known.status == OK and known.body.get("incarnation") != whose:
        raise RowsRefused(UNAVAILABLE, error_body("the job is being created again"))

    async def following(tables: AsyncIterator[pa.Table], reply: Reply) -> AsyncIterator[pa.Table]:
        for table in first:
            yield table
        while reply.payload:
            async for table in tables:
                yield table
            page = read_reply(ResultPage, reply.body)
            revision = {} if page.revision is None else {"revision": page.revision}
            reply = await ask("results", question | {"from": page.next} | revision)
            if reply.status != OK or read_reply(ResultPage, reply.body).incarnation != whose:
                raise ConnectionAbortedError("the results log broke off")
            tables = converted(reply.payload)

    return RowStream(columns, whose, following(tables, reply))


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn errors of rows into refusals."""
    try:
        yield
    except RowsLost as error:
        raise RowsRefused(GONE, error_of(error)) from None
    except DataError as error:
        raise RowsRefused(CONFLICT, error_of(error)) from None
    except pa.ArrowException as error:
        line = f"results of different types in one column: {error}"
        raise RowsRefused(CONFLICT, error_body(line)) from None


def row_schema_of(reply: Reply) -> pa.Schema:
    """Return the columns of a result row from the reply to the verb "schema"."""
    data = base64.b64decode(read_reply(ResultSchema, reply.body).arrow)
    return spark_types.row_schema(pa.ipc.read_schema(pa.py_buffer(data)))


async def in_thread(call: Callable[[bytes], Any], data: bytes) -> Any:
    """Call a function of bytes, in a thread if they are many."""
    return call(data) if len(data) < THREAD_BYTES else await asyncio.to_thread(call, data)


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
    for record, rows in (await in_thread(decode_page, page))[-1 if wanted.newest else 0 :]:
        if wanted.only is not None and record.state not in wanted.only:
            continue
        if rows and wanted.view and not columns_of(rows)[1]:
            raise DataError(
                f"interval {record.index} has no partial aggregates: it was closed before the job kept them",
                hint="Begin with a later interval.",
            )
        convert = partial(_table, record, wanted.columns)
        if wanted.view:
            yield await in_thread(convert, await partials(ask, job, record, rows))
            continue
        async for data, _ in parts(ask, job, record, rows):
            yield await in_thread(convert, data)


def _table(record: ResultRecord, columns: pa.Schema, rows: bytes) -> pa.Table:
    return spark_types.result_rows(record, ipc_to_table(rows), columns)
