from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from elfmesh.agent.net.connection import Connection, Hello
from elfmesh.agent.net.dataplane import CHUNK, LAST
from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec
from tests.agent.transports import fleet, until
from tests.patience import PATIENCE_S


class Say(Message, frozen=True, tag="test.say"):
    number: int


CODEC = Codec([Say])


class Peer:
    """A transport and everything it heard."""

    def __init__(self, number: int, cluster: str = "elf") -> None:
        self.id = bytes([number]) * 20
        self.transport = TcpTransport("127.0.0.1", 0, CODEC, cluster=cluster)
        self.arrived: list[tuple[Contact, int, bytes]] = []
        self.lost_peers: list[bytes] = []
        self.contact = Contact(self.id, "", 0)

    async def start(self, incarnation: int = 0) -> None:
        host, port = await self.transport.listen()
        self.contact = Contact(self.id, host, port, incarnation)
        self.transport.open(self.contact, self)

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        assert isinstance(message, Say)
        self.arrived.append((sender, message.number, payload))

    def lost(self, peer: bytes) -> None:
        self.lost_peers.append(peer)

    def say(self, to: Contact, number: int, payload: bytes = b"", lane: int = 0) -> None:
        self.transport.send(to, Say(number), payload, lane)

    def numbers(self) -> list[int]:
        return [number for _, number, _ in self.arrived]


async def test_messages_and_payloads_arrive_in_order_and_answers_use_the_same_connection() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        for number in range(100):
            a.say(b.contact, number)
        a.say(b.contact, 100, bytes(5 << 20), lane=3)
        await until(lambda: len(b.arrived) == 101)
        assert b.numbers() == list(range(101))
        assert b.arrived[-1][2] == bytes(5 << 20)
        assert b.arrived[0][0] == a.contact
        b.say(a.contact, 7)
        await until(lambda: a.numbers() == [7])
        assert a.transport.stats()["connections"] == b.transport.stats()["connections"] == 1


async def test_answers_to_what_came_together_are_written_together_and_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        a.say(b.contact, 0)
        await until(lambda: b.numbers() == [0])
        writes: list[int] = []
        write = Connection._write

        def counted(connection: Connection, data: bytes) -> None:
            writes.append(len(data))
            write(connection, data)

        def answer(sender: Contact, message: Message, payload: bytes) -> None:
            assert isinstance(message, Say)
            assert writes == []
            b.say(sender, message.number)

        monkeypatch.setattr(b, "received", answer)
        connection = next(iter(b.transport._by_id.values()))
        data = bytearray()
        for number in (1, 2, 3):
            frame = CODEC.encode(Say(number))
            data += CHUNK.pack(len(frame), LAST, 0) + frame
        monkeypatch.setattr(Connection, "_write", counted)
        b.transport.receive_buffer[: len(data)] = data
        connection.buffer_updated(len(data))
        assert len(writes) == 1, "before the loop goes on"
        monkeypatch.setattr(Connection, "_write", write)
        await until(lambda: a.numbers() == [1, 2, 3])


async def test_any_number_names_a_bulk_stream() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        for lane in (1, 0xFFFF, 0x10000, 0xFFFFFFFF, 1 << 60):
            a.say(b.contact, lane, b"x", lane)
        await until(lambda: len(b.arrived) == 5)


async def test_an_address_alone_is_enough_to_meet_a_stranger() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        a.say(Contact(b"", b.contact.host, b.contact.port), 1)
        await until(lambda: b.numbers() == [1])
        a.say(Contact(b"", b.contact.host, b.contact.port), 2)
        a.say(b.contact, 3)
        await until(lambda: b.numbers() == [1, 2, 3])
        assert a.transport.stats()["connections"] == 1


async def test_dialling_each_other_at_once_leaves_one_connection_and_loses_nothing() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        for number in range(50):
            a.say(b.contact, number)
            b.say(a.contact, number)
        await until(lambda: len(a.arrived) == len(b.arrived) == 50)
        await until(lambda: not a.transport._others and not b.transport._others)
        assert a.transport.stats()["connections"] == b.transport.stats()["connections"] == 1
        assert not a.lost_peers
        assert not b.lost_peers
        a.say(b.contact, 99)
        b.say(a.contact, 98)
        await until(lambda: b.numbers()[-1] == 99 and a.numbers()[-1] == 98)


async def test_an_orderly_end_is_no_loss_and_a_later_send_dials_again() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        a.say(b.contact, 1)
        await until(lambda: b.numbers() == [1])
        a.transport._close_idle(a.transport._by_id[b.id])
        await until(lambda: b.transport.stats()["connections"] == 0)
        b.say(a.contact, 2)
        await until(lambda: a.numbers() == [2])
        assert not a.lost_peers
        assert not b.lost_peers


async def test_a_broken_connection_is_reported_and_so_is_a_peer_that_is_not_there() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        a.say(b.contact, 1)
        await until(lambda: b.numbers() == [1])
        b.transport._by_id[a.id].abort("crash")
        await until(lambda: a.lost_peers == [b.id])
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            a.say(Contact(b"\x09" * 20, "127.0.0.1", port), 1)
            await until(lambda: a.lost_peers == [b.id, b"\x09" * 20])
            a.say(Contact(b"\x09" * 20, "127.0.0.1", port), 1)
            assert a.transport.stats()["not_sent_backoff"] == 1


async def test_another_agent_at_a_known_address_gets_none_of_the_messages() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        a.say(Contact(b"\x07" * 20, b.contact.host, b.contact.port), 1)
        await until(lambda: a.lost_peers == [b"\x07" * 20])
        assert b.arrived == []
        assert a.transport.stats()["refused_hello"] == 1


async def test_ourselves_and_other_clusters_are_refused() -> None:
    a, b = Peer(1), Peer(2, cluster="other")
    async with fleet(a, b):
        a.say(Contact(b"", a.contact.host, a.contact.port), 1)
        a.say(Contact(b"", b.contact.host, b.contact.port), 2)
        await until(lambda: a.transport.stats().get("refused_hello", 0) >= 2)
        assert a.arrived == b.arrived == []


def _hello(contact: Contact) -> bytes:
    frame = Connection.HELLO_CODEC.encode(Hello(cluster="elf", contact=contact, serial=1))
    return CHUNK.pack(len(frame), LAST, 0) + frame


def _chunk(frame: bytes) -> bytes:
    return CHUNK.pack(len(frame), LAST, 0) + frame


STRANGER = Contact(b"\x05" * 20, "127.0.0.1", 9)
BAD = {
    "noise": bytes(range(256)),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "oversized chunk": CHUNK.pack(1 << 31, 0, 0),
    "oversized hello": CHUNK.pack(60_000, LAST, 0) + bytes(60_000),
    "message before hello": _chunk(CODEC.encode(Say(1))),
    "damaged frame after hello": _hello(STRANGER) + _chunk(b"\xff" * 40),
    "header longer than its frame": _hello(STRANGER) + _chunk(struct.pack(">II", 20, 1 << 30) + bytes(16)),
    "endless frame": _hello(STRANGER) + (CHUNK.pack(65536, 0, 1) + bytes(65536)) * 280,
    "unknown message": _hello(STRANGER) + _chunk(struct.pack(">II", 9, 5) + b"\x81\xa1t\xa1x"),
    "wrong type of field": _hello(STRANGER) + _chunk(CODEC.encode(Say("x"))),  # type: ignore[arg-type]  # as meant
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_peer_that_breaks_the_protocol_is_disconnected_and_counted_and_harms_no_other(
    kind: str,
) -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        reader, writer = await asyncio.open_connection(a.contact.host, a.contact.port)
        try:
            writer.write(BAD[kind])
            await writer.drain()
            while await reader.read(4096):
                pass
        except ConnectionError:
            pass
        finally:
            writer.close()
        stats = a.transport.stats()
        assert stats.get("protocol_errors", 0) + stats.get("refused_hello", 0) == 1
        b.say(a.contact, 1)
        await until(lambda: a.numbers() == [1])


async def test_silent_strangers_are_limited_and_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.agent.net.tcp.HALF_OPEN_MAX", 3)
    monkeypatch.setattr("elfmesh.agent.net.connection.HELLO_TIMEOUT_S", 0.2)
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        strangers = [await asyncio.open_connection(a.contact.host, a.contact.port) for _ in range(6)]
        await until(lambda: a.transport.stats().get("refused_half_open", 0) == 3)
        await until(lambda: not a.transport._others)
        for _, writer in strangers:
            writer.close()
        b.say(a.contact, 1)
        await until(lambda: a.numbers() == [1])


async def test_a_peer_that_reads_nothing_costs_a_bounded_queue() -> None:
    a, b = Peer(1), Peer(2)
    async with fleet(a, b):
        a.say(b.contact, 0)
        await until(lambda: b.numbers() == [0])
        transport = b.transport._by_id[a.id]._transport
        assert transport is not None
        transport.pause_reading()
        for number in range(1, 60):
            a.say(b.contact, number, bytes(4 << 20), lane=2)
        assert a.transport.stats()["not_sent_queue_full"] > 0
        transport.resume_reading()
        a.say(b.contact, 1000)
        await until(lambda: 1000 in b.numbers())
        assert b.numbers().index(1000) < len(b.numbers())


@pytest.mark.parametrize("address", [("127.0.0.1", 70_000), ("a" * 70 + ".example", 7400)])
async def test_an_address_that_cannot_be_one_is_a_peer_that_cannot_be_reached(
    address: tuple[str, int],
) -> None:
    alice = Peer(1)
    async with fleet(alice):
        alice.say(Contact(b"\x09" * 20, *address), 1)
        async with asyncio.timeout(PATIENCE_S):
            while not alice.lost_peers:  # noqa: ASYNC110 - what is waited for is a call
                await asyncio.sleep(0.01)
        assert alice.lost_peers == [b"\x09" * 20]
