"""Answers to errors, and requests of foreign web pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from tests.control.fakes import FakeBackend

Api = TestClient[Any, Any]


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
async def api(backend: FakeBackend) -> AsyncIterator[Api]:
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client


async def test_errors_are_json_with_their_status(api: Api, backend: FakeBackend) -> None:
    for path, status in (
        ("/v1/jobs/no/job", 404),
        ("/v1/nothing", 404),
        ("/v1/jobs/shop/top/results?from=x", 400),
        ("/v1/jobs/shop/top/results?wait=nan", 400),
        ("/v1/jobs/shop/top/arrow?from=1", 400),
        ("/v1/jobs/shop/top/arrow?from=1&to=2&types=mine", 400),
        ("/v1/jobs/shop/top/schema", 409),
    ):
        answer = await api.get(path)
        assert answer.status == status, path
        body = await answer.json()
        assert body["error"]
        assert {"error", "code"} <= set(body)
    backend.down = 1
    answer = await api.get("/v1/jobs")
    assert (answer.status, (await answer.json())["code"]) == (503, 69)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Host": ""}]
)
async def test_web_pages_get_nothing(api: Api, backend: FakeBackend, headers: dict[str, str]) -> None:
    answer = await api.post("/v1/jobs/shop/top/pause", headers=headers)
    assert answer.status in (400, 403)
    assert backend.asked == []
