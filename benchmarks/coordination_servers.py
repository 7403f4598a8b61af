"""The ad network of Blazes VIII-B at real agents: servers that post clicks, and replicas that read a topic.

Each server inserts clicks at an agent of its own, in bursts with a pause between, and a punctuation behind
the clicks of a campaign. Three replicas read the closed records at different agents. `independent seal`: a
campaign is at one server, whose punctuation ends it. `seal`: all servers have clicks of all campaigns, and a
campaign ends with the last punctuation. The peer is UNORDERED. All strategies deliver the same clicks.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.coordination_topics import NAME, PROGRAM, SEALS, Reader
from benchmarks.fleet import until
from benchmarks.harness import Figure, checked
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.api.client.job_values import lines_of, time_text
from elfmesh.cli.host.local_agents import LocalAgents

AGENTS = {False: 8, True: 2}
CAMPAIGNS = {False: 104, True: 20}
CLICKS = 10
"""Of each server and campaign. A burst has the last clicks of five campaigns, as in the model."""

BURST, PAUSE_S = 50, 0.25
WARM = "w"
"""Prefix of the campaigns before the measurement, with a click of each server."""

REPLICAS = 3
APART_S = 0.02
"""Releases that are closer are one step of the curve."""

UNORDERED, INDEPENDENT, SEAL, ORDERED = "uncoordinated", "independent seal", "seal", "ordered"
_ENDS = "SEALED (campaign WHEN event = 'end' PRODUCERS {} AFTER '1 h') EVERY '100 ms'"
DELIVERIES = {
    UNORDERED: "UNORDERED EVERY '100 ms'",
    INDEPENDENT: _ENDS.format("ONE"),
    SEAL: _ENDS.format("{servers} BY producer"),
    ORDERED: "ORDERED",
}


@dataclass
class _Run:
    """Seconds from the first click to the last one at all replicas; and for each campaign, from its last
    punctuation to its rows, and when the rows came; a digest of the clicks."""

    took_s: float
    late_s: list[float]
    released: list[float]
    digest: str


def servers(*, small: bool) -> list[Figure]:
    """Time until replicas have all clicks (Figs. 9, 10), and from a seal to the rows (Fig. 11)."""
    found = {name: _ran(name, small) for name in DELIVERIES}
    base = found[UNORDERED]
    checked(len({each.digest for each in found.values()}) == 1, "strategies have delivered other clicks")
    figures = []
    for name, each in found.items():
        shown = f"{AGENTS[small]} servers, {name}"
        peer = "" if each is base else UNORDERED
        ratio = each.took_s / base.took_s if peer else 0.0
        figures.append(Figure(f"{shown}: last click", each.took_s, "s", peer, ratio, each.digest))
        if name in (INDEPENDENT, SEAL):
            late_ms = statistics.median(each.late_s) * 1e3
            figures.append(Figure(f"{shown}: last punctuation of a campaign to its rows", late_ms, "ms"))
            steps = 1 + sum(later - one > APART_S for one, later in pairwise(sorted(each.released)))
            share = 10 * steps / len(each.released)
            figures.append(Figure(f"{shown}: release times of 10 campaigns", share, "times"))
    return figures


def _ran(strategy: str, small: bool) -> _Run:
    count, campaigns = AGENTS[small], CAMPAIGNS[small]
    with tempfile.TemporaryDirectory() as directory, LocalAgents(Path(directory)) as fleet:
        streams = ["--stream", f"posts=program://{PROGRAM},format=json,idle=1 s"]
        fleet.start({f"a{number}": streams for number in range(count)})
        apis = [agent.api for agent in fleet.agents]
        client = connect(apis[-1])
        until(lambda: len(client.get("agents")) == count, "all agents")
        delivery = DELIVERIES[strategy].format(servers=count)
        client.apply(f"CREATE TOPIC {NAME.replace('/', '.')} FROM posts DELIVERY {delivery}")
        readers = [Reader(connect(apis[-1 - number % count]), "campaign") for number in range(REPLICAS)]
        apart = strategy == INDEPENDENT
        warm = [[(f"{WARM}{number if apart else ''}", True)] for number in range(count)]
        asyncio.run(_publish(apis, warm, 0))  # all streams have begun then
        for reader in readers:
            reader.wait(count)
        clicks = [list(_clicks(number, count, strategy, campaigns)) for number in range(count)]
        began = time.time()
        sealed = asyncio.run(_publish(apis, clicks, 1))
        ended = max(reader.wait(count * (1 + campaigns * CLICKS)) for reader in readers)
        checked(not any(reader.repeated for reader in readers), "a click was delivered twice")
        checked(len({repr(sorted(reader.arrived)) for reader in readers}) == 1, "replicas have other clicks")
        digest = hashlib.blake2b(repr(sorted(readers[0].arrived)).encode(), digest_size=8).hexdigest()
        sealed = sealed if strategy in (INDEPENDENT, SEAL) else {}
        released = {name: readers[0].released[name] for name in sealed}
        late = [released[name] - at for name, at in sealed.items()]
        return _Run(ended - began, late, list(released.values()), digest)


Click = tuple[str, bool]
"""Campaign of a click, and whether the server has no further click of it."""


def _clicks(server: int, servers: int, strategy: str, campaigns: int) -> Iterator[Click]:
    """Yield the clicks of a server, campaign by campaign, as the model does (`strategies.posts`)."""
    independent = strategy == INDEPENDENT
    own = range(server if independent else 0, campaigns, servers if independent else 1)
    count = CLICKS * servers if independent else CLICKS
    for campaign in own:
        yield from ((str(campaign), number + 1 == count) for number in range(count))


async def _publish(apis: list[str], clicks: list[list[Click]], first: int) -> dict[str, float]:
    """Insert the clicks of all servers side by side; returns when each campaign had its last punctuation.

    Servers begin at other moments and pause for other times, so that their bursts do not coincide. The first
    click of a server has the position `first`.
    """
    sealed = dict[str, float]()

    async def serve(number: int, api: str) -> None:
        rng = random.Random(f"server {number}")
        async with AsyncClient(api) as client:
            await asyncio.sleep(rng.uniform(0, PAUSE_S))
            for start in range(0, len(clicks[number]), BURST):
                burst = clicks[number][start : start + BURST]
                lines = lines_of(_records(number, burst, first + start), stamp := time_text())
                at, stop = time.time(), first + start + len(burst)
                await client.insert(
                    PROGRAM, lines, stream="posts", producer="bench", position=stop, stamp=stamp
                )
                for campaign in (name for name, last in burst if last):
                    sealed[campaign] = max(at, sealed.get(campaign, 0.0))
                await asyncio.sleep(PAUSE_S * rng.uniform(0.5, 1.5))

    await asyncio.gather(*(serve(number, api) for number, api in enumerate(apis)))
    return sealed


def _records(number: int, clicks: list[Click], first: int) -> Iterator[dict[str, object]]:
    """Return clicks of a server, and behind the last ones of a campaign its punctuation."""
    for position, (campaign, last) in enumerate(clicks, first):
        about = {"campaign": campaign, "position": position}
        yield {**about, "producer": f"p{number}", "body": '"click"'}
        if last:
            yield {**about, "producer": f"{SEALS}{number}", "event": "end", "body": '"end"'}
