"""What strangers and members can make an agent's listener do: real sockets, real handshakes."""

from __future__ import annotations

import asyncio

import pytest

from elfmesh.agent.net import backoff
from elfmesh.agent.net import tcp as net
from elfmesh.machine import Contact
from tests.agent.net.test_tcp import Peer
from tests.agent.transports import fleet, until


async def test_silent_strangers_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay silent for as long as they may, and there are always more of them."""
    monkeypatch.setattr(net, "HALF_OPEN_MAX", 3)
    monkeypatch.setattr("elfmesh.agent.net.connection.HELLO_TIMEOUT_S", 60.0)
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        strangers = [await asyncio.open_connection(a.contact.host, a.contact.port) for _ in range(6)]
        await until(lambda: a.transport.stats().get("refused_half_open", 0) == 3)
        b.say(a.contact, 1)
        await until(lambda: a.numbers() == [1])
        assert sum(other.peer is None for other in a.transport._others) <= 3
        for _, writer in strangers:
            writer.close()


async def test_addresses_that_peers_send_are_not_all_dialled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that tells of a thousand agents makes us knock at no more than a few doors at a time."""
    monkeypatch.setattr(net, "DIALS_MAX", 4)
    monkeypatch.setattr(backoff, "BACKOFFS_MAX", 16)
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        for number in range(1000):
            a.say(Contact(number.to_bytes(20), "127.0.0.1", 1 + number % 900), 1)
            assert len(a.transport._dialling) <= 4
        await until(lambda: not a.transport._dialling)
        assert a.transport.stats()["not_dialled_too_many"] >= 990
        for number in range(40):
            a.say(Contact(number.to_bytes(20), "127.0.0.1", 1 + number), 1)
            await until(lambda: not a.transport._dialling)
        assert len(a.transport._backoff) <= 16
        a.say(b.contact, 7)
        await until(lambda: b.numbers() == [7])


async def test_a_peer_that_claims_to_be_another_agent_gets_nothing_that_is_meant_for_it() -> None:
    """A spoofed contact leads to the process that listens there, which does not answer by that id."""
    a, b, liar = Peer(1), Peer(2), Peer(3)
    async with fleet(a, b, liar):
        a.say(Contact(b.id, liar.contact.host, liar.contact.port), 1)
        await until(lambda: a.transport.stats().get("refused_hello", 0) == 1)
        assert liar.numbers() == []
        a.say(b.contact, 2)
        await until(lambda: b.numbers() == [2])
