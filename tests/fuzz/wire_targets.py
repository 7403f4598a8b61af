"""What comes from peers: frames, chunks and hellos, messages, and what the machines make of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from elfmesh.agent.net.connection import Connection, Hello
from elfmesh.agent.net.dataplane import CHUNK, LAST, Multiplexer
from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.agent.runtime.core import codec
from elfmesh.control.protocol import messages as control_messages
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Message
from elfmesh.overlay import messages as overlay_messages
from elfmesh.srt import messages as srt_messages
from elfmesh.wire import Codec
from tests.fuzz.engine import Harness
from tests.fuzz.examples import examples
from tests.fuzz.mutate import BYTES, PACKED, changed, mutated, of

ME = Contact(b"\x10" * 20, "127.0.0.1", 7400)
PEER = Contact(b"\x20" * 20, "127.0.0.1", 7500)
ROOMS = {
    "overlay": overlay_messages.MESSAGES,
    "srt": srt_messages.MESSAGES,
    "control": control_messages.MESSAGES,
}


def samples(kinds: Sequence[type[Message]], each: int = 4) -> list[Any]:
    """Valid messages as plain values."""
    return examples(random.Random(1), kinds, each)


def frames() -> Harness:
    """Whole frames, lengths included."""
    wire = codec()
    headers = [msgspec.msgpack.encode(value) for value in samples(wire.kinds, 2)]
    corpus = [
        (4 + len(header) + len(payload)).to_bytes(4) + len(header).to_bytes(4) + header + payload
        for header in headers
        for payload in (b"", b"payload" * 9)
    ]

    def run(data: bytes) -> None:
        message, payload = wire.decode(data)
        assert repr(wire.decode(wire.encode(message, payload))) == repr((message, payload))  # nan != nan

    return Harness("frames", "whole frames of the wire", of(corpus, (*BYTES, *PACKED)), run)


def messages(room: str) -> Harness:
    """Headers of one room: bytes of msgpack, and valid msgpack with other values."""
    wire = Codec(ROOMS[room])
    values = samples(wire.kinds)
    noise = of([msgspec.msgpack.encode(value) for value in values], (*BYTES, *PACKED))

    def generate(rng: random.Random) -> bytes:
        if rng.random() < 0.4:
            return noise(rng)
        return repacked(rng, rng.choice(values))

    def run(data: bytes) -> None:
        message = wire.decode_header(data)
        assert wire.decode_header(wire.encode(message)[8:]) is not None

    return Harness(f"messages-{room}", f"headers of the messages of {room}", generate, run)


def packed(value: Any) -> bytes:
    """Plain values as msgpack; what msgpack has no form for becomes nil."""
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, ValueError, TypeError):
        return b"\xc0"


def repacked(rng: random.Random, value: Any) -> bytes:
    """Plain values with others among them, packed; some of their bytes changed, so that text is not UTF-8."""
    data = packed(changed(rng, value))
    return mutated(rng, data) if rng.random() < 0.25 else data


class Wire(asyncio.Transport):
    """The socket of a connection: remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.closed = True

    close = abort

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Ear:
    """Who hears what a transport receives: only ever messages, only ever after a hello."""

    def __init__(self) -> None:
        self.arrived = 0

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        assert len(sender.id) == 20
        assert isinstance(message, Message)
        self.arrived += 1

    def lost(self, peer: bytes) -> None:
        pass


def chunks(frame: bytes, lane: int = 0) -> bytes:
    """A frame as it is written to a socket."""
    out = Multiplexer()
    out.offer(lane, frame)
    return b"".join(iter(out.take, b""))


def handshake() -> Harness:
    """Everything that may come on a fresh connection: hello, chunks of many lanes, frames, goodbye."""
    wire = codec()
    hello = Connection.HELLO_CODEC.encode(Hello("elf", PEER, 1))
    reported = [
        chunks(wire.encode(overlay_messages.Ping(1))),
        chunks(wire.encode(overlay_messages.Bye(), b"x" * 70_000), 3),
    ]
    hellos = examples(random.Random(2), (Hello,), 20)
    loop = asyncio.new_event_loop()

    @contextmanager
    def around() -> Iterator[None]:
        asyncio.set_event_loop(loop)
        try:
            yield
        finally:
            asyncio.set_event_loop(None)

    def generate(rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            header = repacked(rng, rng.choice(hellos))
            first = (4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header
            return CHUNK.pack(len(first), LAST, 0) + first + rng.choice(reported)
        data = b"".join((chunks(hello), *(rng.choice(reported) for _ in range(rng.randrange(4)))))
        if rng.random() < 0.4:  # a lane per chunk, none of them finished
            data += b"".join(CHUNK.pack(1, 0, lane) + b"x" for lane in range(rng.randrange(300)))
        return mutated(rng, data, (*BYTES, CHUNK.pack(0, 2, 0), CHUNK.pack(65536, 0, 1)))

    async def feed(data: bytes) -> None:
        transport, ear = TcpTransport("127.0.0.1", 0, wire), Ear()
        transport.open(ME, ear)
        connection, socket = Connection(transport, dialled=None), Wire()
        connection.connection_made(socket)
        before = len(socket.written)
        step = max(1, len(data) // 3)
        for at in range(0, len(data), step):
            if connection.closed.is_set():
                break
            part = data[at : at + step]
            transport.receive_buffer[: len(part)] = part
            connection.buffer_updated(len(part))
        stats = transport.stats()
        if not stats["connections"] and not stats.get("duplicate_connections"):
            assert len(socket.written) == before or connection.peer is not None, "answered a stranger"
        assert connection.peer is not None or ear.arrived == 0
        connection.abort("the test is over")
        if stats.get("protocol_errors") or stats.get("refused_hello"):
            raise ProtocolError("refused, as counted")

    def run(data: bytes) -> None:
        loop.run_until_complete(feed(data))

    return Harness("handshake", "bytes on a fresh connection", generate, run, around=around)
