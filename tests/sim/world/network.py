"""A network in virtual time for any sans-IO machines: seeded, faulty, and the same on every run.

Owns the event heap, the links and which hosts are up; knows nothing of what the machines are. One seed
decides the delays, losses, doubles, reorderings and, if asked, the strength of these faults themselves
(`Faults.swarm`): a fixed mild network finds nothing.

    network = Network(seed=7, link=LinkModel(Faults(loss=0.1)), on_effect=keep)
    network.add(contact, machine)
    network.give(contact.id, Start())
    network.run_for(10.0)

`LinkModel` alone serves other transports (an in-memory one on an asyncio loop): it says when, how often and
whether at all a frame sent now arrives.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from elfmesh.machine import Contact, Effect, Event, Machine, Received, Send, Tick


@dataclass(frozen=True)
class Faults:
    """What a link does to frames. Times in seconds, chances in [0, 1]."""

    delay_min: float = 0.0002
    delay_max: float = 0.0008
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_delay: float = 0.05
    """A reordered frame is held back for up to this long; the others keep their order."""

    @staticmethod
    def swarm(rng: random.Random) -> Faults:
        """Faults whose strength is itself random; each kind is absent in every second run."""

        def perhaps(most: float) -> float:
            return rng.random() * most if rng.random() < 0.5 else 0.0

        low = rng.choice((0.0001, 0.0005, 0.005, 0.03))
        return Faults(
            delay_min=low,
            delay_max=low * rng.choice((1.1, 2.0, 5.0)),
            loss=perhaps(0.15),
            duplicate=perhaps(0.3),
            reorder=perhaps(0.3),
            reorder_delay=rng.choice((0.01, 0.1, 0.4)),
        )


_NEXT = 1e-9
"""Between two frames of one direction: above the rounding of times, below anything that matters."""


class LinkModel:
    """Says what happens to a frame from `src` to `dst`: lost, delayed, doubled, overtaken.

    Without `reorder`, frames of one direction between two hosts arrive in the order they were sent, as on a
    connection.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self._sides: dict[bytes, int] = {}
        self._last: dict[tuple[bytes, bytes], float] = {}

    def partition(self, *sides: Iterable[bytes]) -> None:
        """Cut the network: only hosts of the same side reach each other; unnamed hosts are side 0."""
        self._sides = {host: number for number, side in enumerate(sides) for host in side}

    def heal(self) -> None:
        """End the partition."""
        self._sides = {}

    def connected(self, src: bytes, dst: bytes) -> bool:
        """Whether no partition lies between two hosts."""
        return not self._sides or self._sides.get(src, 0) == self._sides.get(dst, 0)

    def deliveries(self, src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
        """Delays after which copies of a frame sent now arrive; [] = lost, two = doubled."""
        faults = self.faults
        if self._sides and not self.connected(src, dst):
            return []
        if faults.loss and rng.random() < faults.loss:
            return []
        delay = faults.delay_min + (faults.delay_max - faults.delay_min) * rng.random()
        if faults.reorder and rng.random() < faults.reorder:
            delay += faults.reorder_delay * rng.random()
        else:
            arrival = max(now + delay, self._last.get((src, dst), 0.0) + _NEXT)
            self._last[src, dst] = arrival
            delay = arrival - now
        if faults.duplicate and rng.random() < faults.duplicate:
            return [delay, delay + faults.reorder_delay * rng.random()]
        return [delay]


class Host:
    """One machine on the network."""

    __slots__ = ("boot", "contact", "machine", "ticking", "up")

    def __init__(self, contact: Contact, machine: Machine) -> None:
        self.contact, self.machine = contact, machine
        self.up = True
        self.boot = 0  # grows at every restart: what was meant for a former boot is void
        self.ticking = float("inf")  # when the earliest tick in the heap is due


OnEffect = Callable[[Contact, Effect, float], None]
_Entry = tuple[float, int, Callable[[], None]]


class Network:
    """Hosts, links and virtual time.

    Args:
        seed: of everything random here.
        link: what happens to frames.
        on_effect: gets each effect but `Send`, with the host it came from and the time.
        trace: keep a running hash of all events in their order (costs a repr per event).
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        link: LinkModel | None = None,
        on_effect: OnEffect | None = None,
        trace: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.link = link or LinkModel()
        self.now = 0.0
        self.hosts: dict[bytes, Host] = {}
        self.sent = 0
        self.sent_by_kind: dict[str, int] = {}
        self.lost = 0
        self._addresses: dict[tuple[str, int], bytes] = {}
        self._heap: list[_Entry] = []
        self._serial = 0
        self._on_effect = on_effect
        self._trace = hashlib.blake2b(digest_size=16) if trace else None

    @property
    def trace(self) -> str:
        """The hash of everything that happened so far."""
        assert self._trace is not None, "constructed without a trace"
        return self._trace.hexdigest()

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Do something at a moment of virtual time; equal moments keep the order of asking."""
        self._serial += 1
        heappush(self._heap, (when, self._serial, act))

    def add(self, contact: Contact, machine: Machine) -> None:
        """Bring a host up; a host of the same id begins a new boot."""
        known = self.hosts.get(contact.id)
        if known is None:
            self.hosts[contact.id] = Host(contact, machine)
        else:
            known.contact, known.machine, known.up = contact, machine, True
            known.boot += 1
            known.ticking = float("inf")
        self._addresses[contact.host, contact.port] = contact.id

    def restart(self, id: bytes, build: Callable[[Contact], Machine]) -> Contact:
        """Bring a crashed host up again with the next incarnation."""
        contact = self.hosts[id].contact
        contact = replace_incarnation(contact, contact.incarnation + 1)
        self.add(contact, build(contact))
        return contact

    def crash(self, id: bytes) -> None:
        """A host stops in mid-sentence; frames it has sent still arrive."""
        self.hosts[id].up = False

    def up(self) -> list[bytes]:
        """The ids of the living hosts."""
        return [id for id, host in self.hosts.items() if host.up]

    def give(self, id: bytes, event: Event) -> None:
        """Step one machine now."""
        host = self.hosts[id]
        if self._trace is not None:
            self._trace.update(f"{self.now!r} {id.hex()} {event!r}\n".encode())
        self._carry_out(host, host.machine.step(event, self.now))
        self._schedule(host)

    def _schedule(self, host: Host) -> None:
        deadline = host.machine.deadline
        if deadline is not None and deadline < host.ticking:
            host.ticking = deadline
            boot = host.boot
            self.at(max(deadline, self.now), lambda: self._tick(host, boot, deadline))

    def _tick(self, host: Host, boot: int, due: float) -> None:
        if not host.up or host.boot != boot or host.ticking != due:
            return
        host.ticking = float("inf")
        deadline = host.machine.deadline
        if deadline is not None and deadline <= self.now:
            self.give(host.contact.id, Tick())
        else:
            self._schedule(host)

    def _carry_out(self, host: Host, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                self._send(host, effect)
            elif self._on_effect is not None:
                self._on_effect(host.contact, effect, self.now)

    def _send(self, host: Host, send: Send) -> None:
        self.sent += 1
        kind = type(send.message).__name__
        self.sent_by_kind[kind] = self.sent_by_kind.get(kind, 0) + 1
        to = send.to.id or self._addresses.get((send.to.host, send.to.port), b"")
        target = self.hosts.get(to)
        delays = self.link.deliveries(host.contact.id, to, self.now, self.rng) if target else []
        if not delays or target is None:
            self.lost += 1
            return
        event = Received(host.contact, send.message, send.payload)
        boot = target.boot
        for delay in delays:
            self.at(self.now + delay, lambda: self._arrive(target, boot, event))

    def _arrive(self, target: Host, boot: int, event: Received) -> None:
        if target.up and target.boot == boot:
            self.give(target.contact.id, event)

    def run_until(self, when: float) -> None:
        """Let everything happen that is due until `when`."""
        heap = self._heap
        while heap and heap[0][0] <= when:
            self.now, _, act = heappop(heap)
            act()
        self.now = when

    def run_for(self, seconds: float) -> None:
        """Let some time pass."""
        self.run_until(self.now + seconds)

    def run_while(self, condition: Callable[[], bool], *, limit: float, step: float = 0.1) -> bool:
        """Let time pass until `condition` is false; say whether that came true within `limit` seconds."""
        end = self.now + limit
        while condition():
            if self.now >= end:
                return False
            self.run_for(step)
        return True


def replace_incarnation(contact: Contact, incarnation: int) -> Contact:
    """The same agent in another boot."""
    return Contact(contact.id, contact.host, contact.port, incarnation, contact.rack)
