"""The proxy does to connections what it says, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.agent.runtime.core import codec
from elfmesh.machine import Contact, Message
from elfmesh.overlay.messages import Ping
from tests.chaos.proxy import FaultProxy, Link
from tests.patience import PATIENCE_S

Pair = tuple[FaultProxy, "Peer", "Peer"]


class Peer:
    """A transport, what it heard, and whom it lost."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.transport = TcpTransport("127.0.0.1", 0, codec())
        self.me = Contact(bytes([number]) * 20, "", 0)
        self.arrived: list[int] = []
        self.lost_peers = 0

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        assert isinstance(message, Ping)
        self.arrived.append(message.rid)

    def lost(self, peer: bytes) -> None:
        self.lost_peers += 1

    def say(self, other: Peer, rid: int) -> None:
        self.transport.send(other.me, Ping(rid))


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    proxy = FaultProxy(1)
    peers = [Peer("a", 1), Peer("b", 2)]
    for peer in peers:
        target = await peer.transport.listen()
        host, port = await asyncio.to_thread(proxy.listen, peer.name, target)
        peer.me = Contact(peer.me.id, host, port)
        proxy.knows(peer.name, peer.me.id.hex())
        peer.transport.open(peer.me, peer)
    yield proxy, peers[0], peers[1]
    for peer in peers:
        await peer.transport.close()
    await asyncio.to_thread(proxy.close)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens on another thread
            await asyncio.sleep(0.01)


async def met(one: Peer, other: Peer) -> None:
    """Both have heard each other: the connection stands."""
    one.say(other, 0)
    await until(lambda: other.arrived)
    other.say(one, 0)
    await until(lambda: one.arrived)
    one.arrived.clear()
    other.arrived.clear()


async def test_messages_pass_in_order_and_once(pair: Pair) -> None:
    _, a, b = pair
    await met(a, b)
    for rid in range(200):
        a.say(b, rid)
    await until(lambda: len(b.arrived) >= 200)
    assert b.arrived == list(range(200))


async def test_frames_are_left_out_and_doubled_one_way(pair: Pair) -> None:
    proxy, a, b = pair
    await met(a, b)
    proxy.between("a", "b", loss=0.3, double=0.3)
    for rid in range(300):
        a.say(b, rid)
        b.say(a, rid)
    await until(lambda: len(a.arrived) == 300)
    await until(lambda: b.arrived and b.arrived[-1] > 290)
    assert proxy.counters["lost"] > 20
    assert proxy.counters["doubled"] > 20
    assert len(set(b.arrived)) < 290
    assert a.arrived == list(range(300))
    assert sorted(b.arrived) == b.arrived


async def test_a_delay_keeps_order_and_does_not_add_up(pair: Pair) -> None:
    proxy, a, b = pair
    await met(a, b)
    proxy.between("a", "b", delay_s=0.2)
    began, count = time.monotonic(), 2_000
    for rid in range(count):
        a.say(b, rid)
    await until(lambda: len(b.arrived) == count)  # delays that add up would take longer than the limit
    assert b.arrived == list(range(count))
    assert time.monotonic() - began >= 0.2


async def test_a_cut_direction_is_silent_and_delivers_everything_after_it_is_healed(pair: Pair) -> None:
    proxy, a, b = pair
    await met(a, b)
    proxy.isolate(["a"], ["b"], both=False)
    a.say(b, 1)
    b.say(a, 2)
    await until(lambda: a.arrived == [2])
    await asyncio.sleep(0.1)
    assert b.arrived == []
    assert (a.lost_peers, b.lost_peers) == (0, 0)
    proxy.heal()
    await until(lambda: b.arrived == [1])


async def test_a_reset_is_noticed_by_both_and_a_new_connection_takes_over(pair: Pair) -> None:
    proxy, a, b = pair
    await met(a, b)
    await asyncio.to_thread(proxy.reset, "a")
    await until(lambda: a.lost_peers and b.lost_peers)
    while not b.arrived:
        a.say(b, 5)
        await asyncio.sleep(0.05)


async def test_half_open_is_noticed_by_one_side_only(pair: Pair) -> None:
    proxy, a, b = pair
    await met(a, b)
    await asyncio.to_thread(proxy.half_open, "a")
    await until(lambda: a.lost_peers)
    b.say(a, 7)
    await asyncio.sleep(0.2)
    assert b.lost_peers == 0
    assert a.arrived == []


def test_a_link_is_perfect_by_default() -> None:
    assert Link() == Link(0.0, 0.0, 0.0, 0.0, cut=False)
