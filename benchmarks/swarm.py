"""Several hundred agents in one process, for an agent that is measured in another: all but jobs and disk.

Each is the product's whole core (overlay, trees, control plane) with its own listening socket of the
product's transport. What two of them say to each other is handed over in memory, so that one process can be
hundreds; what they say to the agent outside, and it to them, goes over the wire.

    python -m benchmarks.swarm COUNT      prints `ready HOST:PORT` once all have joined; ends with its stdin
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import time

from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.agent.runtime.core import AgentCore, codec
from elfmesh.control.machine import Control
from elfmesh.control.protocol import events as ctl
from elfmesh.limits import FANOUT_MAX
from elfmesh.machine import Contact, Event, Message, Received, Send, Tick
from elfmesh.overlay import Overlay
from elfmesh.overlay.events import ConnectionLost, Joined, Start
from elfmesh.srt import Forest

STREAM = "log"
APART_S = 0.01
"""Between two that join."""


class Member:
    """One agent of the swarm.

    Args:
        number: its place.
        swarm: those that are reached without a wire, by address.
    """

    def __init__(self, number: int, swarm: dict[tuple[str, int], Member]) -> None:
        self._swarm = swarm
        self._number = number
        self.transport = TcpTransport("127.0.0.1", 0, codec())
        self.joined = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Listen; known to the others from now on."""
        host, port = await self.transport.listen()
        self.me = Contact(hashlib.sha1(f"swarm/{self._number}".encode()).digest(), host, port, 1)
        rng = random.Random(self._number)
        overlay = Overlay(self.me, rng=rng, digest=self._digest, clock_us=_wall_us)
        self._forest = forest = Forest(self.me, rng=rng, next_hop=overlay.next_hop, fanout=FANOUT_MAX)
        self.core = AgentCore(overlay, forest, Control(self.me, f"swarm-{self._number}", rng=rng))
        self._swarm[host, port] = self
        self.transport.open(self.me, self)

    def _digest(self, peer: bytes) -> bytes:
        return self._forest.digest_for(peer)

    def start(self, seed: Member) -> None:
        """Join by another one."""
        self.step(ctl.Restored())
        self.step(ctl.LocalStreams((ctl.StreamInfo(STREAM, "combined"),), ()))
        self.step(Start(() if seed is self else ((seed.me.host, seed.me.port),)))

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        """Part of the transport's `Handler`."""
        self.step(Received(sender, message, payload))

    def lost(self, peer: bytes) -> None:
        """Part of the transport's `Handler`."""
        self.step(ConnectionLost(peer))

    def step(self, event: Event) -> None:
        """As the product's pump does it, without threads and disk."""
        loop = asyncio.get_running_loop()
        for effect in self.core.step(event, loop.time()):
            if isinstance(effect, Send):
                near = self._swarm.get((effect.to.host, effect.to.port))
                if near is None:
                    self.transport.send(effect.to, effect.message, effect.payload, effect.lane)
                else:
                    loop.call_soon(near.received, self.me, effect.message, effect.payload)
            elif isinstance(effect, Joined):
                self.joined.set()
        if self._timer is not None:
            self._timer.cancel()
        if (deadline := self.core.deadline) is not None:
            self._timer = loop.call_at(deadline, self.step, Tick())


def _wall_us() -> int:
    return time.time_ns() // 1000


async def _main(count: int) -> None:
    swarm: dict[tuple[str, int], Member] = {}
    members = [Member(number, swarm) for number in range(count)]
    for member in members:
        await member.open()
    for member in members:
        member.start(members[0])
        await asyncio.sleep(APART_S)
    for member in members:
        await member.joined.wait()
    print(f"ready {members[0].me.host}:{members[0].me.port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
