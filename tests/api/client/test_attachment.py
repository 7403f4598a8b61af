"""A program stays attached to its agent through restarts, in which the agent gets another token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from elfmesh.api.client.attachment import Attachment
from elfmesh.api.identity.bearer import write_private
from elfmesh.control.protocol import program_frames
from elfmesh.errors import RuntimeFailure
from tests.patience import PATIENCE_S


async def nothing(message: program_frames.Deliver) -> bytes:
    return b""


async def attach(monkeypatch: pytest.MonkeyPatch, file: Path, *, begins_again: bool) -> list[int]:
    """What an agent answers to a program whose token file says "old" at first; until it is attached."""
    statuses: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer new":
            if begins_again:
                write_private(file, b"new\n")
            statuses.append(401)
            raise web.HTTPUnauthorized
        statuses.append(101)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    write_private(file, b"old\n")
    monkeypatch.setenv("ELF_TOKEN_FILE", str(file))
    app = web.Application()
    app.router.add_get("/v1/programs/a/b", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        attached = asyncio.Event()
        attachment = attached_to(server)
        running = asyncio.create_task(attachment.run(attached.set))
        waiting = asyncio.create_task(attached.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        ended = running.done()
        running.cancel()
        waiting.cancel()
        if ended:
            await running
        await asyncio.gather(running, waiting, return_exceptions=True)
    return statuses


def attached_to(server: BaseTestServer) -> Attachment:
    return Attachment(
        f"127.0.0.1:{server.port}",
        program="a/b",
        creator="me",
        process=b"p" * 20,
        handle=nothing,
        role=lambda role: None,
    )


async def test_an_agent_that_has_begun_again_is_asked_with_its_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await attach(monkeypatch, tmp_path / "token", begins_again=True) == [401, 101]


async def test_a_token_that_is_wrong_and_stays_so_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeFailure, match="status 401"):
        await attach(monkeypatch, tmp_path / "token", begins_again=False)


async def test_an_agent_that_does_not_know_a_frame_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of an earlier release does not know the frames of topics."""

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.close(code=1008, message=b"malformed frame")
        return socket

    monkeypatch.delenv("ELF_TOKEN_FILE", raising=False)
    app = web.Application()
    app.router.add_get("/v1/programs/a/b", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        attachment = attached_to(server)
        following = asyncio.create_task(attachment.follow("ads/clicks"))
        with pytest.raises(RuntimeFailure, match="does not know a frame"):
            await attachment.run(lambda: None)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_topic_may_be_followed_while_an_attachment_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers of a program start while its attachment repeats earlier frames to the agent."""
    received: asyncio.Queue[program_frames.FromProgram] = asyncio.Queue()

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            received.put_nowait(program_frames.from_program(message.data))
        return socket

    sends = aiohttp.ClientWebSocketResponse.send_bytes
    another = asyncio.Event()

    async def slow(self: aiohttp.ClientWebSocketResponse, data: bytes) -> None:
        another.set()
        await asyncio.sleep(0.05)  # the buffer of the connection is full
        await sends(self, data)

    monkeypatch.setattr(aiohttp.ClientWebSocketResponse, "send_bytes", slow)
    app = web.Application()
    app.router.add_get("/v1/programs/a/b", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        attachment = attached_to(server)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(attachment.follow("test/one"))]
        tasks.append(asyncio.create_task(attachment.posts_handled("test/one", "i:1")))
        await asyncio.sleep(0)
        tasks.append(running := asyncio.create_task(attachment.run(lambda: None)))
        await another.wait()
        tasks += [asyncio.create_task(attachment.follow("test/two"))]
        tasks += [asyncio.create_task(attachment.posts_handled("test/two", "i:2"))]
        asked = set[program_frames.FromProgram]()
        while len(asked) < 4 and not running.done():
            asked.add(await asyncio.wait_for(received.get(), PATIENCE_S))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert {each.topic for each in asked if isinstance(each, program_frames.Follow)} == {
        "test/one",
        "test/two",
    }
