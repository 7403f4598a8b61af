"""Topics at real agents: how many messages a second each delivery takes, and how late a message is.

Four publishers insert posts of 1 KiB at four agents, in batches that are durable before the next one. A
reader at one of them counts the rows of closed records; early rows of UNORDERED are not measured. The peer of
each delivery is UNORDERED. The agents give the posts their times. If one is late nevertheless, no record has
it, and the run fails at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fleet import until
from benchmarks.harness import Figure, checked, percentile
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import Client, connect
from elfmesh.api.client.job_values import lines_of, time_text
from elfmesh.cli.host.local_agents import LocalAgents
from elfmesh.errors import ElfError

PUBLISHERS = 4
BATCH = 100
MESSAGES = {False: 10_000, True: 200}
"""Of each publisher, at full speed."""

SINGLE = {False: 50, True: 5}
PAUSE_S = 0.2
"""Messages of each publisher one at a time, and the time between them."""

BODY = json.dumps("x" * 1000)
PROGRAM, NAME = "bench/posts", "bench/topic"
SEALED = "SEALED (batch WHEN event = 'end' PRODUCERS ONE AFTER '1 h') EVERY '100 ms'"
DELIVERIES = {
    "UNORDERED": "UNORDERED EVERY '100 ms'",
    "SEALED": SEALED,
    "SEQUENCED": "SEQUENCED EVERY '100 ms'",
    "ORDERED": "ORDERED",
}
SEALS = "s"
"""Prefix of the producers of seals, which are no messages."""

WITHIN_S = 300.0


def topics(*, small: bool) -> list[Figure]:
    """Messages a second of all publishers until a reader has them, and the latency of single messages."""
    found = {name: _measured(text, small) for name, text in DELIVERIES.items()}
    base = found["UNORDERED"][0]
    checked(len({digest for _, _, digest in found.values()}) == 1, "topics have delivered other messages")
    figures = []
    for name, (rate, late, digest) in found.items():
        peer = "" if name == "UNORDERED" else "UNORDERED"
        shown = f"topic {name}, {PUBLISHERS} publishers, 1 KiB"
        figures.append(Figure(shown, rate, "messages/s", peer, base / rate if peer else 0.0, digest))
        figures.append(Figure(f"{shown}: one message to a reader, median", percentile(late, 0.5) * 1e3, "ms"))
    return figures


def _measured(delivery: str, small: bool) -> tuple[float, list[float], str]:
    """Return messages a second, the latencies of single messages, and a digest of what was delivered."""
    with tempfile.TemporaryDirectory() as directory, LocalAgents(Path(directory)) as fleet:
        streams = ["--stream", f"posts=program://{PROGRAM},format=json,idle=1 s"]
        fleet.start({f"a{number}": streams for number in range(PUBLISHERS)})
        apis = [agent.api for agent in fleet.agents]
        client = connect(apis[-1])
        until(lambda: len(client.get("agents")) == PUBLISHERS, "all agents")
        client.apply(f"CREATE TOPIC {NAME.replace('/', '.')} FROM posts DELIVERY {delivery}")
        reader = Reader(client)
        single, bulk = SINGLE[small], MESSAGES[small]
        posted = asyncio.run(_publish(apis, range(single), 1, PAUSE_S))
        reader.wait(PUBLISHERS * single)
        late = [reader.arrived[name] - at for name, at in posted.items()]
        began = time.time()
        asyncio.run(_publish(apis, range(single, single + bulk), BATCH, 0.0))
        ended = reader.wait(PUBLISHERS * (single + bulk))
        checked(not reader.repeated, "a message was delivered twice")
        digest = hashlib.blake2b(repr(sorted(reader.arrived)).encode(), digest_size=8).hexdigest()
        return PUBLISHERS * bulk / (ended - began), late, digest


async def _publish(
    apis: list[str], positions: range, size: int, pause_s: float
) -> dict[tuple[str, int], float]:
    """Insert posts at all agents side by side, and return when each was inserted."""
    posted = dict[tuple[str, int], float]()

    async def one(number: int, api: str) -> None:
        async with AsyncClient(api) as client:
            for start in range(positions.start, positions.stop, size):
                chosen = range(start, min(start + size, positions.stop))
                lines = lines_of(_records(number, chosen), stamp := time_text())
                posted.update(dict.fromkeys(((f"p{number}", each) for each in chosen), time.time()))
                await client.insert(
                    PROGRAM, lines, stream="posts", producer="bench", position=chosen[-1], stamp=stamp
                )
                await asyncio.sleep(pause_s)

    await asyncio.gather(*(one(number, api) for number, api in enumerate(apis)))
    return posted


def _records(number: int, positions: range) -> Iterator[dict[str, object]]:
    """Return posts of a publisher, and behind them the post that seals their partition."""
    batch = f"{number}/{positions.start}"
    for position in positions:
        yield {"batch": batch, "producer": f"p{number}", "position": position, "body": BODY}
    end = {"producer": f"{SEALS}{number}", "position": positions[-1], "event": "end", "body": '"end"'}
    yield {"batch": batch, **end}


class Reader:
    """A reader that follows the closed records of the topic in a thread.

    Args:
        client: client of an agent.
        key: a column of the rows, if the topic is sealed by it.

    Attributes:
        arrived: by producer and position of each message, when the reader had it.
        repeated: how often a message came once more.
        late: messages that no record has, because their interval was closed when they were read.
        released: by value of the key column, when the reader had the first row with it.
        ended: why the reader follows no longer.
    """

    def __init__(self, client: Client, key: str = "") -> None:
        self.arrived: dict[tuple[str, int], float] = {}
        self.released: dict[str, float] = {}
        self.repeated = self.late = 0
        self._key = key
        self.ended = ""
        self._client = client
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._client.results(NAME, follow=True):
                now = time.time()
                self.late += line["counts"]["late_dropped"]
                for row in line["rows"]:
                    name = row["producer"], row["position"]
                    self.repeated += name in self.arrived
                    if self._key in row:
                        self.released.setdefault(row[self._key], now)
                    if not name[0].startswith(SEALS):
                        self.arrived[name] = now
        except ElfError as error:  # also when the agents are stopped at the end
            self.ended = str(error)

    def wait(self, count: int) -> float:
        """Return when the reader had so many messages."""
        until(lambda: len(self.arrived) >= count or self.late or self.ended, f"{count} messages", WITHIN_S)
        checked(not self.late, f"{self.late} messages were late: the host is too busy for this measurement")
        checked(len(self.arrived) >= count, f"the reader has ended: {self.ended}")
        return max(self.arrived.values())
