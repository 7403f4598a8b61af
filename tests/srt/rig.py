"""What the trees' unit tests are built from: a barrier with a recording parent, forests on a tiny wire."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable

from elfmesh.contribution import Contribution
from elfmesh.ids import distance
from elfmesh.machine import Contact, Event, Message, Received, Send
from elfmesh.overlay import Lookup, LookupDone
from elfmesh.srt import FIRST, Forest, Subscribe
from elfmesh.srt.barrier import Barrier
from elfmesh.srt.parts import Part

TREE = bytes(20)
"""With this id, the distance of an agent to the tree is its own id as a number."""


def contact(number: int) -> Contact:
    """Agent `number` sits at distance `number` from TREE."""
    return Contact(number.to_bytes(20), f"10.0.0.{number}", 7000)


def items(**payloads: str) -> tuple[Contribution, ...]:
    """items(_3="ab") = interval 3 with one record counted and payload b"ab"."""
    return tuple(Contribution(int(name[1:]), (1,), text.encode()) for name, text in payloads.items())


def part(start: int, stop: int, *agents: int, source: int = 0, **rest: str) -> Part:
    """A part of the agents' coverage; `source` is the child it came from."""
    coverage = sum(1 << agent for agent in agents)
    return Part(start, stop, coverage, items(**rest), 0, source.to_bytes(1) if source else b"")


def agents_in(coverage: int) -> set[int]:
    return {n for n in range(coverage.bit_length()) if coverage >> n & 1}


class Recorder:
    """An `Above` that writes everything down in words."""

    def __init__(self) -> None:
        self.reported: list[tuple[object, ...]] = []
        self.parts: list[tuple[Part, bool]] = []

    def forward(self, part: Part, *, claims: bool) -> None:
        self.parts.append((part, claims))
        words = "claim" if claims else "alone" if part.alone else "supplement"
        texts = {item.interval: item.payload.decode() for item in part.items}
        start: object = "ever" if part.start == FIRST else part.start
        who = agents_in(part.coverage)
        entry: tuple[object, ...] = (words, start, part.stop, who, texts)
        self.reported.append((*entry, part.attempt) if part.attempt else entry)

    def announce(self, frontier: int | None) -> None:
        self.reported.append(("announce", "ever" if frontier == FIRST else frontier))

    def overlap(self, start: int, stop: int, attempt: int) -> None:
        self.reported.append(("overlap", start, stop, attempt))

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        self.reported.append(("lagging", start, stop, attempt))

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None:
        self.reported.append(("fault", start, stop, agents_in(coverage), error))

    def take(self) -> list[tuple[object, ...]]:
        reported, self.reported = self.reported, []
        return reported


class Rig:
    """A barrier whose merges concatenate; `hold` keeps them waiting."""

    def __init__(self, *, payload_bytes_max: int = 1000, held_bytes_max: int = 1 << 20) -> None:
        self.above = Recorder()
        self.count: Counter[str] = Counter()
        self.asked: deque[tuple[int, tuple[bytes, ...]]] = deque()
        self.hold = False
        self._token = 0
        self.barrier = Barrier(
            self.above,
            self._request,
            lambda what: self.count.update([what]),
            payload_bytes_max=payload_bytes_max,
            held_bytes_max=held_bytes_max,
        )
        self.barrier.opened(None)

    def _request(self, interval: int, parts: tuple[bytes, ...]) -> int:
        self._token += 1
        self.asked.append((self._token, parts))
        return self._token

    def settle(self) -> None:
        """Answer all merges."""
        while self.asked:
            token, parts = self.asked.popleft()
            self.barrier.merged(token, b"".join(sorted(parts)), "")

    def children(self, *numbers: int, frontier: int | None = FIRST) -> None:
        for number in numbers:
            self.barrier.child_joined(number.to_bytes(1), 0, frontier)

    def child(self, each: Part, *, claims: bool = True) -> None:
        self.barrier.receive(each, 0, claims=claims)
        if not self.hold:
            self.settle()

    def own(self, each: Part) -> None:
        self.barrier.contribute(each, 0)
        if not self.hold:
            self.settle()

    def reported(self) -> list[tuple[object, ...]]:
        return self.above.take()


class Wire:
    """Forests with perfect knowledge of each other; messages wait until they are delivered by hand."""

    def __init__(self, *numbers: int, fanout: int = 32, tree: bytes = TREE) -> None:
        self.tree = tree
        self.now = 0.0
        self.forests: dict[int, Forest] = {}
        self.dispatcher: deque[tuple[int, int, Message, bytes]] = deque()
        self.effects: dict[int, list[object]] = {}
        self.fanout = fanout
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        self.effects[number] = []
        self.forests[number] = Forest(
            contact(number),
            rng=random.Random(number),
            next_hop=lambda key: self.closest(key, than=number),
            fanout=self.fanout,
        )

    def closest(self, key: bytes, *, than: int) -> Contact | None:
        best = min(self.forests, key=lambda number: distance(contact(number).id, key))
        return contact(best) if best != than else None

    def give(self, number: int, event: Event) -> list[object]:
        """Step one forest; what it sends goes into the mail, its look-ups are answered at once."""
        kept: list[object] = []
        lookups: list[Lookup] = []
        for effect in self.forests[number].step(event, self.now):
            if isinstance(effect, Send):
                to = int.from_bytes(effect.to.id)
                self.dispatcher.append((number, to, effect.message, effect.payload))
            elif isinstance(effect, Lookup):
                lookups.append(effect)
            else:
                kept.append(effect)
        self.effects[number] += kept
        for lookup in lookups:
            known = sorted(self.forests, key=lambda each: distance(contact(each).id, lookup.key))
            found = tuple(contact(each) for each in known)
            kept += self.give(number, LookupDone(lookup.token, lookup.key, found))
        return kept

    def route(self, number: int, above: int | None) -> None:
        """From now on the next hop of `number` is `above`."""
        hop = contact(above) if above is not None else None
        self.forests[number]._context.next_hop = lambda key: hop

    def deliver(self, *, lose: Iterable[type[Message]] = ()) -> None:
        """Deliver mail until there is none, losing messages of some types."""
        lost = tuple(lose)
        while self.dispatcher:
            source, to, message, payload = self.dispatcher.popleft()
            if to in self.forests and not isinstance(message, lost):
                self.give(to, Received(contact(source), message, payload))

    def waiting(self) -> list[tuple[int, int, str]]:
        return [(source, to, type(message).__name__) for source, to, message, _ in self.dispatcher]

    def take(self, number: int) -> list[object]:
        effects, self.effects[number] = self.effects[number], []
        return effects


def children(wire: Wire, number: int) -> list[int]:
    info = wire.forests[number].tree(TREE)
    return [int.from_bytes(child.id) for child in info.children] if info else []


def parent(wire: Wire, number: int) -> int | None:
    info = wire.forests[number].tree(TREE)
    return int.from_bytes(info.parent.id) if info and info.parent else None


def subscribed(wire: Wire, *numbers: int) -> Wire:
    for number in numbers:
        wire.give(number, Subscribe(TREE))
        wire.deliver()
    return wire
