"""A program's connection to its agent: tokens that change while it attaches."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from elfmesh.control.identity.bearer import new_token
from elfmesh.control.web.attachment import Attachment
from elfmesh.errors import RuntimeFailure


async def attach(directory: Path, accepted: list[str], anew: bool) -> int:
    """Attach to an agent that wants a new token; with `anew` it is written while the old one is refused."""
    tried = 0

    async def program(request: web.Request) -> web.StreamResponse:
        nonlocal tried
        tried += 1
        if request.headers.get("Authorization") not in accepted:
            if anew:
                accepted.append(f"Bearer {new_token(directory)[0]}")
            raise web.HTTPUnauthorized
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    async def nothing(*_: object) -> bytes:
        return b""

    app = web.Application()
    app.router.add_get("/v1/programs/{namespace}/{name}", program)
    async with TestServer(app) as server:
        attachment = Attachment(
            f"{server.host}:{server.port}",
            program="shop/top",
            creator="me",
            process=bytes(20),
            handle=nothing,
            role=lambda _: None,
        )
        attached = asyncio.Event()
        running = asyncio.create_task(attachment.run(attached.set))
        waiting = asyncio.create_task(attached.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            await running
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return tried


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = new_token(tmp_path)[1]
    monkeypatch.setenv("ELF_TOKEN_FILE", str(path))
    return path


async def test_an_agent_that_begins_anew_while_a_program_attaches_is_told_its_new_token(
    token_file: Path,
) -> None:
    assert await attach(token_file.parent, [], anew=True) == 2


async def test_a_token_that_is_wrong_and_stays_so_ends_the_program(token_file: Path) -> None:
    with pytest.raises(RuntimeFailure, match=r"attaching to .*: status 401"):
        await attach(token_file.parent, [], anew=False)
