"""A program's connection to its agent: tokens that change while it attaches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer
from aiohttp.typedefs import Handler

from elfmesh.api.client.attachment import Attachment
from elfmesh.api.identity.bearer import new_token
from elfmesh.errors import ConfigError, RuntimeFailure


def serving(program: Handler) -> TestServer:
    """An agent that answers programs like this."""
    app = web.Application()
    app.router.add_get("/v1/programs/{namespace}/{name}", program)
    return TestServer(app)


def attachment_to(server: BaseTestServer) -> Attachment:
    async def nothing(*_: object) -> bytes:
        return b""

    return Attachment(
        f"{server.host}:{server.port}",
        program="shop/top",
        creator="me",
        process=bytes(20),
        handle=nothing,
        role=lambda _: None,
    )


async def run_until(done: asyncio.Event, run: Coroutine[Any, Any, None]) -> None:
    """Run until something has happened; raises what ends the run before."""
    running, waiting = asyncio.create_task(run), asyncio.create_task(done.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        await running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def attach(directory: Path, accepted: list[str], again: bool) -> int:
    """Attach to an agent that wants a new token; with `again` it is written while the old one is refused."""
    tried = 0

    async def program(request: web.Request) -> web.StreamResponse:
        nonlocal tried
        tried += 1
        if request.headers.get("Authorization") not in accepted:
            if again:
                accepted.append(f"Bearer {new_token(directory)[0]}")
            raise web.HTTPUnauthorized
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    async with serving(program) as server:
        attachment = attachment_to(server)
        attached = asyncio.Event()
        await run_until(attached, attachment.run(attached.set))
    return tried


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = new_token(tmp_path)[1]
    monkeypatch.setenv("ELF_TOKEN_FILE", str(path))
    return path


async def test_a_program_sends_the_new_token_to_an_agent_that_restarts_while_it_attaches(
    token_file: Path,
) -> None:
    assert await attach(token_file.parent, [], again=True) == 2


async def test_a_token_that_is_wrong_and_stays_so_ends_the_program(token_file: Path) -> None:
    with pytest.raises(RuntimeFailure, match=r"attaching to .*: status 401"):
        await attach(token_file.parent, [], again=False)


async def test_a_program_waits_for_the_token_of_an_agent_that_restarts(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent ends; it refuses the old token, which is gone then, and writes another one a moment later."""
    monkeypatch.setattr("elfmesh.api.client.attachment.RETRY_S", 0.0)
    remove, loop = token_file.unlink, asyncio.get_running_loop()
    accepted: list[str] = []
    tries = 0
    attached_again = asyncio.Event()

    def write() -> None:
        accepted.append(f"Bearer {new_token(token_file.parent)[0]}")

    async def program(request: web.Request) -> web.StreamResponse:
        nonlocal tries
        tries += 1
        if tries == 2:
            remove()
            loop.call_later(0.02, write)
            raise web.HTTPUnauthorized
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if tries > 2:
            assert request.headers["Authorization"] in accepted
            attached_again.set()
            await socket.receive()
        return socket

    async with serving(program) as server:
        await run_until(attached_again, attachment_to(server).run(lambda: None))
    assert tries == 3


async def test_a_token_that_is_gone_at_the_first_try_is_named(token_file: Path) -> None:
    remove = token_file.unlink

    async def program(request: web.Request) -> web.StreamResponse:
        remove()
        raise web.HTTPUnauthorized

    async with serving(program) as server:
        with pytest.raises(ConfigError, match="token"):
            await attachment_to(server).run(lambda: None)
