"""What certificates cost between two agents: bulk throughput, and a message there and back.

Two transports of the product in one process on one core, over loopback: mutual TLS 1.3 against clear text in
the same run, alternately. What arrives is counted and checksummed on both sides.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from benchmarks.harness import Figure
from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.api.identity.ca import create
from elfmesh.api.identity.key_files import new_key
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import Files, Trust
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec

CHUNK = bytes(range(256)) * 1024
BULK_LANE = 3
PARTIALS, PARTIALS_SMALL = 400, 20
ROUNDS, ROUNDS_SMALL = 2000, 100
REPEATS, REPEATS_SMALL = 7, 1
AHEAD = 16
"""Partials on their way at a time; a lane holds more."""


class Say(Message, frozen=True, tag="bench.tls"):
    """A message with a number."""

    number: int


CODEC = Codec([Say])


class Peer:
    """A transport that answers small messages and checks large ones."""

    def __init__(self, agent: bytes, trust: Trust | None) -> None:
        self.transport = TcpTransport("127.0.0.1", 0, CODEC, cluster="bench", trust=trust)
        self.contact = Contact(agent, "", 0)
        self.echo = False
        self.checksum = self.bytes = 0
        self.arrived = asyncio.Event()

    async def start(self) -> None:
        """Listen."""
        host, port = await self.transport.listen()
        self.contact = Contact(self.contact.id, host, port)
        self.transport.open(self.contact, self)

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        """Part of the transport's `Handler`."""
        self.checksum = zlib.crc32(payload[:64], self.checksum)
        self.bytes += len(payload)
        if self.echo:
            self.transport.send(sender, message)
        self.arrived.set()

    def lost(self, peer: bytes) -> None:
        """Part of the transport's `Handler`."""


def _trusts(directory: Path) -> list[tuple[bytes, Trust]]:
    """Two agents' ids and certificates of one CA."""
    ca = create(directory / "ca", "bench")
    found = []
    for number in (1, 2):
        place, agent = directory / str(number), bytes([number]) * 20
        place.mkdir()
        wanted = ca.wanted(f"host{number}", [(Role.AGENT, "")], agent=agent)
        signed = ca.sign(wanted, new_key(place / "key.pem").public_key(), 1.0)
        (place / "cert.pem").write_bytes(signed)
        (place / "ca.pem").write_bytes(ca.pem)
        files = Files(str(place / "cert.pem"), str(place / "key.pem"), str(place / "ca.pem"), "")
        found.append((agent, Trust(files, "bench")))
    return found


async def _pair(stack: AsyncExitStack, trusts: list[tuple[bytes, Trust]], *, secured: bool) -> list[Peer]:
    peers = [Peer(agent, trust if secured else None) for agent, trust in trusts]
    for peer in peers:
        await peer.start()
        stack.push_async_callback(peer.transport.close)
    peers[1].echo = True
    await _there_and_back(peers, 1)
    return peers


async def _there_and_back(peers: list[Peer], rounds: int) -> list[float]:
    """Seconds of each round."""
    here, there = peers
    took = []
    for number in range(rounds):
        here.arrived.clear()
        began = time.perf_counter()
        here.transport.send(there.contact, Say(number))
        await asyncio.wait_for(here.arrived.wait(), 10)
        took.append(time.perf_counter() - began)
    return took


async def _bulk(peers: list[Peer], partials: int) -> tuple[float, int]:
    """Bytes per second, and the checksum of what arrived."""
    here, there = peers
    there.echo, there.bytes, there.checksum = False, 0, 0
    began, sent = time.perf_counter(), 0
    while there.bytes < partials * len(CHUNK):
        while sent < partials and sent * len(CHUNK) - there.bytes < AHEAD * len(CHUNK):
            payload = sent.to_bytes(8, "big") + CHUNK[8:]
            here.transport.send(there.contact, Say(sent), payload, lane=BULK_LANE)
            sent += 1
        there.arrived.clear()
        await asyncio.wait_for(there.arrived.wait(), 30)
    there.echo = True
    return there.bytes / (time.perf_counter() - began), there.checksum


Measured = tuple[list[float], list[float], int]
"""Bytes per second of each repeat, seconds of all rounds, the checksum."""


async def _measure(directory: Path, *, small: bool) -> dict[bool, Measured]:
    partials, rounds = (PARTIALS_SMALL, ROUNDS_SMALL) if small else (PARTIALS, ROUNDS)
    trusts = _trusts(directory)
    found: dict[bool, tuple[list[float], list[float], list[int]]] = {
        kind: ([], [], []) for kind in (False, True)
    }
    async with AsyncExitStack() as stack:
        pairs = {kind: await _pair(stack, trusts, secured=kind) for kind in (False, True)}
        for _ in range(REPEATS_SMALL if small else REPEATS):
            for kind, peers in pairs.items():
                speed, checksum = await _bulk(peers, partials)
                found[kind][0].append(speed)
                found[kind][1].extend(await _there_and_back(peers, rounds))
                found[kind][2].append(checksum)
    sums = {checksum for _, _, checksums in found.values() for checksum in checksums}
    assert len(sums) == 1, "the two ways brought different bytes"
    return {kind: (speeds, took, sums.copy().pop()) for kind, (speeds, took, _) in found.items()}


def connections(*, small: bool) -> list[Figure]:
    """Two agents, one core."""
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(_measure(Path(directory), small=small))
    (speeds, took, checksum), (plain_speeds, plain_took, _) = found[True], found[False]
    speed, plain_speed = median(speeds), median(plain_speeds)
    way, plain_way = median(took), median(plain_took)
    spread = (max(speeds) - min(speeds)) / speed
    reported = f"{checksum:08x}"
    return [
        Figure(
            "TLS, partials of 256 KiB",
            speed / 1e6,
            "MB/s",
            "clear text",
            speed / plain_speed,
            reported,
            spread,
        ),
        Figure("clear text, partials of 256 KiB", plain_speed / 1e6, "MB/s", checksum=reported),
        Figure("TLS, a message there and back", way * 1e6, "us", "clear text", way / plain_way),
        Figure("clear text, a message there and back", plain_way * 1e6, "us"),
    ]


PARTS: dict[str, Callable[..., list[Figure]]] = {"connections": connections}
