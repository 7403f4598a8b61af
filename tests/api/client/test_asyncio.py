"""The client of asyncio does the same as the blocking one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.identity.bearer import write_private
from elfmesh.api.identity.credentials import Credentials
from elfmesh.errors import ConfigError, ElfError, RuntimeFailure, Unreachable
from tests.cli.remote import TEXT, api, backend, job

__all__ = ["api", "backend", "job"]


async def test_the_async_client_does_the_same(api: str) -> None:
    async with AsyncClient(api) as client:
        assert (await client.apply(TEXT))["version"] == 1
        found = [each["interval"]["index"] async for each in client.results("shop/top")]
        assert found == [0, 1, 2, 3, 4]
        with pytest.raises(ElfError):
            await client.describe("no/job")


async def insert_twice(file: Path, between: Callable[[], object], refused: Callable[[], object]) -> int:
    """Insert at an agent that only accepts the token "new" after its first answer; returns its refusals."""
    answers: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        assert await request.read() == b"{}"
        right = not answers or request.headers["Authorization"] == "Bearer new"
        answers.append(200 if right else 401)
        if not right:
            refused()
        return web.json_response({"position": len(answers)}, status=answers[-1])

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        credentials = Credentials(token_file=str(file))
        async with AsyncClient(f"{server.host}:{server.port}", credentials=credentials) as client:
            for position in (1, 2):
                await client.insert("a/b", [b"{}"], stream=None, producer="p", position=position)
                between()
    return answers.count(401)


async def test_an_insert_has_the_token_of_an_agent_that_starts_again_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "token"
    write_private(file, b"old")
    assert await insert_twice(file, int, lambda: write_private(file, b"new")) == 1
    write_private(file, b"old")
    with pytest.raises(RuntimeFailure, match="401"):
        await insert_twice(file, int, int)


async def test_an_agent_whose_token_is_gone_is_away_if_it_has_answered_before(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(ConfigError, match="token"):
        await insert_twice(file, int, int)
    write_private(file, b"old")
    with pytest.raises(Unreachable, match="token"):
        await insert_twice(file, file.unlink, int)
