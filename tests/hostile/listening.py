"""An aiohttp application on a real socket as the agent serves it, and requests as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from elfmesh.api.web.request_limits import SERVER_OPTIONS, RequestLimits
from tests.patience import PATIENCE_S

Answer = tuple[int, dict[str, str], bytes]


def head(method: str, path: str, *, host: bytes = b"127.0.0.1", body: bytes = b"", **fields: bytes) -> bytes:
    """A request."""
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: " + host, b"Connection: close"]
    lines += [name.replace("_", "-").encode() + b": " + value for name, value in fields.items()]
    lines += [b"Content-Length: %d" % len(body)] if body else []
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@dataclass
class Listening:
    """A listener and its door."""

    port: int
    server: web.Server
    request_limits: RequestLimits

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes, *, whole: bool = True) -> Answer:
        """Status, headers, body."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in top[1:])
            }
            size = int(headers.get("content-length", 0))
            return int(top[0].split(" ")[1]), headers, await reader.readexactly(size) if whole else b""
        finally:
            writer.close()

    async def until_connected(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.server.connections) < count:  # noqa: ASYNC110 - nothing sets an event
                await asyncio.sleep(0.002)

    async def until_busy(self, count: int, *, at_most: bool = False) -> None:
        """Wait until so many requests are being answered, or more; `at_most`: or fewer."""

        def is_reached() -> bool:
            busy = sum(self.request_limits._busy.values())
            return busy <= count if at_most else busy >= count

        async with asyncio.timeout(PATIENCE_S):
            while not is_reached():  # noqa: ASYNC110 - nothing sets an event
                await asyncio.sleep(0.002)


@asynccontextmanager
async def listening(app: web.Application, request_limits: RequestLimits) -> AsyncIterator[Listening]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, **SERVER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    assert runner.server is not None
    try:
        yield Listening(runner.addresses[0][1], runner.server, request_limits)
    finally:
        await runner.cleanup()
