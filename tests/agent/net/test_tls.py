"""Overlay connections with certificates: who is let in, who is not, and what ends a connection that was good.

In TLS 1.3 the side that dials has connected before its certificate was judged: refusals are looked for at the
side that was dialled.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from pathlib import Path

import pytest

from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import Trust
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec
from tests.agent.transports import fleet, until
from tests.api.identity.certs import issued


class Say(Message, frozen=True, tag="test.secured"):
    number: int


CODEC = Codec([Say])


class Peer:
    """A transport on loopback, with certificates or without."""

    def __init__(
        self, agent: bytes, trust: Trust | None, *, cluster: str = "shop", lifetime_s: float = 3600
    ) -> None:
        self.transport = TcpTransport(
            "127.0.0.1", 0, CODEC, cluster=cluster, trust=trust, lifetime_s=lifetime_s
        )
        self.trust = trust
        self.numbers: list[int] = []
        self.bytes = 0
        self.gone: list[bytes] = []
        self.contact = Contact(agent, "", 0)

    async def start(self) -> None:
        host, port = await self.transport.listen()
        self.contact = Contact(self.contact.id, host, port)
        self.transport.open(self.contact, self)

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        assert isinstance(message, Say)
        self.numbers.append(message.number)
        self.bytes += len(payload)

    def lost(self, peer: bytes) -> None:
        self.gone.append(peer)

    def say(self, to: Contact, number: int, payload: bytes = b"", lane: int = 0) -> None:
        self.transport.send(to, Say(number), payload, lane)

    def count(self, name: str) -> int:
        return self.transport.stats().get(name, 0)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def agent(ca: Authority, name: str, *, lifetime_s: float = 3600, days: float = 1.0) -> Peer:
    trust = Trust(issued(ca, name, Role.AGENT, days=days), ca.cluster)
    return Peer(trust.me.agent, trust, lifetime_s=lifetime_s)


async def refused(server: Peer, client: Peer, counter: str) -> None:
    """The client's message never arrives, and the server has counted why."""
    async with fleet(server, client):
        client.say(server.contact, 1)
        await until(lambda: server.count(counter) > 0)
        assert server.numbers == []
        assert server.count("connections") == 0


async def test_agents_of_one_cluster_talk_in_both_directions_and_in_bulk(ca: Authority) -> None:
    a, b = agent(ca, "a"), agent(ca, "b")
    async with fleet(a, b):
        for number in range(50):
            a.say(b.contact, number)
            b.say(a.contact, number)
        a.say(b.contact, 50, os.urandom(3 << 20), lane=3)
        await until(lambda: len(a.numbers) == 50 and len(b.numbers) == 51)
        assert b.numbers == list(range(51))
        assert b.bytes == 3 << 20
        assert a.count("connections") == b.count("connections") == 1


async def test_an_address_alone_is_enough_where_certificates_identify_the_peer(ca: Authority) -> None:
    a, b = agent(ca, "a"), agent(ca, "b")
    async with fleet(a, b):
        a.say(Contact(b"", b.contact.host, b.contact.port), 1)
        await until(lambda: b.numbers == [1])


async def test_nothing_readable_is_on_the_wire(ca: Authority) -> None:
    b = agent(ca, "b")
    async with fleet(b):
        reader, writer = await asyncio.open_connection(b.contact.host, b.contact.port)
        writer.write(b"\x00\x00\x00\x10hello, in the clear")
        assert b"shop" not in await reader.read()
        await until(lambda: b.count("refused_tls") == 1)
        writer.close()


async def test_an_agent_without_a_certificate_is_refused(ca: Authority) -> None:
    b = agent(ca, "b")
    async with fleet(b):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection(b.contact.host, b.contact.port, ssl=context)
        await until(lambda: b.count("refused_tls") == 1)
        assert b.count("connections") == 0
        writer.transport.abort()


async def test_an_agent_that_speaks_no_tls_is_refused(ca: Authority) -> None:
    b = agent(ca, "b")
    await refused(b, Peer(b"x" * 20, None), "refused_tls")


async def test_an_agent_with_certificates_does_not_talk_to_one_without(ca: Authority) -> None:
    a, plain = agent(ca, "a"), Peer(b"x" * 20, None)
    async with fleet(a, plain):
        a.say(plain.contact, 1)
        await until(lambda: a.count("dial_failed") > 0)
        assert plain.numbers == []


async def test_tls_before_1_3_is_refused(ca: Authority) -> None:
    files = issued(ca, "old", Role.AGENT)
    b = agent(ca, "b")
    async with fleet(b):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(files.ca)
        context.load_cert_chain(files.cert, files.key)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(b.contact.host, b.contact.port, ssl=context)
        await until(lambda: b.count("refused_tls") == 1)


async def test_a_certificate_of_another_ca_is_refused(ca: Authority, tmp_path: Path) -> None:
    other = create(tmp_path / "other", "shop")
    stranger = issued(other, "a", Role.AGENT)
    trust = Trust(stranger, "shop")
    trust.client.load_verify_locations(str(ca.directory / "ca.pem"))  # it would believe us
    await refused(agent(ca, "b"), Peer(trust.me.agent, trust), "refused_tls")


async def test_a_ca_of_another_name_in_the_root_file_is_refused(ca: Authority, tmp_path: Path) -> None:
    """The same, seen from the side that dials: who answers is judged too."""
    other = create(tmp_path / "other", "shop")
    a, stranger = agent(ca, "a"), agent(other, "b")
    async with fleet(a, stranger):
        a.say(stranger.contact, 1)
        await until(lambda: a.count("refused_tls") > 0)
        assert stranger.numbers == []


async def test_an_agent_of_another_cluster_of_the_same_ca_is_refused(ca: Authority) -> None:
    stranger = Trust(issued(ca, "a", Role.AGENT, cluster="bank"), "bank")
    await refused(agent(ca, "b"), Peer(stranger.me.agent, stranger, cluster="shop"), "refused_identity")


@pytest.mark.parametrize("role", [Role.READER, Role.OPERATOR, Role.SUBMITTER])
async def test_a_certificate_of_another_role_opens_no_overlay_connection(ca: Authority, role: Role) -> None:
    server = agent(ca, "b")
    honest = Trust(issued(ca, "a", Role.AGENT), "shop")
    person = issued(ca, "eve", role, namespace="shop")
    honest.client.load_cert_chain(person.cert, person.key)
    await refused(server, Peer(honest.me.agent, honest), "refused_identity")


async def test_an_agent_that_claims_the_id_of_another_is_refused(ca: Authority) -> None:
    server, other = agent(ca, "b"), agent(ca, "c")
    liar = Trust(issued(ca, "a", Role.AGENT), "shop")
    await refused(server, Peer(other.contact.id, liar), "refused_identity")
    chosen = Trust(issued(ca, "d", Role.AGENT), "shop")
    await refused(agent(ca, "e"), Peer(b"\x00" * 20, chosen), "refused_identity")


async def test_a_dialling_agent_refuses_a_peer_that_answers_with_the_id_of_another(ca: Authority) -> None:
    a, b = agent(ca, "a"), agent(ca, "b")
    impostor = Trust(issued(ca, "x", Role.AGENT), "shop")
    x = Peer(b.contact.id, impostor)
    async with fleet(a, x):
        a.say(Contact(b.contact.id, x.contact.host, x.contact.port), 1)
        await until(lambda: a.count("refused_identity") > 0)
        assert x.numbers == []


async def test_an_expired_certificate_is_refused_by_both_sides(ca: Authority) -> None:
    server, good = agent(ca, "b"), Trust(issued(ca, "a", Role.AGENT), "shop")
    old = issued(ca, "old", Role.AGENT, days=-1)
    good.client.load_cert_chain(old.cert, old.key)
    await refused(server, Peer(good.me.agent, good), "refused_tls")
    good.server.load_cert_chain(old.cert, old.key)
    a, expired = agent(ca, "c"), Peer(good.me.agent, good)
    async with fleet(a, expired):
        a.say(expired.contact, 1)
        await until(lambda: a.count("refused_tls") > 0)
        assert expired.numbers == []


async def test_a_certificate_that_expires_ends_its_connection(ca: Authority) -> None:
    now = [0.0]
    files = issued(ca, "b", Role.AGENT)
    trust = Trust(files, "shop", now_s=lambda: time.time() + now[0])
    a, b = agent(ca, "a"), Peer(trust.me.agent, trust)
    async with fleet(a, b):
        a.say(b.contact, 1)
        await until(lambda: b.numbers == [1])
        now[0] = 2 * 86400.0
        b.transport.reconsider()
        assert b.count("refused_identity") == 1
        assert b.count("connections") == 0


async def test_revoking_a_certificate_ends_its_connection_and_keeps_it_out(ca: Authority) -> None:
    a, b = agent(ca, "a"), agent(ca, "b")
    async with fleet(a, b):
        a.say(b.contact, 1)
        await until(lambda: b.numbers == [1])
        assert a.trust is not None
        assert b.trust is not None
        (ca.directory / "for" / "b" / "deny").write_text(f"# gone\n{a.trust.facts.serial}  # a\n")
        assert b.trust.reload()
        b.transport.reconsider()
        await until(lambda: a.gone != [])
        a.say(b.contact, 2)
        await until(lambda: b.count("refused_identity") >= 2)
        assert b.numbers == [1]


async def test_a_new_certificate_is_used_without_ending_what_goes_on(ca: Authority) -> None:
    a, b, c = agent(ca, "a"), agent(ca, "b"), agent(ca, "c")
    assert a.trust is not None
    async with fleet(a, b, c):
        a.say(b.contact, 1)
        await until(lambda: b.numbers == [1])
        before = a.trust.facts.serial
        _renew(ca, ca.directory / "for" / "a")
        assert a.trust.reload()
        assert a.trust.facts.serial != before
        assert a.trust.me.agent == a.contact.id
        a.say(b.contact, 2)
        a.say(c.contact, 1)
        await until(lambda: b.numbers == [1, 2] and c.numbers == [1])
        assert b.count("connections_lost") == 0


async def test_files_that_are_half_written_change_nothing(ca: Authority) -> None:
    a, b = agent(ca, "a"), agent(ca, "b")
    assert a.trust is not None
    place = ca.directory / "for" / "a"
    good = (place / "cert.pem").read_bytes()
    async with fleet(a, b):
        (place / "cert.pem").write_bytes(good[: len(good) // 2])
        assert not a.trust.reload()
        assert "cert.pem" in a.trust.problem
        a.say(b.contact, 1)
        await until(lambda: b.numbers == [1])
        (place / "cert.pem").write_bytes(good)
        assert a.trust.reload()
        assert a.trust.problem == ""


async def test_connections_live_for_so_long_and_no_longer(ca: Authority) -> None:
    a, b = agent(ca, "a"), agent(ca, "b", lifetime_s=0.0)
    async with fleet(a, b):
        a.say(b.contact, 1)
        await until(lambda: b.numbers == [1])
        b.transport.reconsider()
        assert b.count("closed_for_age") == 1
        await until(lambda: a.count("connections") == 0)
        a.say(b.contact, 2)
        await until(lambda: b.numbers == [1, 2])
        assert b.gone == []


async def test_an_agent_closes_a_connection_that_sends_nothing(
    ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elfmesh.agent.net.connection.HELLO_TIMEOUT_S", 0.05)
    b = agent(ca, "b")
    async with fleet(b):
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, (b.contact.host, b.contact.port))
            assert await loop.sock_recv(sock, 1) == b""


def _renew(ca: Authority, place: Path) -> None:
    wanted, public = ca.renewed((place / "cert.pem").read_bytes())
    (place / "cert.pem").write_bytes(ca.sign(wanted, public, 1))
