"""Rows of a record that are pages of their own: asked for in their order, again while they may come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.api.web import whole_rows
from elfmesh.api.web.whole_rows import Asker, RowsLost, pages_of, partials, parts, whole
from elfmesh.control.jobs.kept_partials import packed_partials
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import PageTable, RowLimits, packed, table_of
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ElfError, ProtocolError, Unreachable
from elfmesh.ql.values.plain_ipc import ipc_to_table, table_to_ipc

JOB = {"job": "shop/words", "incarnation": 3, "version": 9}
RECORD = ResultRecord(job="shop/words", index=7)
TABLE = pa.table({"w": [f"word {at:04}" for at in range(2000)]})
PARTIALS = pa.table({"p": range(900)})
BEHIND, TAIL = table_to_ipc(PARTIALS), packed_partials(PARTIALS)


def read_table(rows: bytes) -> PageTable:
    table = table_of(rows)
    assert table is not None
    return table


SMALL = RowLimits(inline=1000, page=6000)
ROWS, PAGES = packed(TABLE, TAIL, 0, SMALL)
PAGED = read_table(ROWS)


def master(*before: Reply | ElfError) -> tuple[Asker, list[dict[str, Any]]]:
    """A job's master that has the pages, what it says before it gives any, and what it was asked."""
    has = {page.digest.hex(): data for page, data in zip(PAGED.all, PAGES, strict=True)}
    first, asked = list(before), list[dict[str, Any]]()

    async def ask(verb: str, body: dict[str, Any]) -> Reply:
        assert verb == "rows"
        asked.append(body)
        if first:
            given = first.pop(0)
            if isinstance(given, ElfError):
                raise given
            return given
        return Reply(0, 200, payload=has[body["digest"]])

    return ask, asked


async def fetched(ask: Asker, count: int = 1) -> list[bytes]:
    return [page async for page in pages_of(ask, JOB, 7, PAGED.pages[:count])]


async def test_a_page_is_asked_for_by_interval_and_digest_of_one_creation_of_the_job() -> None:
    ask, asked = master()
    assert await fetched(ask, 2) == list(PAGES[:2])
    digests = [page.digest.hex() for page in PAGED.pages[:2]]
    assert asked == [{"job": "shop/words", "incarnation": 3, "index": 7, "digest": each} for each in digests]


async def test_rows_and_what_stands_behind_them_come_as_they_would_stand_in_the_record() -> None:
    ask, _ = master()
    data = await whole(ask, JOB, RECORD, ROWS)
    assert ipc_to_table(data).to_pylist() == TABLE.to_pylist()
    assert await partials(ask, JOB, RECORD, ROWS) == BEHIND
    assert data.endswith(TAIL)
    found = [each async for each in parts(ask, JOB, RECORD, ROWS)]
    count = len(PAGED.pages)
    assert count > 2
    assert [part for _, part in found] == [(at, count) for at in range(1, count + 1)]
    assert [page for page, _ in found] == list(PAGES[:count])


async def test_rows_that_stand_in_the_record_are_not_asked_for() -> None:
    ask, asked = master()
    rows = table_to_ipc(TABLE) + TAIL
    assert await whole(ask, JOB, RECORD, rows) == rows
    assert await partials(ask, JOB, RECORD, rows) == BEHIND
    assert [each async for each in parts(ask, JOB, RECORD, rows)] == [(rows, (1, 1))]
    assert asked == []


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (Reply(0, 410, {"error": "no copy is left"}), RowsLost, "no copy is left"),
        (Reply(0, 410), RowsLost, "status 410"),
        (Reply(0, 500), Unreachable, "status 500"),
        (Reply(0, 200, payload=PAGES[1]), ProtocolError, "a page of rows that is not"),
    ],
)
async def test_an_answer_that_is_not_the_page_is_an_error(
    given: Reply, error: type[ElfError], message: str
) -> None:
    ask, asked = master(given)
    with pytest.raises(error, match=message):
        await fetched(ask)
    assert len(asked) == 1, "asked again"


LATER = [Reply(0, 503, {"error": "an election goes on"}), Unreachable("no agent answers")]


@pytest.mark.parametrize("given", LATER)
async def test_a_master_that_cannot_answer_yet_is_asked_again_until_patience_ends(
    given: Reply | ElfError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_rows, "AGAIN_S", 0.0)
    ask, asked = master(given, given)
    assert await fetched(ask) == [PAGES[0]]
    assert len(asked) == 3
    monkeypatch.setattr(whole_rows, "PATIENCE_S", -1.0)
    why = given.message if isinstance(given, ElfError) else given.body["error"]
    with pytest.raises(Unreachable, match=why):
        await fetched(master(given)[0])
