"""Every request gets its caller's principal, or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from elfmesh.api.identity.identify import PRINCIPAL, Identifier, _loopback, identifying
from elfmesh.api.identity.principal import Principal, Role
from tests.control.fakes import FakeBackend

TOKEN = "a-token-of-this-agent"


@asynccontextmanager
async def serving(
    identifier: Identifier, path: Path | None = None
) -> AsyncIterator[tuple[str, list[Principal]]]:
    """Base URL, and who has called so far."""
    seen: list[Principal] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request[PRINCIPAL])
        return web.Response(text=request[PRINCIPAL].name)

    app = web.Application(middlewares=[identifying(identifier)])
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site: web.BaseSite
    site = web.TCPSite(runner, "127.0.0.1", 0) if path is None else web.UnixSite(runner, str(path))
    await site.start()
    try:
        url = "http://local" if path else f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield url, seen
    finally:
        await runner.cleanup()


async def test_an_unidentified_caller_on_loopback_may_read_and_nothing_else() -> None:
    async with serving(Identifier(TOKEN)) as (url, seen), aiohttp.ClientSession() as session:
        await session.get(url)
    assert seen[0].roles == {Role.READER}
    assert not seen[0].may_submit("shop")


async def test_the_token_makes_an_operator() -> None:
    async with serving(Identifier(TOKEN)) as (url, seen), aiohttp.ClientSession() as session:
        await session.get(url, headers={"Authorization": f"Bearer {TOKEN}"})
    assert seen[0].may_operate()
    assert TOKEN not in repr(seen[0])


@pytest.mark.parametrize(
    "given",
    [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        "Bearer \u00fcmlaut",
    ],
)
async def test_a_caller_with_a_wrong_credential_gets_no_answer(given: str) -> None:
    async with serving(Identifier(TOKEN)) as (url, seen), aiohttp.ClientSession() as session:
        answer = await session.get(url, headers={"Authorization": given})
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert TOKEN not in await answer.text()
    assert seen == []


async def test_an_agent_without_a_token_believes_none() -> None:
    async with serving(Identifier()) as (url, seen), aiohttp.ClientSession() as session:
        assert (await session.get(url, headers={"Authorization": "Bearer "})).status == 401
    assert seen == []


async def test_the_agents_own_user_operates_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    connector = aiohttp.UnixConnector(str(path))
    async with (
        serving(Identifier(TOKEN), path) as (url, seen),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await session.get(url)
    assert seen[0].may_operate()
    assert seen[0].source == "unix socket"


async def test_two_headers_do_not_pass_where_one_is_wrong() -> None:
    async with serving(Identifier(TOKEN)) as (url, seen):
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n"
            b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
        )
        assert b" 401 " in await reader.readline() or b" 400 " in await reader.read(1)
        writer.close()
        await writer.wait_closed()
    assert seen == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_what_this_host_is(host: str, expected: bool) -> None:
    assert _loopback(host) is expected


async def test_a_token_that_is_not_good_is_written_down() -> None:
    """Who tries tokens must leave a trace."""
    lines: list[tuple[str, str, bool, str]] = []

    class Audit:
        async def record(self, caller: Principal, action: str, *, allowed: bool, **reported: str) -> None:
            lines.append((caller.source, action, allowed, reported["why"]))

    app = make_app(FakeBackend(), audit=Audit(), identifier=Identifier(TOKEN))
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        answer = await client.delete("/v1/jobs/shop/top", headers={"Authorization": "Bearer guess"})
        assert answer.status == 401
    assert lines == [
        ("not believed", "DELETE /v1/jobs/shop/top", False, "the token does not belong to this agent")
    ]
    assert "guess" not in str(lines)
