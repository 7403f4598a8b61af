"""Rows of intervals as tables with one schema, and the answers to requests that cannot be met."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.api.web.row_stream import RowsRefused, open_rows
from elfmesh.control.protocol.events import Reply
from tests.control.fakes import FakeBackend, table

JOB = {"job": "shop/top"}


async def rows_of(backend: FakeBackend, **question: Any) -> list[dict[str, Any]]:
    async def ask(verb: str, body: dict[str, Any]) -> Reply:
        return await backend.request(verb, body)

    stream = await open_rows(ask, JOB, {"from": 0, "to": 9, "state": "final", **question})
    tables = [each async for each in stream.tables]
    assert {str(each.schema) for each in tables} <= {str(stream.columns)}
    return [row for each in tables for row in each.to_pylist()]


async def test_tables_of_all_pages_have_one_schema() -> None:
    backend = FakeBackend()
    for index in range(8):
        backend.publish(index, table(("apple", index)))
    backend.publish(8, pa.table({"hits": [0.5]}))
    found = await rows_of(backend)
    assert [(row["interval_index"], row["product"], row["hits"]) for row in found] == [
        *((index, "apple", float(index)) for index in range(8)),
        (8, None, 0.5),
    ]


async def test_an_expired_interval_is_refused_with_410() -> None:
    backend = FakeBackend()
    backend.publish(5, table(("apple", 1)))
    backend.expired = 4
    with pytest.raises(RowsRefused, match="is not kept any more") as caught:
        await rows_of(backend, **{"from": 3})
    assert caught.value.status == 410


async def test_a_log_of_another_incarnation_ends_the_tables() -> None:
    backend = FakeBackend()
    for index in range(8):
        backend.publish(index, table(("apple", index)))
    backend.remade_after = 1
    with pytest.raises(ConnectionAbortedError, match="broke off"):
        await rows_of(backend)
