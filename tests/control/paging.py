"""Rows as pages in the harness: how a master makes them, and how a reader asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import (
    MAGIC,
    PageTable,
    RowLimits,
    RowPage,
    digest_of,
    joined,
    packed,
    table_of,
)
from elfmesh.control.protocol import events as ctl
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json
from tests.control.member.support import Agent


def paged(done: ctl.Finalised, page_bytes: int) -> ctl.Finalised:
    """The same with pages, as an agent makes them of more rows; 0: it has none."""
    if not page_bytes or not done.rows or done.pages:
        return done
    limits = RowLimits(inline=page_bytes, page=page_bytes)
    rows, pages = packed(ipc_to_table(done.rows), b"", len(done.open), limits)
    return replace(done, rows=rows, pages=pages)


def table_of_pages(*pages: bytes) -> bytes:
    """What stands in a record whose rows are these pages."""
    table = PageTable(b"", tuple(RowPage(digest_of(page), len(page)) for page in pages))
    return MAGIC + msgspec.msgpack.encode(table)


Ask = Callable[[Agent, str, dict[str, Any]], ctl.Reply]


def shown(ask: Ask, agent: Agent, job: str, page: bytes) -> list[tuple[ResultRecord, Any]]:
    """Records with all their rows."""
    return [(record, _rows(ask, agent, job, record, rows)) for record, rows in decode_page(page)]


def _rows(ask: Ask, agent: Agent, job: str, record: ResultRecord, rows: bytes) -> list[dict[str, Any]]:
    """All rows of a record, with its pages asked for."""
    table, pages = table_of(rows), []
    for page in () if table is None else table.pages:
        reply = ask(agent, "rows", {"job": job, "index": record.index, "digest": page.digest.hex()})
        assert reply.status == 200, reply.body
        page.check(reply.payload)
        pages.append(reply.payload)
    return rows_to_json(ipc_to_table(joined(pages) if pages else rows))
