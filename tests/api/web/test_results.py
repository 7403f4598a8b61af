"""Results over HTTP: lines and Arrow, page by page, and following what comes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import aiohttp
import pyarrow as pa
import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from tests.control.fakes import FakeBackend, table
from tests.patience import PATIENCE_S

Api = TestClient[Any, Any]


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
async def api(backend: FakeBackend) -> AsyncIterator[Api]:
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client


async def test_results_are_lines_and_the_header_names_the_next_interval(
    api: Api, backend: FakeBackend
) -> None:
    for index in range(5):
        backend.publish(index, table(("apple", index)))
    answer = await api.get("/v1/jobs/shop/top/results?from=1&limit=2")
    assert answer.content_type == "application/x-ndjson"
    lines = [json.loads(line) for line in (await answer.read()).splitlines()]
    assert [line["interval"]["index"] for line in lines] == [1, 2]
    assert lines[0]["rows"] == [{"product": "apple", "hits": 1}]
    assert answer.headers["X-Elf-Next"] == "3"
    empty = await api.get("/v1/jobs/shop/top/results?from=50")
    assert (await empty.read(), empty.headers["X-Elf-Next"]) == (b"", "50")


async def test_following_brings_what_is_there_and_what_comes(api: Api, backend: FakeBackend) -> None:
    for index in range(4):
        backend.publish(index, table(("apple", index)))
    async with api.get("/v1/jobs/shop/top/results?follow=1&from=2") as answer:
        found: list[int] = []

        async def until(count: int) -> None:
            while len(found) < count:
                line = await answer.content.readline()
                if line.strip():
                    found.append(json.loads(line)["interval"]["index"])

        await asyncio.wait_for(until(2), PATIENCE_S)
        backend.down = 2
        await backend.publish_now(7, table(("beer", 1)))
        await asyncio.wait_for(until(3), PATIENCE_S)
        assert found == [2, 3, 7]
        async with backend.changed:
            backend.deleted = True
            backend.changed.notify_all()
        assert (await asyncio.wait_for(answer.content.read(), PATIENCE_S)).strip() == b""


async def test_following_up_to_an_interval_ends_there(api: Api, backend: FakeBackend) -> None:
    for index in (2, 3, 9):
        backend.publish(index, table(("apple", index)))
    answer = await api.get("/v1/jobs/shop/top/results?follow=1&from=2&to=5")
    text = await asyncio.wait_for(answer.read(), PATIENCE_S)
    assert [json.loads(line)["interval"]["index"] for line in text.split()] == [2, 3]
    assert len(backend.asked) < 5


async def test_arrow_gives_the_intervals_after_from_up_to_to_across_pages(
    api: Api, backend: FakeBackend
) -> None:
    for index in range(8):
        rows = table(("apple", index), ("beer", 1)) if index != 5 else table()
        backend.publish(index, rows, state="FINAL")
    answer = await api.get("/v1/jobs/shop/top/arrow?from=0&to=6")
    assert answer.status == 200
    read = pa.ipc.open_stream(await answer.read()).read_all()
    assert read.schema.names == [
        "interval_index", "interval_start", "interval_end", "state", "rev", "completeness", "product", "hits",
    ]  # fmt: skip
    assert read["interval_index"].to_pylist() == [1, 1, 2, 2, 3, 3, 4, 4, 6, 6]
    assert read["hits"].to_pylist() == [1, 1, 2, 1, 3, 1, 4, 1, 6, 1]
    assert str(read.schema.field("interval_start").type) == "timestamp[us, tz=UTC]"
    assert [str(read.schema.field(n).type) for n in ("interval_index", "rev", "completeness")] == [
        "int64",
        "int32",
        "double",
    ]


async def test_arrow_of_intervals_with_different_columns_has_all_of_them(
    api: Api, backend: FakeBackend
) -> None:
    backend.publish(0, pa.table({"a": pa.array([1], pa.int64()), "b": pa.nulls(1)}))
    backend.publish(1, pa.table({"a": pa.array([1.5], pa.float64()), "c": ["x"]}))
    read = pa.ipc.open_stream(await (await api.get("/v1/jobs/shop/top/arrow?from=-1&to=9")).read()).read_all()
    assert read.select(["a", "b", "c"]).to_pylist() == [
        {"a": 1.0, "b": None, "c": None},
        {"a": 1.5, "b": None, "c": "x"},
    ]


async def test_arrow_reports_expired_intervals_and_is_empty_without_results(
    api: Api, backend: FakeBackend
) -> None:
    answer = await api.get("/v1/jobs/shop/top/arrow?from=0&to=9")
    assert pa.ipc.open_stream(await answer.read()).read_all().num_rows == 0
    backend.publish(10, table(("apple", 1)))
    backend.expired = 9
    assert (await api.get("/v1/jobs/shop/top/arrow?from=8&to=20")).status == 410
    assert (await api.get("/v1/jobs/shop/top/arrow?from=9&to=20")).status == 200


async def test_arrow_never_mixes_two_jobs_of_one_name(api: Api, backend: FakeBackend) -> None:
    for index in range(12):
        backend.publish(index, table(("apple", 1)))
    answer = await api.get("/v1/jobs/shop/top/arrow?from=-1&to=11")
    assert answer.headers["X-Elf-Incarnation"] == "a1"
    assert pa.ipc.open_stream(await answer.read()).read_all().num_rows == 12
    backend.remade_after = 1
    with pytest.raises(aiohttp.ClientError):
        await (await api.get("/v1/jobs/shop/top/arrow?from=-1&to=11")).read()
    assert backend.incarnation == "b2"


async def test_the_schema_is_sparks_and_arrows(api: Api, backend: FakeBackend) -> None:
    backend.publish(0, table(("apple", 1)))
    body = await (await api.get("/v1/jobs/shop/top/schema")).json()
    assert body["ddl"] == (
        "interval_index BIGINT, interval_start TIMESTAMP, interval_end TIMESTAMP, state STRING, rev INT, "
        "completeness DOUBLE, product STRING, hits BIGINT"
    )
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(body["arrow"])))
    assert schema.names[-2:] == ["product", "hits"]


async def test_decimals_keep_their_digits(api: Api, backend: FakeBackend) -> None:
    backend.publish(0, pa.table({"d": pa.array([Decimal("12345678901234567890.123")])}))
    assert b'"d":12345678901234567890.123' in await (await api.get("/v1/jobs/shop/top/results")).read()
