"""The live page's files and routes, without a browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from elfmesh import ids
from elfmesh.api.app import make_app
from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.identity.principal import LOOPBACK_READER, Principal, Role
from elfmesh.api.web.page.routes import functions, me
from tests.control.fakes import FakeBackend

Api = TestClient[Any, Any]
JOB = "CREATE JOB shop.top AS SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend()
    streams = [{"stream": "log", "formats": ["json"], "columns": [], "agents": ["web1"]}]
    backend.lists("streams", streams)
    backend.lists("list", [{"job": "shop/top"}])
    return backend


@pytest.fixture
async def api(backend: FakeBackend) -> AsyncIterator[Api]:
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1"), auto_decompress=False) as client:
        yield client


@pytest.mark.parametrize("place", ["/", "/page"])
async def test_a_browser_at_the_api_is_sent_to_the_page(api: Api, place: str) -> None:
    answer = await api.get(place, allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (302, "/page/")


async def notified(caller: Principal) -> dict[str, Any]:
    @web.middleware
    async def identified(request: web.Request, handler: Any) -> web.StreamResponse:
        request[PRINCIPAL] = caller
        response: web.StreamResponse = await handler(request)
        return response

    app = web.Application(middlewares=[identified])
    app.router.add_get("/v1/me", me)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        answer = await client.get("/v1/me")
        body: dict[str, Any] = await answer.json()
        return body


async def test_a_caller_learns_its_roles_and_namespaces() -> None:
    reader = await notified(LOOPBACK_READER)
    assert (reader["read"], reader["submit"], reader["operate"], reader["namespaces"]) == (
        True,
        False,
        False,
        [],
    )
    submitter = await notified(
        Principal("s", frozenset({Role.SUBMITTER}), frozenset({"shop"}), "certificate")
    )
    assert (submitter["submit"], submitter["operate"], submitter["namespaces"]) == (True, False, ["shop"])
    operator = await notified(Principal("o", frozenset({Role.OPERATOR}), source="token"))
    assert (operator["operate"], operator["namespaces"]) == (True, ["*"])
    agent = await notified(Principal("a", frozenset({Role.AGENT}), source="certificate"))
    assert [agent[what] for what in ("read", "submit", "operate")] == [False] * 3
    assert agent["insecure_network"] is False


async def test_the_console_learns_names_of_this_overlay_and_of_the_language(api: Api) -> None:
    body = json.loads(await (await api.get("/v1/language")).read())
    assert [each["stream"] for each in body["streams"]] == ["log"]
    assert body["jobs"] == ["shop/top"]
    kinds = {each["name"]: each["kind"] for each in body["functions"]}
    assert (kinds["count"], kinds["tumble"], kinds["upper"]) == ("aggregate", "window", "function")
    assert all(each["signature"] for each in functions())


async def test_a_check_reports_what_a_text_reads_and_asks_no_agent(api: Api, backend: FakeBackend) -> None:
    body = json.loads(await (await api.post("/v1/check", json={"text": JOB})).read())
    assert (body["job"], body["streams"], body["columns"]) == ("shop/top", ["log"], ["k", "n"])
    assert {"k", "ts"} <= set(body["fields"])
    assert backend.asked == []


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (JOB.replace("SELECT", "SELEC"), 1, 24),
        (JOB.replace("count(*)", "\nnosuch(k)"), 2, 1),
        ("SELECT count(*) FROM log", 1, 1),
    ],
)
async def test_a_check_reports_where_a_text_is_wrong(api: Api, text: str, line: int, column: int) -> None:
    answer = await api.post("/v1/check", json={"text": text})
    body = json.loads(await answer.read())
    assert (answer.status, body["line"], body["column"]) == (400, line, column)
    assert body["error"]


@pytest.mark.parametrize("body", [{}, {"text": 5}, {"text": "x" * 300_000}])
async def test_checking_needs_a_text_of_bounded_size(api: Api, body: dict[str, Any]) -> None:
    assert (await api.post("/v1/check", json=body)).status in (400, 413)


async def test_one_tree_can_be_asked_for(api: Api, backend: FakeBackend) -> None:
    await api.get("/v1/trees?tree=abcd")
    await api.get("/v1/trees?tree=all")
    await api.get("/v1/trees")
    assert [body.get("tree") for _, body in backend.asked] == ["abcd", ids.ALL_AGENTS.hex(), None]
