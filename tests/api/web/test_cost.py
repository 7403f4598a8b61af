"""`POST /v1/cost`: the job that stands for a query, the sums over agents, and wrong texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from elfmesh.api.authority.needs import routes
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.protocol.events import Reply
from elfmesh.control.requests.verbs import Need
from elfmesh.errors import QueryError
from tests.control.fakes import FakeBackend, served

Api = TestClient[Any, Any]
COUNT = "SELECT count(*) AS n FROM log ON (role = 'web')"


def row(name: str, **of: Any) -> dict[str, Any]:
    about = {"agent": name, "id": name, "streams": [], "bytes": 10, "lines": 2, "seconds": 1.5}
    return about | {"bytes_max": None, "refusal": ""} | of


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend()
    backend.lists("cost", [row("a"), row("b", bytes=5, seconds=2.5)], silent=1)
    return backend


@pytest.fixture
async def api(backend: FakeBackend) -> AsyncIterator[Api]:
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client


async def test_a_query_is_asked_about_as_the_job_that_it_would_become(api: Api, backend: FakeBackend) -> None:
    answer = await api.post("/v1/cost", json={"text": COUNT})
    body = await answer.json()
    assert answer.status == 200
    assert (body["job"], body["streams"]) == (None, ["log"])
    assert (body["bytes"], body["lines"], body["seconds"]) == (15, 4, 2.5)
    assert [each["agent"] for each in body["agents"]] == ["a", "b"]
    assert body["asked"] == {"answered": 7, "expected": 8}
    ((verb, asked),) = backend.asked
    assert (verb, asked["leased"]) == ("cost", True)
    assert read_plan(asked["text"]).inputs == (("log", (("role", "web"),)),)


async def test_a_range_is_that_of_the_job(api: Api, backend: FakeBackend) -> None:
    clause = "HISTORY '1 h' UNTIL '10 min'"
    assert (await api.post("/v1/cost", json={"text": COUNT, "range": clause})).status == 200
    assert clause in backend.asked[0][1]["text"]
    for wrong in (7, "HISTORY", "x" * 201):
        answer = await api.post("/v1/cost", json={"text": COUNT, "range": wrong})
        assert answer.status == 400


async def test_a_job_is_asked_about_as_it_is(api: Api, backend: FakeBackend) -> None:
    text = "CREATE JOB shop.top EVERY '1 s' AS SELECT count(*) AS n FROM log"
    body = await (await api.post("/v1/cost", json={"text": text})).json()
    assert body["job"] == "shop/top"
    assert backend.asked == [("cost", {"text": text, "leased": False})]


async def test_agents_that_refuse_are_not_in_the_sums(api: Api, backend: FakeBackend) -> None:
    backend.lists("cost", [row("a"), row("b", seconds=None, lines=None, refusal="it would read too much")])
    body = await (await api.post("/v1/cost", json={"text": COUNT})).json()
    assert (body["bytes"], body["lines"], body["seconds"]) == (10, 2, 1.5)
    backend.lists("cost", [row("a"), row("b", seconds=None, lines=None)])
    body = await (await api.post("/v1/cost", json={"text": COUNT})).json()
    assert (body["bytes"], body["lines"], body["seconds"]) == (20, None, None)


async def test_a_query_over_results_costs_no_reads(api: Api, backend: FakeBackend) -> None:
    body = await (await api.post("/v1/cost", json={"text": "SELECT n FROM shop.top"})).json()
    assert (body["agents"], body["bytes"], body["seconds"]) == ([], 0, 0.0)
    assert backend.asked == []


@pytest.mark.parametrize("body", [{}, {"text": 3}, {"text": "SELECT"}, {"text": COUNT + " HISTORY '1 d'"}])
async def test_wrong_texts_are_refused(api: Api, body: dict[str, Any]) -> None:
    answer = await api.post("/v1/cost", json=body)
    assert answer.status == 400
    assert (await answer.json())["error"]


async def test_an_agent_that_does_not_answer_is_an_error(api: Api, backend: FakeBackend) -> None:
    backend.replies["cost"] = Reply(0, 503, {"error": "this part of the overlay is not ready"})
    assert (await api.post("/v1/cost", json={"text": COUNT})).status == 503


def test_readers_may_ask() -> None:
    assert routes()["POST", "/v1/cost"].need is Need.READ


async def test_both_clients_ask(backend: FakeBackend) -> None:
    with served(backend) as address:
        async with AsyncClient(address) as client:
            assert (await client.cost(COUNT))["seconds"] == 2.5


def test_an_error_is_at_its_place(backend: FakeBackend) -> None:
    with served(backend) as address, pytest.raises(QueryError) as caught:
        connect(address).cost("SELECT zz( FROM log")
    assert (caught.value.line, caught.value.column) == (1, 10)
