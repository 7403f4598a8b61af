"""The agent's HTTP listener with certificates: who gets an answer, as whom, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from elfmesh.agent.net.api_server import ApiServer
from elfmesh.agent.runtime.pump import Pump
from elfmesh.agent.settings.config import AgentConfig, config_of
from elfmesh.agent.settings.security import Security
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.principal import Principal, Role
from elfmesh.api.identity.trust import Files
from elfmesh.api.web.programs import ProgramHost
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ConfigError, ElfError, Unreachable
from elfmesh.ingest.tap import Taps
from tests.api.identity.certs import credentials, issued


class Backend:
    """Counts what comes through."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 0.0) -> Reply:
        self.asked.append(verb)
        return Reply(0, 200, {"agents": [], "jobs": []})


class Audit:
    """Writes nothing down."""

    async def record(self, caller: Principal, action: str, **reported: Any) -> None:
        assert caller.name
        assert action


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def config(ca: Authority, tmp_path: Path, **tls: str) -> AgentConfig:
    files = issued(ca, "web1", Role.AGENT)
    (tmp_path / "data").mkdir(exist_ok=True)
    section = {"dir": str(Path(files.cert).parent), **tls}
    raw = {"data_dir": str(tmp_path / "data"), "cluster": "shop", "api": "127.0.0.1:0", "tls": section}
    return config_of(raw, "test")


@contextlib.asynccontextmanager
async def serving(notified: AgentConfig) -> AsyncIterator[tuple[ApiServer, Security, Backend]]:
    backend = Backend()
    async with contextlib.AsyncExitStack() as stack:
        security = Security(notified)
        server = ApiServer(notified, security, stack)
        parts = cast(Taps, object()), None, cast(ProgramHost, object()), Audit()
        await server.start(cast(Pump, backend), *parts, partial(asyncio.sleep, 0))
        stack.push_async_callback(server.close)
        yield server, security, backend


async def agents(server: ApiServer, files: Files) -> list[dict[str, Any]]:
    async with AsyncClient(server.address, credentials=credentials(files)) as client:
        return await client.get("agents")


async def test_people_with_certificates_are_answered(ca: Authority, tmp_path: Path) -> None:
    async with serving(config(ca, tmp_path)) as (server, _, backend):
        for role in (Role.READER, Role.OPERATOR, Role.SUBMITTER):
            assert await agents(server, issued(ca, f"x-{role}", role, namespace="shop")) == []
        assert backend.asked == ["agents"] * 3
        assert not (tmp_path / "data" / "api.token").exists()


async def test_a_caller_without_a_certificate_gets_no_answer(ca: Authority, tmp_path: Path) -> None:
    async with serving(config(ca, tmp_path)) as (server, _, backend):
        async with AsyncClient(server.address) as plain:
            with pytest.raises(Unreachable):
                await plain.get("agents")
        context = ssl.create_default_context(cafile=str(ca.directory / "ca.pem"))
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"https://{server.address}/v1/agents", ssl=context)
        assert backend.asked == []


async def test_other_cas_expired_and_old_versions_are_refused(ca: Authority, tmp_path: Path) -> None:
    other = create(tmp_path / "other", "shop")
    stranger = issued(other, "eve", Role.OPERATOR)
    Path(stranger.ca).write_bytes(ca.pem)  # noqa: ASYNC240 - a small file of a test
    async with serving(config(ca, tmp_path)) as (server, _, backend):
        for files in (stranger, issued(ca, "old", Role.OPERATOR, days=-1)):
            with pytest.raises(Unreachable):
                await agents(server, files)
        context = credentials(issued(ca, "ann", Role.OPERATOR)).context()
        assert context is not None
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"https://{server.address}/v1/agents", ssl=context)
        assert backend.asked == []


async def test_people_of_another_cluster_are_refused_by_name(ca: Authority, tmp_path: Path) -> None:
    async with serving(config(ca, tmp_path)) as (server, _, backend):
        with pytest.raises(ElfError, match="no name in cluster 'shop'"):
            await agents(server, issued(ca, "ann", Role.OPERATOR, cluster="bank"))
        assert backend.asked == []


async def test_a_client_refuses_a_server_whose_certificate_does_not_name_the_dialled_host(
    ca: Authority, tmp_path: Path
) -> None:
    """An agent's certificate names its host; a person's names none, so no server can answer with it."""
    notified = config(ca, tmp_path)
    person = issued(ca, "eve", Role.READER)
    async with serving(notified) as (server, security, backend):
        assert security.trust is not None
        security.trust.server.load_cert_chain(person.cert, person.key)
        with pytest.raises(Unreachable):
            await agents(server, issued(ca, "ann", Role.OPERATOR))
        assert backend.asked == []


async def test_a_new_certificate_answers_new_connections(ca: Authority, tmp_path: Path) -> None:
    ann = issued(ca, "ann", Role.OPERATOR)
    async with serving(config(ca, tmp_path)) as (server, security, _):
        assert security.trust is not None
        client = AsyncClient(server.address, credentials=credentials(ann))
        async with client:
            await client.get("agents")
            place = ca.directory / "for" / "web1"
            wanted, public = ca.renewed((place / "cert.pem").read_bytes())
            (place / "cert.pem").write_bytes(ca.sign(wanted, public, 2))
            assert security.trust.reload()
            server.reconsider()
            await client.get("agents")
            assert security.describe()["mode"] == "mutual TLS 1.3"
            context = credentials(ann).context()
            _, serial = await _served(server, context)
            for _ in range(100):
                if serial == security.trust.facts.serial:
                    break
                _, serial = await _served(server, context)
            assert serial == security.trust.facts.serial


async def test_a_revoked_operator_is_refused_on_the_open_connection(ca: Authority, tmp_path: Path) -> None:
    ann = issued(ca, "ann", Role.OPERATOR)
    async with serving(config(ca, tmp_path)) as (server, security, backend):
        assert security.trust is not None
        async with AsyncClient(server.address, credentials=credentials(ann)) as client:
            await client.get("agents")
            (serial,) = ca.revoke((ca.directory / "for" / "ann" / "cert.pem").read_bytes())
            (ca.directory / "for" / "web1" / "deny").write_text(serial)
            assert security.trust.reload()
            with pytest.raises(ElfError, match="revoked"):
                await client.get("agents")
        assert backend.asked == ["agents"]


async def test_connections_end_after_their_stated_life(ca: Authority, tmp_path: Path) -> None:
    ann = issued(ca, "ann", Role.OPERATOR)
    async with serving(config(ca, tmp_path, connection_life="1 ms")) as (server, _, _):
        context = credentials(ann).context()
        assert context is not None
        async with aiohttp.ClientSession() as session:
            async with session.get(f"https://{server.address}/v1/agents", ssl=context) as answer:
                await answer.read()
            assert server._identifier is not None
            opened = list(server._identifier._open)
            while time.monotonic() - min(since for _, since in server._identifier._open.values()) < 0.002:
                pass
            server.reconsider()
            assert server._identifier._open == {}
            assert all(transport.is_closing() for transport in opened)


async def test_without_certificates_the_token_is_there_and_gone_with_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    notified = config_of({"data_dir": str(tmp_path), "api": "127.0.0.1:0"}, "test")
    async with serving(notified) as (server, security, backend):
        assert security.describe() == {"mode": "loopback only"}
        assert (tmp_path / "api.token").stat().st_mode & 0o777 == 0o600
        async with AsyncClient(server.address) as client:
            assert await client.get("agents") == []
            await client.pause("shop/top")
        async with aiohttp.ClientSession() as session:
            no_client = await session.post(f"http://{server.address}/v1/jobs/shop/top/pause")
            assert no_client.status in (401, 403)
        assert backend.asked == ["agents", "pause"]
    assert not (tmp_path / "api.token").exists()


@pytest.mark.parametrize(
    "raw",
    [
        {"listen": "0.0.0.0:7400"},
        {"listen": "[::]:7400"},
        {"api": "10.0.0.5:7401"},
        {"api": "agent.example.org:7401"},
    ],
)
def test_addresses_that_other_hosts_reach_need_certificates_or_the_dangerous_setting(
    raw: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match="no certificates are configured"):
        config_of(raw, "test")
    assert config_of({**raw, "dangerously_insecure_network": True}, "test").dangerously_insecure_network
    assert config_of({**raw, "tls": {"dir": "/etc/elf/tls"}}, "test").tls.given


def test_an_agent_without_certificates_joins_no_agent_on_another_host() -> None:
    raw = {"join": ["127.0.0.1:1", "10.0.0.5:7400"]}
    with pytest.raises(ConfigError, match=r"10\.0\.0\.5.*no certificates"):
        Security(config_of(raw, "test"))
    insecure = Security(config_of({**raw, "dangerously_insecure_network": True}, "test"))
    assert "INSECURE" in insecure.describe()["mode"]


@pytest.mark.parametrize(
    "tls",
    [
        {"cert": "a"},
        {"cert": "a", "key": "b"},
        {"deny": "x"},
        {"names": {"dns:{name}": "agent"}},
        {"dir": "x", "connection_life": "0 s"},
        {"dir": "x", "connection_life": "soon"},
        {"dir": "x", "names": {"dns:{name}": "boss"}},
        {"dir": "x", "certs": "y"},
    ],
)
def test_half_a_tls_section_is_refused(tls: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="tls"):
        config_of({"tls": tls}, "test")


def test_a_client_with_half_a_certificate_on_the_command_line_connects_to_no_agent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ConfigError, match="missing"):
        connect(f"127.0.0.1:{server.getsockname()[1]}", cert="a").get("agents")


async def _served(server: ApiServer, context: ssl.SSLContext | None) -> tuple[str, str]:
    """The certificate that a new connection is answered with: fingerprint and serial."""
    import asyncio

    from elfmesh.api.identity.trust import facts_of

    host, _, port = server.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=host)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
    facts = facts_of(der)
    return facts.fingerprint, facts.serial
