"""Requests that are to reach what only this host can: however the address is written, and when it changes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from elfmesh.agent.sinks.addresses import CheckedResolver, Forbidden
from elfmesh.agent.sinks.base import Unavailable
from elfmesh.agent.sinks.config import WebhookSink
from elfmesh.agent.sinks.webhook import Webhook
from elfmesh.storage.storage import DiskStorage
from tests.agent.sinks.rig import LOG, item

SPELLINGS = (
    *("127.0.0.1", "2130706433", "127.1", "017700000001", "0x7f000001", "0x7f.1", "127.000.000.001", "0"),
    *(
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ),
    *("[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]", "[::]", "0.0.0.0"),
)


@pytest.fixture
async def inside() -> AsyncIterator[tuple[int, list[str]]]:
    """A server of this host, and who has asked it."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=204)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1], asked
    await runner.cleanup()


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Any]:
    made: list[Webhook] = []
    storage = DiskStorage(tmp_path / "sinks")

    def make(host: str, port: int) -> Webhook:
        sink = WebhookSink(jobs=("*",), url=f"http://{host}:{port}/")
        made.append(Webhook(f"hook{len(made)}", sink, storage))
        return made[-1]

    yield make
    for each in made:
        await each.close()
    storage.close()


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_this_host_is_reached(host: str, inside: Any, hook: Any) -> None:
    port, asked = inside
    with pytest.raises(Unavailable):
        await hook(host, port).write(LOG, item(1))
    assert asked == []


class Rebinding(AbstractResolver):
    """A name server of the attacker: public when it is looked at, this host when it is connected to."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        pass


async def test_a_name_that_changes_its_address_is_resolved_once_and_that_is_connected_to(
    inside: Any, hook: Any
) -> None:
    port, asked = inside
    sink = hook("name.example", port)
    sink._post._resolver._resolver = Rebinding("127.0.0.1")
    with pytest.raises(Unavailable, match="not public"):
        await sink.write(LOG, item(1))
    assert asked == []


async def test_the_address_is_checked_where_the_socket_is_made(
    inside: Any, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else fails to notice it: the resolver's own check is taken away here."""
    port, asked = inside
    sink = hook("name.example", port)
    resolver = sink._post._resolver
    monkeypatch.setattr(resolver, "resolve", Rebinding("127.0.0.1").resolve)
    with pytest.raises(Unavailable, match="not public"):
        await sink.write(LOG, item(1))
    assert asked == []


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "169.254.169.254", "fe80::1", "fec0::1", "192.0.0.8", "100.64.0.1"]
)
def test_sockets_to_what_is_not_public_are_not_made(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = (host, 80, 0, 0) if ":" in host else (host, 80)
    with pytest.raises(Forbidden):
        CheckedResolver(()).open_socket((family, socket.SOCK_STREAM, 6, "", address))
    CheckedResolver(("::/0", "0.0.0.0/0")).open_socket((family, socket.SOCK_STREAM, 6, "", address)).close()
