from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pyarrow as pa
import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import BODY_BYTES_MAX, make_app
from elfmesh.api.web.tap import TapRequest
from elfmesh.control.jobs.spark_types import ddl, row_schema
from elfmesh.control.protocol.events import Reply
from tests.control.fakes import FakeBackend

Api = TestClient[Any, Any]


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
async def api(backend: FakeBackend) -> AsyncIterator[Api]:
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client


async def test_apply_passes_its_fields_on_and_answers_what_came_back(api: Api, backend: FakeBackend) -> None:
    backend.replies["apply"] = Reply(0, 200, {"job": "shop/top", "version": 1})
    answer = await api.post("/v1/jobs", json={"text": "CREATE JOB", "dry_run": True, "other": 1})
    assert (answer.status, await answer.json()) == (200, {"job": "shop/top", "version": 1})
    assert backend.asked == [("apply", {"text": "CREATE JOB", "dry_run": True})]


async def test_apply_names_the_rules_of_the_hosts_that_would_be_members(
    api: Api, backend: FakeBackend
) -> None:
    row = {"status": "alive", "streams": ["s"], "labels": {}, "authority": {"keep_in": ["region=eu"]}}
    backend.replies["agents"] = Reply(0, 200, {"agents": [row]})
    text = "CREATE JOB shop.top EVERY '1 s' AS SELECT count(*) AS n FROM s"
    answer = await api.post("/v1/jobs", json={"text": text, "keep_in": [["region=us"]]})
    assert answer.status == 200
    assert backend.asked[-1] == ("apply", {"text": text, "keep_in": (("region=eu",),)})


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/v1/jobs", "list"),
        ("GET", "/v1/jobs/shop/top", "describe"),
        ("DELETE", "/v1/jobs/shop/top", "delete"),
        ("POST", "/v1/jobs/shop/top/pause", "pause"),
        ("POST", "/v1/jobs/shop/top/resume", "resume"),
        ("GET", "/v1/jobs/shop/top/offsets?after=5&wait=3", "offsets"),
        ("GET", "/v1/agents", "agents"),
        ("GET", "/v1/streams", "streams"),
        ("GET", "/v1/trees", "trees"),
        ("GET", "/v1/agent", "agent"),
        ("GET", "/v1/health", "health"),
    ],
)
async def test_every_route_asks_its_verb(
    api: Api, backend: FakeBackend, method: str, path: str, verb: str
) -> None:
    answer = await api.request(method, path)
    assert answer.status == 200
    assert (await answer.json())["verb"] == verb
    body = backend.asked[0][1]
    assert body.get("job", "shop/top") == "shop/top"
    if verb == "offsets":
        assert (body["after"], body["wait"]) == (5, 3.0)


async def test_bodies_are_bounded_and_must_be_json(api: Api) -> None:
    huge = await api.post("/v1/jobs", json={"text": "x" * BODY_BYTES_MAX})
    assert huge.status == 413
    assert "error" in await huge.json()
    for data, kind in ((b"{", "application/json"), (b"[]", "application/json"), (b"{}", "text/plain")):
        answer = await api.post("/v1/jobs", data=data, headers={"Content-Type": kind})
        assert answer.status == 400


def test_every_arrow_type_of_a_result_has_a_spark_name() -> None:
    schema = pa.schema(
        [
            ("plain", pa.null()),
            ("of", pa.large_string()),
            ("a b`c", pa.dictionary(pa.int32(), pa.string())),
            ("d", pa.decimal128(20, 2)),
            ("u", pa.uint64()),
            ("day", pa.date32()),
            ("t", pa.timestamp("ns")),
            ("l", pa.list_(pa.struct([("x", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.float32())),
            ("b", pa.binary()),
        ]
    )
    text = ddl(row_schema(schema)).split("completeness DOUBLE, ")[1]
    assert text == (
        "plain STRING, of STRING, `a b``c` STRING, d DECIMAL(20,2), u DECIMAL(20,0), day DATE, t TIMESTAMP, "
        "l ARRAY<STRUCT<x: INT>>, m MAP<STRING, FLOAT>, b BINARY"
    )


@pytest.mark.parametrize("route", ["/v1/check", "/v1/tap"])
async def test_routes_that_read_texts_wait_until_the_engine_is_loaded(
    backend: FakeBackend, route: str
) -> None:
    asked, loaded = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await loaded.wait()

    async with TestClient(TestServer(make_app(backend, NoLines(), loaded=wait), host="127.0.0.1")) as client:
        text = "CREATE JOB shop.count EVERY '1 s' AS SELECT count(*) AS n FROM log"
        body = {"text": text} if route == "/v1/check" else {"texts": [text]}
        answer = asyncio.ensure_future(client.post(route, json=body))
        await asked.wait()
        assert (await client.get("/v1/health")).status == 200
        assert not answer.done()
        loaded.set()
        assert (await answer).status == 200


class NoLines:
    async def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        yield {"stream": "log"}
