"""Many overlay agents on a simulated network, with the questions the tests ask about them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

from elfmesh.machine import Contact, Effect
from elfmesh.overlay import (
    Joined,
    Lookup,
    LookupDone,
    Overlay,
    PeerDown,
    PeerUp,
    Route,
    RouteDelivered,
    Start,
)
from tests.sim.world.network import Faults, LinkModel, Network


class Crowd:
    """Agents that joined one after the other through random seeds, and what they reported."""

    def __init__(
        self,
        size: int,
        *,
        seed: int = 1,
        faults: Faults | None = None,
        every_s: float = 0.02,
        trace: bool = False,
        digest: Callable[[bytes, bytes], bytes] = lambda me, peer: b"",
    ) -> None:
        self.rng = random.Random(seed)
        self.digest = digest
        self.link = LinkModel(faults)
        self.network = Network(seed, link=self.link, on_effect=self._note, trace=trace)
        self.agents: dict[bytes, Overlay] = {}
        self.effects: dict[bytes, list[tuple[float, Effect]]] = defaultdict(list)
        self.found: dict[int, tuple[Contact, ...]] = {}
        self.delivered: list[tuple[Contact, RouteDelivered]] = []
        self.joined: set[bytes] = set()
        self._token = 0
        for number in range(size):
            self.join(number)
            self.network.run_for(every_s)

    def _note(self, contact: Contact, effect: Effect, now: float) -> None:
        match effect:
            case LookupDone(token, _, contacts):
                self.found[token] = contacts
            case RouteDelivered():
                self.delivered.append((contact, effect))
            case Joined():
                self.joined.add(contact.id)
            case PeerUp():
                pass
        self.effects[contact.id].append((now, effect))

    def overlay(self, contact: Contact) -> Overlay:
        machine = Overlay(
            contact,
            rng=random.Random(self.rng.getrandbits(64)),
            digest=lambda peer: self.digest(contact.id, peer),
        )
        self.agents[contact.id] = machine
        return machine

    def join(self, number: int) -> Contact:
        contact = Contact(self.rng.randbytes(20), f"10.0.{number >> 8}.{number & 255}", 7000)
        up = self.network.up()
        seeds = [self.agents[id].me for id in self.rng.sample(up, min(2, len(up)))]
        self.network.add(contact, self.overlay(contact))
        self.network.give(contact.id, Start(tuple((seed.host, seed.port) for seed in seeds)))
        return contact

    @property
    def alive(self) -> list[bytes]:
        return self.network.up()

    def closest(self, key: bytes, among: list[bytes] | None = None) -> bytes:
        n = int.from_bytes(key)
        return min(among or self.alive, key=lambda id: int.from_bytes(id) ^ n)

    def look_up(self, source: bytes, key: bytes) -> int:
        self._token += 1
        self.network.give(source, Lookup(key, self._token))
        return self._token

    def look_ups(self, trials: int, *, wait_s: float = 5.0) -> list[tuple[bytes, tuple[Contact, ...]]]:
        asked = []
        for _ in range(trials):
            key = self.rng.randbytes(20)
            asked.append((key, self.look_up(self.rng.choice(self.alive), key)))
        self.network.run_for(wait_s)
        return [(key, self.found[token]) for key, token in asked]

    def route(self, source: bytes, key: bytes, body: bytes = b"", payload: bytes = b"") -> None:
        self.network.give(source, Route(key, body, payload))

    def kill(self, count: int) -> list[bytes]:
        victims = self.rng.sample(self.alive, count)
        for id in victims:
            self.network.crash(id)
        return victims

    def downs(self, id: bytes) -> list[tuple[float, bytes]]:
        return [(at, effect.id) for at, effect in self.effects[id] if isinstance(effect, PeerDown)]

    def of(self, id: bytes, kind: type[Effect]) -> list[Effect]:
        return [effect for _, effect in self.effects[id] if isinstance(effect, kind)]

    def counter(self, name: str) -> int:
        return sum(int(agent.stats().get(name, 0)) for agent in self.agents.values())
