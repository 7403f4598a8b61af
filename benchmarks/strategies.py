"""Simulated fleets under strategies of coordination: the word count and the ad network of Blazes VIII.

A model in virtual time, not the product: it gives the shape at sizes that one machine cannot run. An agent
serves a record in 50 us, a message travels 0.5 ms and up to half as long again, and a change of a register
takes a round trip to its voters and a sync of a disk. An order is that of a topic: its master serves each
message, and puts what has arrived into one batch as soon as the change before is complete.

Paper: Blazes VIII-A (Fig. 8), VIII-B (Figs. 9 to 11).
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

SERVICE_S, LINK_S, SYNC_S = 50e-6, 0.5e-3, 5e-3
CHANGE_S = 2 * LINK_S + SYNC_S
"""One change of a register: to a majority of its voters and back, with a sync."""

UNCOORDINATED, SEALED, INDEPENDENT = "uncoordinated", "seal", "independent seal"
COMMITS, ORDERED, PER_MESSAGE = "ordered commits", "ordered", "ordered per message"

WORDS_PER_BATCH = 1_500
IN_FLIGHT = 8
"""Batches that have begun and are not complete, where batches do not wait for each other."""

STRETCH_S, STRETCHES, STEADY = 10.0, 3, 0.05

ENTRIES, BURST, CAMPAIGNS, ADS, REPLICAS = 1_000, 50, 100, 10, 3
SLEEP_S, REQUEST_EVERY_S = 0.1, 0.001


# -- word count (Fig. 8)


def throughput(strategy: str, workers: int, seed: int, stretch_s: float = STRETCH_S) -> tuple[float, int]:
    """Return the words per second of the steady state, and a checksum of the first batch's counts.

    Three stretches in a row differ by less than 5 %.
    """
    rng = np.random.default_rng(seed)
    free, done = np.zeros(workers), [0.0] * IN_FLIGHT
    master = 0.0
    counted, stretches, checksum = 0, list[float](), 0
    while True:
        words = rng.multinomial(WORDS_PER_BATCH, np.full(workers, 1 / workers))
        checksum = checksum or int((words * np.arange(1, workers + 1)).sum())
        begin = done[-1] if strategy == COMMITS else done[-IN_FLIGHT]
        arrived = begin + LINK_S * rng.uniform(1, 1.5, workers)
        if strategy == PER_MESSAGE:  # the master of the order serves each word
            master = max(master, begin) + WORDS_PER_BATCH * SERVICE_S + CHANGE_S
            arrived = master + LINK_S * rng.uniform(1, 1.5, workers)
        seal = SERVICE_S if strategy == SEALED else 0.0
        free = np.maximum(free, arrived) + words * SERVICE_S + seal
        end = float(free.max()) + LINK_S + (CHANGE_S if strategy == COMMITS else 0.0)
        if end > stretch_s * (len(stretches) + 1):
            stretches.append(counted / stretch_s)
            counted = 0
            last = stretches[-STRETCHES:]
            if len(last) == STRETCHES and max(last) - min(last) < STEADY * max(last):
                return sum(last) / STRETCHES, checksum
        counted += WORDS_PER_BATCH
        done = [*done[1:], end]


# -- ad network (Figs. 9 to 11)


@dataclass(frozen=True, slots=True)
class Posted:
    """A click of an ad, the seal of a campaign by a server (`ad` is -1), or a request (`server` is -1)."""

    at: float
    server: int
    campaign: int
    ad: int
    number: int = -1


@dataclass
class Ran:
    """What a run has shown.

    Attributes:
        processed: when each click was processed at the first replica.
        answers: of each request by its number, the answers of the replicas: ads with few clicks, with counts.
        waits: from the arrival of a request at the first replica to its answer.
        seals: from each seal to the release of its partition at the first replica.
        last_seals: the same from the last seal of each partition.
        releases: when partitions were released there.
        delivery: from each post to its arrival at the first replica.
        counts: clicks by campaign and ad, at the end.
    """

    processed: list[float] = field(default_factory=list)
    answers: dict[int, list[frozenset[tuple[int, int]]]] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    seals: list[float] = field(default_factory=list)
    last_seals: list[float] = field(default_factory=list)
    releases: list[float] = field(default_factory=list)
    delivery: list[float] = field(default_factory=list)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)

    @property
    def differing(self) -> int:
        """Number of requests that two replicas have answered differently."""
        return sum(len(set(each)) > 1 for each in self.answers.values())

    def checksum(self) -> str:
        """Of the final counts: the same for the same clicks."""
        final = sorted((key, count) for key, count in self.counts.items() if count)
        return hashlib.blake2b(repr(final).encode(), digest_size=8).hexdigest()


def posts(servers: int, seed: int, *, independent: bool) -> list[Posted]:
    """Return what servers and analysts send, by time: 1,000 clicks a server, 50 at a time, with pauses.

    The clicks of the fleet are the same for both partitionings. Analysts ask about campaigns that run.
    """
    rng = random.Random(f"{servers} {seed}")
    found: list[Posted] = []
    for server in range(servers):
        at = rng.uniform(0, SLEEP_S)
        own = [each for each in range(CAMPAIGNS) if each % servers == server] if independent else None
        clicks = list(_clicks(server, servers, own))
        for number, (campaign, ad) in enumerate(clicks):
            if number and number % BURST == 0:
                at += SLEEP_S * rng.uniform(0.5, 1.5)
            found.append(Posted(at, server, campaign, ad))
            if number + 1 == len(clicks) or clicks[number + 1][0] != campaign:
                found.append(Posted(at, server, campaign, -1))
    end = max(each.at for each in found)
    for number in range(int(end / REQUEST_EVERY_S)):
        at = number * REQUEST_EVERY_S
        campaign = min(max(0, int(at / end * CAMPAIGNS) + rng.randint(-5, 5)), CAMPAIGNS - 1)
        found.append(Posted(at, -1, campaign, 0, number))
    return sorted(found, key=lambda each: each.at)


def _clicks(server: int, servers: int, own: Sequence[int] | None) -> Iterator[tuple[int, int]]:
    """Yield campaign and ad of a server's clicks, campaign by campaign."""
    each = ENTRIES // CAMPAIGNS
    if own is None:
        for campaign in range(CAMPAIGNS):
            yield from ((campaign, _ad(campaign, server, number)) for number in range(each))
    else:
        for campaign in own:
            for other in range(servers):
                yield from ((campaign, _ad(campaign, other, number)) for number in range(each))


def _ad(campaign: int, server: int, number: int) -> int:
    """Return the ad of a click: some ads have more than others."""
    return (campaign + server * number + number**2) % ADS


def run(strategy: str, servers: int, seed: int) -> Ran:
    """Run the ad network with three replicas that answer CAMPAIGN: ads with few clicks in a campaign."""
    sent = posts(servers, seed, independent=strategy == INDEPENDENT)
    rng = random.Random(f"links {strategy} {servers} {seed}")
    ordered, sealed = strategy in (ORDERED, PER_MESSAGE), strategy in (SEALED, INDEPENDENT)
    sent = sent if sealed else [each for each in sent if each.ad >= 0]
    left = _ordered(sent, rng, one=strategy == PER_MESSAGE) if ordered else [each.at for each in sent]
    ran = Ran()
    producers = 1 if strategy == INDEPENDENT else servers
    for replica in range(REPLICAS):
        arrivals = list(_arrivals(sent, left, rng, one_link=ordered))
        _Replica(ran, replica, servers, producers if sealed else 0).take(sent, arrivals)
    return ran


def _arrivals(
    sent: Sequence[Posted], left: Sequence[float], rng: random.Random, *, one_link: bool
) -> Iterator[float]:
    """Yield when messages arrive: a link keeps the order of its messages; with `one_link` there is one."""
    last: dict[int, float] = {}
    for each, at in zip(sent, left, strict=True):
        link = 0 if one_link else each.server
        last[link] = max(last.get(link, 0.0), at + LINK_S * rng.uniform(1, 1.5))
        yield last[link]


def _ordered(sent: list[Posted], rng: random.Random, *, one: bool) -> list[float]:
    """Return when the order of each message is decided; sorts the messages by that order.

    One change for all that has arrived, or with `one` a change for each message.
    """
    arrivals = sorted((each.at + LINK_S * rng.uniform(1, 1.5), number) for number, each in enumerate(sent))
    decided: list[tuple[float, int]] = []
    served = complete = 0.0
    waiting: list[tuple[float, int]] = []
    for at, number in arrivals:
        served = max(served, at) + SERVICE_S
        waiting.append((served, number))
    begin = 0
    while begin < len(waiting):
        start = max(complete, waiting[begin][0])
        stop = begin + 1
        while not one and stop < len(waiting) and waiting[stop][0] <= start:
            stop += 1
        complete = start + CHANGE_S
        decided += [(complete, number) for _, number in waiting[begin:stop]]
        begin = stop
    sent[:] = [sent[number] for _, number in decided]
    return [at for at, _ in decided]


class _Replica:
    """One reporting server; with `producers`, a partition is processed when it has so many seals."""

    def __init__(self, ran: Ran, number: int, servers: int, producers: int) -> None:
        self.ran, self.number, self.producers = ran, number, producers
        self.few = servers  # clicks of an ad in the mean
        self.counts: Counter[tuple[int, int]] = Counter()
        self.held: dict[int, list[Posted]] = {}
        self.sealed: dict[int, list[float]] = {}
        self.asked: dict[int, list[tuple[float, Posted]]] = {}
        self.ended: set[int] = set()

    def take(self, sent: Sequence[Posted], arrivals: Sequence[float]) -> None:
        queue = [(at, number, sent[number]) for number, at in enumerate(arrivals)]
        heapq.heapify(queue)
        now = 0.0
        while queue:
            at, _, each = heapq.heappop(queue)
            now = max(now, at) + SERVICE_S
            if self.number == 0:
                self.ran.delivery.append(at - each.at)
            if each.server < 0:
                self._request(each, at, now)
            elif each.ad < 0:
                self._seal(each, now)
            elif self.producers:
                self.held.setdefault(each.campaign, []).append(each)
            else:
                self._count(each, now)
        if self.number == 0:
            self.ran.counts = self.counts

    def _count(self, each: Posted, now: float) -> None:
        self.counts[each.campaign, each.ad] += 1
        if self.number == 0:
            self.ran.processed.append(now)

    def _request(self, each: Posted, at: float, now: float) -> None:
        if self.producers and each.campaign not in self.ended:
            self.asked.setdefault(each.campaign, []).append((at, each))
        else:
            self._answer(each, at, now)

    def _answer(self, each: Posted, at: float, now: float) -> None:
        counts = ((ad, self.counts[each.campaign, ad]) for ad in range(ADS))
        few = frozenset(pair for pair in counts if pair[1] < self.few)
        self.ran.answers.setdefault(each.number, []).append(few)
        if self.number == 0:
            self.ran.waits.append(now - at)

    def _seal(self, seal: Posted, now: float) -> None:
        seals = self.sealed.setdefault(seal.campaign, [])
        seals.append(seal.at)
        if len(seals) < self.producers:
            return
        self.ended.add(seal.campaign)
        for each in self.held.pop(seal.campaign, ()):
            self._count(each, now)
        for at, each in self.asked.pop(seal.campaign, ()):
            self._answer(each, at, now)
        if self.number == 0:
            self.ran.releases.append(now)
            self.ran.seals += [now - at for at in seals]
            self.ran.last_seals.append(now - max(seals))
