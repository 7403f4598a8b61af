"""Whole trees in virtual time: overlay and forest of many agents, with a host that counts records by name.

Every agent contributes, per tree and interval, records whose ids say where they come from; a payload is the
sorted list of the ids in it, merging is a merge of lists. So a record lost or counted twice has a name.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import msgspec

from elfmesh.ids import distance, job_id
from elfmesh.machine import Contact, Effect, Event, Received, Tick
from elfmesh.overlay import MESSAGES as OVERLAY_MESSAGES
from elfmesh.overlay import (
    Digest,
    Lookup,
    LookupDone,
    Overlay,
    PeerDown,
    SiblingsChanged,
    Start,
    Unwatch,
    Watch,
)
from elfmesh.srt import (
    FIRST,
    BecameRoot,
    Collected,
    Contribute,
    Delivered,
    Forest,
    LostRoot,
    Merged,
    MergeRequest,
    MulticastAnswer,
    Publish,
    PublishDone,
    Recollecting,
    Release,
    Segment,
    SegmentEntry,
    Subscribe,
    TreeInfo,
    bitmap_of,
    bits_of,
)
from tests.sim.world.network import Faults, LinkModel, Network

TO_FOREST = (LookupDone, PeerDown, SiblingsChanged, Digest, Subscribe, Contribute, Publish, Release)


def encode(records: Iterable[int]) -> bytes:
    return msgspec.msgpack.encode(sorted(records))


def decode(payload: bytes) -> list[int]:
    return msgspec.msgpack.decode(payload, type=list[int]) if payload else []


class Book:
    """What the owner of a root makes of what is collected: per interval and attempt, disjoint coverages."""

    def __init__(self) -> None:
        self.coverage: dict[int, dict[int, int]] = defaultdict(dict)
        self.records: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self.counts: dict[tuple[int, int], int] = defaultdict(int)

    def note(self, collected: Collected, intervals: int) -> None:
        segment = collected.segment
        coverage = bits_of(segment.coverage)
        assert coverage, "a root is told of at least one member"
        for interval in range(max(0, segment.start), min(intervals, segment.stop)):
            known = self.coverage[interval].get(segment.attempt, 0)
            assert not known & coverage, f"interval {interval} attempt {segment.attempt} counts agents twice"
            self.coverage[interval][segment.attempt] = known | coverage
        for entry, payload in zip(segment.entries, collected.payloads, strict=True):
            assert entry.size == len(payload)
            self.records[entry.interval, segment.attempt].update(decode(payload))
            self.counts[entry.interval, segment.attempt] += entry.counts[0]

    def covers(self, interval: int, needed: int) -> bool:
        """Whether some attempt has counted all of `needed`."""
        return any(not needed & ~known for known in self.coverage.get(interval, {}).values())


class GroveAgent:
    """One agent: a machine composed of machines, as the product composes them."""

    def __init__(self, contact: Contact, number: int, grove: Grove) -> None:
        rng = random.Random(grove.rng.getrandbits(64))
        self.me, self.number, self.grove = contact, number, grove
        self.overlay = Overlay(contact, rng=rng, digest=self._digest)
        hop, since = self.overlay.next_hop, self.overlay.closest_since
        self.forest = Forest(contact, rng=rng, next_hop=hop, closest_since=since, **grove.options)
        self.books: dict[bytes, Book] = {}
        self.delivered: Counter[tuple[bytes, bytes]] = Counter()
        self.attempts: list[Recollecting] = []

    def _digest(self, peer: bytes) -> bytes:
        return self.forest.digest_for(peer)

    @property
    def deadline(self) -> float | None:
        times = [each.deadline for each in (self.overlay, self.forest) if each.deadline is not None]
        return min(times, default=None)

    def step(self, event: Event, now: float) -> list[Effect]:
        outside: list[Effect] = []
        waiting: list[Event | Effect] = [event]
        position = 0
        while position < len(waiting):
            current = waiting[position]
            position += 1
            waiting += self._route(current, now, outside)
        return outside

    def _route(self, item: Event | Effect, now: float, outside: list[Effect]) -> list[Effect]:
        if isinstance(item, TO_FOREST):
            return self.forest.step(item, now)
        match item:
            case Tick():
                return [*self.overlay.step(item, now), *self.forest.step(item, now)]
            case Received():
                machine = self.overlay if isinstance(item.message, OVERLAY_MESSAGES) else self.forest
                return list(machine.step(item, now))
            case Lookup() | Watch() | Unwatch() | Start():
                return self.overlay.step(item, now)
            case MergeRequest(token, parts):
                merged = encode(record for part in parts for record in decode(part))
                return self.forest.step(Merged(token, merged), now)
            case Delivered(tree, seq, body):
                self.delivered[tree, body] += 1
                return self.forest.step(MulticastAnswer(tree, seq, self.me.id[:2] + body), now)
            case BecameRoot(tree):
                self.books[tree] = Book()
            case LostRoot(tree):
                self.books.pop(tree, None)
            case Collected(tree):
                self.books[tree].note(item, self.grove.intervals)
            case Recollecting():
                self.attempts.append(item)
            case PublishDone():
                self.grove.published.append(item)
            case _:
                assert isinstance(item, Effect)
                outside.append(item)
        return []


class Grove:
    """Agents that share an overlay and a number of trees; agent number n is bit n of every roster."""

    def __init__(
        self, agents: int, trees: int, *, seed: int = 1, faults: Faults | None = None, **options: int
    ) -> None:
        self.rng = random.Random(seed)
        self.options = options
        self.link = LinkModel()
        self.network = Network(seed, link=self.link)
        self.trees = [job_id(f"job{n}", f"seed{seed}") for n in range(trees)]
        self.intervals = 0
        self.agents: dict[bytes, GroveAgent] = {}
        self.published: list[PublishDone] = []
        for number in range(agents):
            self.join(number)
            self.network.run_for(0.02)
        self.network.run_for(2.0)
        self.link.faults = faults or Faults()

    def join(self, number: int) -> None:
        contact = Contact(
            self.rng.randbytes(20), f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 7000
        )
        agent = self.agents[contact.id] = GroveAgent(contact, number, self)
        self.network.add(contact, agent)
        self.start(agent)

    def start(self, agent: GroveAgent) -> None:
        """The agent joins the overlay through two others."""
        others = [other.me for other in self.alive if other is not agent]
        seeds = self.rng.sample(others, min(2, len(others)))
        self.give(agent, Start(tuple((seed.host, seed.port) for seed in seeds)))

    @property
    def alive(self) -> list[GroveAgent]:
        return [self.agents[id] for id in self.network.up()]

    def give(self, agent: GroveAgent, event: Event) -> None:
        self.network.give(agent.me.id, event)

    def subscribe_all(self) -> None:
        for tree in self.trees:
            for agent in self.alive:
                self.give(agent, Subscribe(tree))

    def declare(self) -> None:
        """All agents contribute from ever on."""
        for tree in self.trees:
            for agent in self.alive:
                segment = Segment(1, 0, FIRST, FIRST, bitmap_of(1 << agent.number))
                self.give(agent, Contribute(tree, segment))

    @staticmethod
    def own_records(agent: int, interval: int) -> list[int]:
        """0 to 2 records; some intervals of some agents are empty."""
        return [(interval << 32) + (agent << 8) + k for k in range((agent + interval) % 3)]

    def contribute(self, agent: GroveAgent, tree: bytes, interval: int) -> None:
        records = self.own_records(agent.number, interval)
        payload = encode(records) if records else b""
        start = FIRST if interval == 0 else interval
        entries = (SegmentEntry(interval, (len(records), 1, 0, 0, 0), len(payload)),) if records else ()
        coverage = bitmap_of(1 << agent.number)
        segment = Segment(1, 0, start, interval + 1, coverage, entries)
        self.give(agent, Contribute(tree, segment, (payload,) if records else ()))

    def roll(self, intervals: int, *, every_s: float = 0.5, spread_s: float = 0.2) -> None:
        """Each living agent contributes every interval to every tree at its time, a little out of step."""
        begin = self.network.now
        first = self.intervals
        self.intervals += intervals
        for interval in range(first, self.intervals):
            for agent in self.alive:
                at = begin + (interval - first) * every_s + self.rng.random() * spread_s
                self.network.at(at, self._later(agent, interval))
        self.network.run_for(intervals * every_s)

    def _later(self, agent: GroveAgent, interval: int) -> Callable[[], None]:
        def act() -> None:
            if self.network.hosts[agent.me.id].up:
                for tree in self.trees:
                    self.contribute(agent, tree, interval)

        return act

    # -- what must be true

    def closest(self, tree: bytes) -> GroveAgent:
        return min(self.alive, key=lambda agent: distance(agent.me.id, tree))

    def info(self, agent: GroveAgent, tree: bytes) -> TreeInfo | None:
        return agent.forest.tree(tree)

    def roots(self, tree: bytes) -> list[GroveAgent]:
        return [agent for agent in self.alive if agent.forest.is_root(tree)]

    def depth(self, agent: GroveAgent, tree: bytes) -> int | None:
        """Hops to a root over relations both sides know; None if there is no such way."""
        steps = 0
        current = agent
        while not current.forest.is_root(tree):
            info = self.info(current, tree)
            if info is None or info.parent is None or steps > 60:
                return None
            above = self.agents[info.parent.id]
            theirs = self.info(above, tree)
            known = theirs is not None and any(child.id == current.me.id for child in theirs.children)
            if not known or not self.network.hosts[above.me.id].up:
                return None
            current, steps = above, steps + 1
        return steps

    def whole(self, tree: bytes) -> bool:
        """One root, the right one, and all agents under it."""
        return self.roots(tree) == [self.closest(tree)] and all(
            self.depth(agent, tree) is not None for agent in self.alive
        )

    def all_whole(self) -> bool:
        return all(self.whole(tree) for tree in self.trees)

    def form(self, limit: float = 30.0) -> float:
        """All agents join every tree; how long it took."""
        begin = self.network.now
        self.subscribe_all()
        assert self.network.run_while(lambda: not self.all_whole(), limit=limit), "trees do not form"
        return self.network.now - begin

    def check_shape(self, *, fanout: int = 32, depth: int = 4) -> None:
        for tree in self.trees:
            for agent in self.alive:
                info = self.info(agent, tree)
                assert info is not None
                assert len(info.children) <= fanout
                for child in info.children:
                    assert distance(agent.me.id, tree) < distance(child.id, tree)
                at = self.depth(agent, tree)
                assert at is not None
                assert at <= depth, f"an agent sits {at} deep"

    def missing(self, tree: bytes, needed: int) -> list[int]:
        """Intervals of which no attempt covers all of `needed` at the root."""
        roots = self.roots(tree)
        if len(roots) != 1:
            return list(range(self.intervals))
        book = roots[0].books[tree]
        return [interval for interval in range(self.intervals) if not book.covers(interval, needed)]

    def check_exact(self, tree: bytes) -> None:
        """Every attempt at every root counted exactly the records of the agents it claims, once (I5)."""
        for agent in self.roots(tree):
            book = agent.books[tree]
            for interval, attempts in book.coverage.items():
                for attempt, coverage in attempts.items():
                    expected = Counter(
                        record
                        for number in range(coverage.bit_length())
                        if coverage >> number & 1
                        for record in self.own_records(number, interval)
                    )
                    assert book.records[interval, attempt] == expected, (interval, attempt)
                    assert book.counts[interval, attempt] == expected.total()

    def complete(self, needed: int) -> bool:
        return not any(self.missing(tree, needed) for tree in self.trees)

    def check_all(self, *, needed: int | None = None, limit: float = 60.0) -> float:
        """Everything contributed by the living arrives, once; how long that took."""
        wanted = sum(1 << agent.number for agent in self.alive) if needed is None else needed
        begin = self.network.now
        done = self.network.run_while(lambda: not self.complete(wanted), limit=limit)
        for tree in self.trees:
            self.check_exact(tree)
        if not done:
            raise AssertionError({tree.hex()[:6]: self.missing(tree, wanted) for tree in self.trees})
        return self.network.now - begin

    def publish(self, tree: bytes, body: bytes, timeout_s: float = 2.0) -> PublishDone:
        (root,) = self.roots(tree)
        self.published.clear()
        self.give(root, Publish(tree, body, timeout_s, token=7))
        assert self.network.run_while(lambda: not self.published, limit=timeout_s + 0.2, step=0.02)
        return self.published[0]

    def stats(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for agent in self.agents.values():
            total.update(agent.forest.stats())
        return total
