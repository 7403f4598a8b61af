"""The agents' network in memory, on a virtual loop: `Transport` over the seeded `LinkModel`.

Frames are really encoded and decoded, so that nothing passes here that would not pass a socket. A running
hash of every delivery is the trace of a run.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import struct
from collections import Counter

from elfmesh.agent.net.transport import Handler
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec
from tests.sim.world.network import Faults, LinkModel

PORT = 7400
_TIME = struct.Struct(">d")


class MemoryNetwork:
    """All hosts and the links between them."""

    def __init__(self, seed: int, codec: Codec, faults: Faults | None = None) -> None:
        self.rng = random.Random(seed)
        self.codec = codec
        self.link = LinkModel(faults)
        self.hosts: dict[tuple[str, int], MemoryTransport] = {}
        self.counters: Counter[str] = Counter()
        self._trace = hashlib.blake2b(digest_size=16)

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def transport(self, number: int) -> MemoryTransport:
        return MemoryTransport(self, (f"10.0.{number // 250}.{number % 250 + 1}", PORT))

    def send(self, source: MemoryTransport, to: Contact, frame: bytes) -> None:
        loop = asyncio.get_running_loop()
        assert source.me is not None
        target = self.hosts.get((to.host, to.port))
        if target is None or target.me is None or target is source or (to.id and target.me.id != to.id):
            # no agent listens there any more, or it is the sender itself: the connection is refused
            if to.id and self.link.connected(source.me.id, to.id):
                loop.call_later(0.001, source.refused, to.id)
            self.counters["refused"] += 1
            return
        delays = self.link.deliveries(source.me.id, target.me.id, loop.time(), self.rng)
        if not delays:
            self.counters["lost"] += 1
        for delay in delays:
            loop.call_later(delay, self._deliver, source.me, target, frame)

    def _deliver(self, sender: Contact, target: MemoryTransport, frame: bytes) -> None:
        if target.closed or target.me is None or target.handler is None:
            self.counters["too_late"] += 1
            return
        now = asyncio.get_running_loop().time()
        self._trace.update(b"".join((_TIME.pack(now), sender.id, target.me.id, frame)))
        self.counters["delivered"] += 1
        message, payload = self.codec.decode(frame)
        target.handler.received(sender, message, payload)


class MemoryTransport:
    """`Transport` of one host."""

    def __init__(self, network: MemoryNetwork, address: tuple[str, int]) -> None:
        self.network, self.address = network, address
        self.me: Contact | None = None
        self.handler: Handler | None = None
        self.closed = False

    async def listen(self) -> tuple[str, int]:
        return self.address

    def open(self, me: Contact, handler: Handler) -> None:
        self.me, self.handler = me, handler
        self.network.hosts[self.address] = self

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        if not self.closed:
            self.network.send(self, to, self.network.codec.encode(message, payload))

    def refused(self, peer: bytes) -> None:
        if not self.closed and self.handler is not None:
            self.handler.lost(peer)

    def stats(self) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        self.crash()

    def crash(self) -> None:
        """Off the network, in mid-sentence."""
        self.closed = True
        if self.network.hosts.get(self.address) is self:
            del self.network.hosts[self.address]
