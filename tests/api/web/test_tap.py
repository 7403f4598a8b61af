"""POST /v1/tap: what may be asked for, and how lines and an error between them are answered."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.web.tap import TapRequest, tap
from elfmesh.errors import DataError, ElfError, UsageError

TEXTS = ["SELECT * FROM clicks"]


class Lines:
    """Shows some lines, then fails if it is to; it knows whether it was closed."""

    def __init__(self, count: int = 0, error: ElfError | None = None) -> None:
        self.count, self.error, self.closed = count, error, False
        self.asked: TapRequest | None = None

    async def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        self.asked = request
        try:
            for at in range(self.count):
                yield {"line": f"{at}"}
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def posted(source: Lines, body: dict[str, Any]) -> list[dict[str, Any]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await tap(request, source, body)

    app = web.Application()
    app.router.add_post("/v1/tap", handle)
    async with TestClient(TestServer(app)) as client, client.post("/v1/tap") as answer:
        assert answer.status == 200
        return [json.loads(line) for line in (await answer.read()).splitlines()]


async def test_each_line_is_a_line_of_json() -> None:
    source = Lines(3)
    assert await posted(source, {"texts": TEXTS, "rate": 7}) == [{"line": "0"}, {"line": "1"}, {"line": "2"}]
    assert source.asked == TapRequest(tuple(TEXTS), rate=7)
    assert source.closed


async def test_an_error_between_lines_is_the_last_line() -> None:
    *lines, last = await posted(Lines(2, DataError("the log is gone", where="clicks")), {"texts": TEXTS})
    assert lines == [{"line": "0"}, {"line": "1"}]
    assert "the log is gone" in last["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "missing required field `texts`"),
        ({"texts": []}, "length >= 1"),
        ({"texts": TEXTS * 3}, "length <= 2"),
        ({"texts": TEXTS, "limit": 0}, "`int` >= 1 - at `$.limit`"),
        ({"texts": TEXTS, "limit": 100_001}, "`int` <= 100000 - at `$.limit`"),
        ({"texts": TEXTS, "rate": 201}, "`int` <= 200 - at `$.rate`"),
        ({"texts": TEXTS, "seconds": 0}, "`float` > 0.0 - at `$.seconds`"),
        ({"texts": TEXTS, "seconds": 3601}, "`float` <= 3600.0 - at `$.seconds`"),
        ({"texts": TEXTS, "colour": 1}, "unknown field `colour`"),
    ],
)
async def test_what_may_not_be_asked_for_is_wrong_usage(body: dict[str, Any], message: str) -> None:
    source = Lines(1)
    with pytest.raises(UsageError) as refused:
        await tap(None, source, body)  # type: ignore[arg-type]  # nothing is answered
    assert message in str(refused.value)
    assert source.asked is None


async def test_what_is_wrong_before_the_first_line_is_an_answer_of_its_own() -> None:
    with pytest.raises(DataError, match="no such stream"):
        await tap(None, Lines(0, DataError("no such stream")), {"texts": TEXTS})  # type: ignore[arg-type]  # nothing is answered
