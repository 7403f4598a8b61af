"""`GET /v1/what-if`: the cases of the command, a job without a master, wrong parameters, and who may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from elfmesh.api.authority.needs import routes
from elfmesh.api.web import what_if
from elfmesh.control.protocol.events import Reply
from elfmesh.control.requests.verbs import Need
from tests.api.test_what_if import AGENTS, EVEN, TOP, job
from tests.control.fakes import FakeBackend

Api = TestClient[Any, Any]


class Fleet(FakeBackend):
    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 5) -> Reply:
        if verb == "describe" and body["job"] == "shop/lost":
            return Reply(0, 503, {"error": "no majority answers"})
        return await super().request(verb, body, timeout_s)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    backend = Fleet()
    backend.lists("agents", AGENTS)
    backend.lists("list", [{"job": "shop/top"}, {"job": "shop/lost"}])
    backend.replies["describe"] = Reply(0, 200, job("shop/top", TOP, EVEN))
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client


async def test_the_cases_of_the_command(api: Api) -> None:
    answer = await api.get("/v1/what-if?each=rack")
    body = await answer.json()
    assert (answer.status, [case["lost"] for case in body["cases"]]) == (
        200,
        ["rack=r1", "rack=r2", "rack=r3"],
    )
    top, lost = body["cases"][0]["jobs"]
    assert (top["job"], top["members"], top["next_result"]) == ("shop/top", 6, "after a change of masters")
    assert lost == {"job": "shop/lost", "next_result": "none", "error": "no majority answers"}
    answer = await api.get("/v1/what-if?lose=agent=web1&lose=agent=web2&job=shop/top")
    (case,) = (await answer.json())["cases"]
    assert (case["agents"], [each["job"] for each in case["jobs"]]) == (["web1", "web2"], ["shop/top"])


@pytest.mark.parametrize(
    "query", ["", "?each=rack&lose=rack=r1", "?lose=rack", "?lose=rack=r9", "?each=row", "?each=rack&job=a/b"]
)
async def test_wrong_parameters_are_refused(api: Api, query: str) -> None:
    answer = await api.get(f"/v1/what-if{query}")
    assert answer.status == 400
    assert (await answer.json())["error"]


async def test_a_request_for_too_many_losses_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "WORK_MAX", 3 * 6 - 1)
    answer = await api.get("/v1/what-if?each=rack")
    assert answer.status == 400
    assert "3 losses for 6 members" in (await answer.json())["error"]
    assert (await api.get("/v1/what-if?lose=rack=r1")).status == 200


def test_a_reader_may_ask() -> None:
    assert routes()["GET", "/v1/what-if"].need is Need.READ
