"""Join tokens over real TLS: once, for one host, by its own key, from the CA that was meant."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.enrolment import Listener, enrol
from elfmesh.api.identity.joining import Token, make_token, parse_token
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import Files, Trust
from elfmesh.cli.entry import run
from elfmesh.errors import ConfigError, ElfError, RuntimeFailure, Unreachable
from tests.api.identity.certs import issued

NOW = 1_800_000_000.0


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


@asynccontextmanager
async def listening(ca: Authority) -> AsyncIterator[str]:
    runner, port = await Listener(ca, 1.0).serve("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def token(ca: Authority, host: str, at: str, **options: float) -> Token:
    import time

    return make_token(ca, host, at, now_s=time.time(), **options)  # type: ignore[arg-type]  # ttl_s only


def files(place: Path) -> Files:
    cert, key, root = (str(place / name) for name in ("cert.pem", "key.pem", "ca.pem"))
    return Files(cert, key, root)


async def refused(joining: Token, place: Path, why: str, kind: type[ElfError] = RuntimeFailure) -> None:
    with pytest.raises(kind, match=why):
        await asyncio.to_thread(enrol, joining, place)
    assert not (place / "cert.pem").exists()


async def test_a_host_gets_a_certificate_for_the_key_it_has_made(ca: Authority, tmp_path: Path) -> None:
    async with listening(ca) as at:
        joining = parse_token(token(ca, "web1", at).encode())
        await asyncio.to_thread(enrol, joining, tmp_path / "host")
    assert (tmp_path / "host" / "key.pem").stat().st_mode & 0o777 == 0o600
    trust = Trust(files(tmp_path / "host"), "shop")
    assert trust.me.name == "web1"
    assert trust.me.roles == {Role.AGENT}
    key = (tmp_path / "host" / "key.pem").read_bytes()
    kept = [path for path in ca.directory.rglob("*") if path.is_file() and key in path.read_bytes()]
    assert kept == [], "the host's key never came to the CA"


async def test_a_token_is_good_for_one_key_only_whichever_side_restarts(
    ca: Authority, tmp_path: Path
) -> None:
    async with listening(ca) as at:
        joining = token(ca, "web1", at)
        await asyncio.to_thread(enrol, joining, tmp_path / "host")
        await refused(joining, tmp_path / "thief", "already used")
    async with listening(Authority(ca.directory)) as again:
        moved = msgspec.structs.replace(joining, at=again)
        await refused(moved, tmp_path / "thief2", "already used")
        (tmp_path / "host" / "cert.pem").unlink()  # the answer was lost
        await asyncio.to_thread(enrol, moved, tmp_path / "host")
    assert Trust(files(tmp_path / "host"), "shop").me.name == "web1"


async def test_several_at_once_with_one_token_get_one_certificate(ca: Authority, tmp_path: Path) -> None:
    async with listening(ca) as at:
        joining = token(ca, "web1", at)
        calls = [asyncio.to_thread(enrol, joining, tmp_path / f"h{number}") for number in range(3)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert len([row for row in ca.issued() if row["name"] == "web1"]) == 1


async def test_a_token_for_another_host_is_refused(ca: Authority, tmp_path: Path) -> None:
    async with listening(ca) as at:
        joining = token(ca, "web1", at)
        await refused(msgspec.structs.replace(joining, host="web2"), tmp_path / "host", "another host")
        await asyncio.to_thread(enrol, joining, tmp_path / "right")  # and is not spent by that


async def test_an_expired_token_is_refused(ca: Authority, tmp_path: Path) -> None:
    async with listening(ca) as at:
        await refused(token(ca, "web1", at, ttl_s=-1.0), tmp_path / "host", "expired")


@pytest.mark.parametrize(
    "tamper",
    [
        lambda t: msgspec.structs.replace(t, secret=bytes(32)),
        lambda t: msgspec.structs.replace(t, secret=b""),
        lambda t: msgspec.structs.replace(t, number="0" * 32),
        lambda t: msgspec.structs.replace(t, number="../../ca"),
        lambda t: msgspec.structs.replace(t, number=""),
    ],
)
async def test_a_tampered_token_is_of_no_ca(
    ca: Authority, tmp_path: Path, tamper: Callable[[Token], Token]
) -> None:
    async with listening(ca) as at:
        await refused(tamper(token(ca, "web1", at)), tmp_path / "host", "not of this CA")


async def test_a_host_sends_nothing_to_a_ca_that_is_not_the_one_of_its_token(
    ca: Authority, tmp_path: Path
) -> None:
    other = create(tmp_path / "other", "shop")
    async with listening(other) as at:
        await refused(token(ca, "web1", at), tmp_path / "host", "not the CA of the token", ConfigError)
    assert not (tmp_path / "host" / "key.pem").exists()


async def test_an_agent_cannot_pose_as_the_listener(ca: Authority, tmp_path: Path) -> None:
    """It has a certificate of the same CA, and knows the root; but it is not called the listener."""
    eve = issued(ca, "eve", Role.AGENT)
    received: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(eve.cert, eve.key)

    def pose(server: socket.socket) -> None:
        for _ in range(2):
            sock, _ = server.accept()
            with context.wrap_socket(sock, server_side=True) as secured:
                received.append(data := secured.recv(65536))
                if data.startswith(b"GET /ca.pem"):
                    pem = ca.pem
                    secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(pem), pem))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=pose, args=(server,))
        thread.start()
        joining = token(ca, "web1", f"127.0.0.1:{server.getsockname()[1]}")
        await refused(joining, tmp_path / "host", "not `elf ca serve`", ConfigError)
        await asyncio.to_thread(thread.join)
    secret = base64.b64encode(joining.secret)
    assert not any(secret in data for data in received)


async def test_an_unreachable_ca_is_reported(ca: Authority, tmp_path: Path) -> None:
    await refused(token(ca, "web1", "127.0.0.1:1"), tmp_path / "host", "no CA answers", Unreachable)


async def test_a_host_that_is_called_as_the_listener_keeps_its_own_certificate(ca: Authority) -> None:
    issued(ca, "ca", Role.AGENT)
    before = (ca.directory / "issued" / "ca" / "cert.pem").read_bytes()
    async with listening(ca):
        assert (ca.directory / "issued" / "ca" / "cert.pem").read_bytes() == before


def test_a_token_is_in_a_file_that_no_other_user_reads_and_in_no_argument(
    ca: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "web1.token"
    made = ("ca", "token", str(ca.directory), "web1", "--at", "127.0.0.1:1", "-o", str(path))
    assert run(list(made)) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    word = path.read_text().strip()
    assert word not in capsys.readouterr().out
    host = str(tmp_path / "host")
    assert run(["ca", "enroll", "--token", word, "-o", host]) == 2
    assert run(["agent", "--token", word, "--data-dir", host]) == 2
    reported = capsys.readouterr().err
    assert "arguments" in reported
    assert word not in reported
    assert run(["ca", "enroll", "--token", str(path), "-o", host]) == 69, "it is read, and no server answers"
    path.chmod(0o640)
    assert run(["ca", "enroll", "--token", str(path), "-o", host]) == 78
    assert "other users can read the join token" in capsys.readouterr().err
