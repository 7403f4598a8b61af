"""The links of a swarm: loss, doubles even minutes later, delays beyond an interval, cuts, pauses.

Owns what happens to a frame between two hosts. Built on the memory network of the agents' simulation.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from elfmesh.machine import Contact
from elfmesh.wire import Codec
from tests.sim.swarm.drawing.distances import Distances
from tests.sim.world.memnet import MemoryNetwork, MemoryTransport
from tests.sim.world.network import Faults, LinkModel


@dataclass(frozen=True)
class Weather:
    """What all links do in the safety phase.

    Attributes:
        faults: of single frames.
        late_copy: chance that a frame comes once more, much later.
        late_copy_s: how much later at most.
        stall: chance that a frame is held up on the way (it does not keep its order then).
        stall_s: for how long at most.
    """

    faults: Faults = field(default_factory=Faults)
    late_copy: float = 0.0
    late_copy_s: float = 0.0
    stall: float = 0.0
    stall_s: float = 0.0


CALM = Weather()


class SwarmLink(LinkModel):
    """`LinkModel` with one-way cuts and what `Weather` adds."""

    def __init__(self) -> None:
        super().__init__()
        self.weather = CALM
        self.distances: Distances | None = None
        self._cuts: dict[int, frozenset[tuple[bytes, bytes]]] = {}
        self._cut_number = 0
        self._since: dict[int, float] = {}
        self._mended: list[tuple[float, float, frozenset[tuple[bytes, bytes]]]] = []

    def set(self, weather: Weather) -> None:
        self.weather, self.faults = weather, weather.faults

    def cut(self, pairs: Iterable[tuple[bytes, bytes]]) -> int:
        """Nothing passes from the first to the second of each pair; returns what `mend` needs."""
        self._cut_number += 1
        self._cuts[self._cut_number] = frozenset(pairs)
        self._since[self._cut_number] = asyncio.get_running_loop().time()
        return self._cut_number

    def mend(self, cut: int) -> None:
        if (pairs := self._cuts.pop(cut, None)) is not None:
            self._mended.append((self._since.pop(cut), asyncio.get_running_loop().time(), pairs))

    def mend_all(self) -> None:
        for cut in [*self._cuts]:
            self.mend(cut)

    def cut_off(self, one: bytes, other: bytes) -> list[tuple[float, float]]:
        """The mended cuts, from when to when, in which one of two agents did not reach the other."""
        pairs = {(one, other), (other, one)}
        return [(since, to) for since, to, cut in self._mended if not pairs.isdisjoint(cut)]

    @property
    def is_whole(self) -> bool:
        """Whether every agent can reach every other."""
        return not self._cuts

    def connected(self, src: bytes, dst: bytes) -> bool:
        return not any((src, dst) in cut for cut in self._cuts.values())

    def deliveries(self, src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
        if self._cuts and not self.connected(src, dst):
            return []
        delays = super().deliveries(src, dst, now, rng)
        weather = self.weather
        if delays and weather.stall and rng.random() < weather.stall:
            delays[0] += rng.uniform(0, weather.stall_s)
        if delays and weather.late_copy and rng.random() < weather.late_copy:
            delays.append(rng.uniform(0, weather.late_copy_s))
        if self.distances is None:
            return delays
        distance = self.distances.of(src, dst)
        return [delay + distance for delay in delays]


class SwarmNetwork(MemoryNetwork):
    """All hosts of a swarm. Attribute `frames` keeps what was delivered, if asked, for replaying it all."""

    def __init__(self, seed: int, codec: Codec, *, keep: bool = False) -> None:
        super().__init__(seed, codec)
        self.swarm_link = SwarmLink()
        self.link = self.swarm_link
        self.keep = keep
        self.frames: list[tuple[Contact, Contact, bytes]] = []

    def transport(self, number: int) -> SwarmTransport:
        return SwarmTransport(self, (f"10.0.{number // 250}.{number % 250 + 1}", 7400))

    def _deliver(self, sender: Contact, target: MemoryTransport, frame: bytes) -> None:
        assert isinstance(target, SwarmTransport)
        if target.held is not None and not target.closed:
            target.held.append((sender, frame))
            return
        if self.keep and target.me is not None:
            self.frames.append((sender, target.me, frame))
        super()._deliver(sender, target, frame)

    def again(self, sender: Contact, target: MemoryTransport, frame: bytes) -> None:
        """Deliver a frame that was delivered before to the same agent, which may have begun another boot."""
        super()._deliver(sender, target, frame)


class SwarmTransport(MemoryTransport):
    """A transport whose process may be stopped: what comes then waits in the kernel."""

    def __init__(self, network: SwarmNetwork, address: tuple[str, int]) -> None:
        super().__init__(network, address)
        self.swarm = network
        self.held: list[tuple[Contact, bytes]] | None = None

    def hold(self) -> None:
        self.held = self.held or []

    def release(self) -> None:
        held, self.held = self.held or [], None
        for sender, frame in held:
            asyncio.get_running_loop().call_soon(self.swarm._deliver, sender, self, frame)

    def refused(self, peer: bytes) -> None:
        if self.held is None:
            super().refused(peer)
