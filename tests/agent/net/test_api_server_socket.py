"""The API at a unix socket: its own user operates there, no other user reaches it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from pathlib import Path

import pytest

from elfmesh.agent.net.api_server import ApiServer, bind_socket
from elfmesh.agent.settings.config import AgentConfig, config_of
from elfmesh.agent.settings.security import Security
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import Client
from elfmesh.api.identity.bearer import TOKEN_FILE, noted_token, read_token
from elfmesh.api.identity.ca import create
from elfmesh.errors import ConfigError, RuntimeFailure, Unreachable
from tests.agent.net.test_api_server import config, serving

pytestmark = pytest.mark.asyncio


def plain(tmp_path: Path, path: Path) -> AgentConfig:
    data = tmp_path / "data"
    data.mkdir()
    return config_of({"data_dir": str(data), "api": "127.0.0.1:0", "api_socket": str(path)}, "test")


@pytest.mark.parametrize("secured", [False, True])
async def test_its_own_user_operates_there_without_token_or_certificate(
    tmp_path: Path, secured: bool
) -> None:
    path = tmp_path / "api.sock"
    if secured:
        notified = config(create(tmp_path / "ca", "shop"), tmp_path)
        notified = config_of({**_raw(notified), "api_socket": str(path)}, "test")
    else:
        notified = plain(tmp_path, path)
    async with serving(notified) as (_, _, backend):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with AsyncClient(f"unix:{path}") as client:
            assert await client.get("agents") == []
        blocking = await asyncio.to_thread(Client(f"unix:{path}").get, "jobs")
        assert blocking == []
        me = await asyncio.to_thread(Client(f"unix:{path}")._connection.ask, "GET", "/v1/me")
        assert (me["source"], me["operate"]) == ("unix socket", True)
        assert backend.asked == ["agents", "list"]
    assert not path.exists()


async def test_a_client_that_waits_while_an_agent_starts_reads_the_token_of_this_boot(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        notified = plain(tmp_path, tmp_path / "api.sock")
        address = ApiServer(notified, Security(notified), stack).address
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))):
            assert noted_token(address) == read_token(tmp_path / "data" / TOKEN_FILE)
    assert noted_token(address) is None


def _raw(notified: AgentConfig) -> dict[str, object]:
    tls = {"dir": notified.tls.dir}
    return {"data_dir": notified.data_dir, "cluster": "shop", "api": "127.0.0.1:0", "tls": tls}


async def test_what_a_dead_agent_left_is_replaced_and_what_lives_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "api.sock")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()
    with bind_socket(path):
        with pytest.raises(RuntimeFailure, match="in use"):
            bind_socket(path)
        assert Path(path).exists()  # noqa: ASYNC240 - a test


async def test_a_file_is_never_taken_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("text")
    with pytest.raises(RuntimeFailure):
        bind_socket(str(path))
    assert path.read_text() == "text"


async def test_a_missing_agent_and_a_missing_path_are_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no agent answers at unix:"):
        Client(f"unix:{tmp_path}/none.sock").get("agents")
    with pytest.raises(ConfigError, match="no path"):
        Client("unix:")
