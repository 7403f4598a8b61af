"""Connections that never shake hands: few at once, not for long, and no client is kept out by them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.enrolment import Listener
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.tls import client_context, server_context
from elfmesh.api.identity.trust import Files
from elfmesh.api.web import handshake_limits
from elfmesh.api.web.handshake_limits import HandshakeLimits
from tests.api.identity.certs import issued


class Echo(asyncio.Protocol):
    """Says what it hears."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


@contextlib.asynccontextmanager
async def opened(files: Files | None, **limits: float) -> AsyncIterator[tuple[HandshakeLimits, str, int]]:
    context = None if files is None else server_context(files.cert, files.key, files.ca)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        step = HandshakeLimits(sock, Echo, lambda: context, **limits)  # type: ignore[arg-type]  # numbers only
        try:
            yield step, *sock.getsockname()[:2]
        finally:
            await step.close()


async def echoed(host: str, port: int, context: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(b"hello")
    reported = await reader.readexactly(5)
    writer.close()
    return reported


async def silent(host: str, port: int, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return [await asyncio.open_connection(host, port) for _ in range(count)]


async def test_silent_connections_give_way_and_keep_no_client_out(ca: Authority) -> None:
    agent, ann = issued(ca, "web1", Role.AGENT), issued(ca, "ann", Role.OPERATOR)
    async with opened(agent, shaking_max=4, shake_s=60.0) as (step, host, port):
        crowd = await silent(host, port, 12)
        assert await echoed(host, port, client_context(ann.cert, ann.key, ann.ca)) == b"hello"
        first = [reader.read() for reader, _ in crowd[:8]]
        assert await asyncio.gather(*first) == [b""] * 8, "the oldest are closed"
        assert step.gave_way >= 8
        for _, writer in crowd:
            writer.close()


async def test_a_handshake_has_its_time_and_no_more(ca: Authority) -> None:
    async with opened(issued(ca, "web1", Role.AGENT), shake_s=0.05) as (_, host, port):
        ((reader, writer),) = await silent(host, port, 1)
        assert await reader.read() == b""
        writer.close()


async def test_without_certificates_there_is_no_handshake() -> None:
    async with opened(None) as (_, host, port):
        assert await echoed(host, port, None) == b"hello"


async def test_at_the_end_nothing_is_left_open(ca: Authority) -> None:
    async with opened(issued(ca, "web1", Role.AGENT), shake_s=60.0) as (_, host, port):
        ((reader, writer),) = await silent(host, port, 1)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_silent_connections_do_not_keep_out_a_host_that_joins(
    ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener for join tokens is there for strangers."""
    monkeypatch.setattr(
        handshake_limits.HandshakeLimits.__init__, "__kwdefaults__", {"shaking_max": 2, "shake_s": 60.0}
    )
    runner, port = await Listener(ca, 1.0).serve("127.0.0.1", 0)
    try:
        crowd = await silent("127.0.0.1", port, 6)
        context = ssl.create_default_context(cafile=str(ca.directory / "ca.pem"))
        context.check_hostname = False
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET /ca.pem HTTP/1.1\r\nHost: ca\r\nConnection: close\r\n\r\n")
        assert ca.pem in await reader.read()
        writer.close()
        assert await asyncio.gather(*(each.read() for each, _ in crowd[:4])) == [b""] * 4
        for _, writer in crowd:
            writer.close()
    finally:
        await runner.cleanup()
