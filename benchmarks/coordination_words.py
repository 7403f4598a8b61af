"""The word count of Blazes VIII-A (Fig. 8) at real agents: what it costs that batches are committed in order.

Spouts insert batches of tweets at an agent each, and a reader has the counts by word and batch. `seal`: a
batch ends with the punctuation of its spout. `ordered commits`: in addition, a spout inserts a batch after
the reader has the one before, as a transactional topology commits. `uncoordinated`: batches are not sealed;
the reader gets the windows of 100 ms. Where batches do not wait for each other, up to eight of a spout are
under way, as in the model (`strategies.throughput`). All strategies count the same words. The agents give
words their times, so that none is late on a busy host; otherwise the run fails.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from benchmarks.agent import cpu_s
from benchmarks.fleet import until
from benchmarks.harness import Figure, checked
from benchmarks.strategies import COMMITS, IN_FLIGHT, SEALED, UNCOORDINATED
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import Client, connect
from elfmesh.api.client.job_values import lines_of, time_text
from elfmesh.cli.host.local_agents import LocalAgents
from elfmesh.errors import ElfError

AGENTS = {False: (2, 4, 8), True: (2,)}
BATCHES = {False: 24, True: 4}
"""Of each spout."""

WORDS_PER_BATCH = 1_500
VOCABULARY = 200
STREAM, JOB, PROGRAM = "words", "bench/words", "bench/spout"
_SEALED = (
    "CREATE JOB bench.words EVERY '100 ms' AS SELECT batch, word, count(*) AS n FROM words "
    "GROUP BY SEALED(batch WHEN done PRODUCERS ONE AFTER '1 h'), word"
)
TEXTS = {
    UNCOORDINATED: (
        "CREATE JOB bench.words EVERY '100 ms' AS SELECT batch, word, count(*) AS n FROM words "
        "WHERE done IS NULL GROUP BY batch, word"
    ),
    SEALED: _SEALED,
    COMMITS: _SEALED,
}
WITHIN_S = 240.0
POLL_S = 0.02


class _Counts:
    """Follows the closed records, and has the words that were counted."""

    def __init__(self, client: Client) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.of_batch: Counter[str] = Counter()
        self.total = self.late = 0
        self.at = time.time()
        self.ended = ""
        self._client = client
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._client.results(JOB, follow=True):
                self.late += line["counts"]["late_dropped"]
                for row in line["rows"]:
                    self.counts[row["batch"], row["word"]] += row["n"]
                    self.of_batch[row["batch"]] += row["n"]
                    self.total += row["n"]
                if line["rows"]:
                    self.at = time.time()
        except ElfError as error:  # also when the agents are stopped at the end
            self.ended = str(error)

    def wait(self, words: int) -> float:
        """Return when the reader had so many words."""
        until(lambda: self.total >= words or self.late or self.ended, f"{words} words", WITHIN_S)
        checked(not self.late, f"{self.late} words were late: the host is too busy for this measurement")
        checked(self.total >= words, f"the reader has ended: {self.ended}")
        return self.at

    async def wait_batch(self, name: str, words: int) -> None:
        """Wait until the reader has all words of a batch.

        A task polls, because asyncio has six threads on two cores, and eight spouts wait.
        """
        end = time.monotonic() + WITHIN_S
        while self.of_batch[name] < words and not (self.late or self.ended):
            checked(time.monotonic() < end, f"batch {name} did not come within {WITHIN_S:g} s")
            await asyncio.sleep(POLL_S)

    def digest(self) -> str:
        return hashlib.blake2b(repr(sorted(self.counts.items())).encode(), digest_size=8).hexdigest()


def words(*, small: bool) -> list[Figure]:
    """Words a second from the first batch until the reader has all, and CPU seconds of all agents."""
    figures = []
    for agents in AGENTS[small]:
        found = {name: _ran(name, agents, BATCHES[small]) for name in TEXTS}
        base, base_s, digest = found[UNCOORDINATED]
        checked({each for *_, each in found.values()} == {digest}, "strategies have counted other words")
        for name, (rate, used_s, _) in found.items():
            peer = "" if name == UNCOORDINATED else UNCOORDINATED
            title = f"Fig. 8 at agents, {agents} workers, {name}"
            figures.append(Figure(title, rate, "words/s", peer, base / rate if peer else 0.0, digest))
            ratio = used_s / base_s if peer else 0.0
            figures.append(Figure(f"{title}: CPU of the agents", used_s, "s", peer, ratio, digest))
    return figures


def _ran(strategy: str, count: int, batches: int) -> tuple[float, float, str]:
    with tempfile.TemporaryDirectory() as directory, LocalAgents(Path(directory)) as fleet:
        streams = ["--stream", f"{STREAM}=program://{PROGRAM},format=json,idle=1 s"]
        fleet.start({f"a{number}": streams for number in range(count)})
        apis = [agent.api for agent in fleet.agents]
        client = connect(apis[-1])
        until(lambda: len(client.get("agents")) == count, "all agents")
        client.apply(TEXTS[strategy])
        reader = _Counts(client)
        asyncio.run(_spouts(apis, reader, strategy, 1, 1, 0))  # all streams have begun then
        warm = count
        reader.wait(warm)
        began, before_s = time.time(), _cpu_s(fleet)
        asyncio.run(_spouts(apis, reader, strategy, batches, WORDS_PER_BATCH, 1))
        ended = reader.wait(warm + count * batches * WORDS_PER_BATCH)
        used_s = _cpu_s(fleet) - before_s
        return count * batches * WORDS_PER_BATCH / (ended - began), used_s, reader.digest()


def _cpu_s(fleet: LocalAgents) -> float:
    return sum(cpu_s(agent.process.pid) for agent in fleet.agents)


async def _spouts(
    apis: list[str], reader: _Counts, strategy: str, batches: int, size: int, first: int
) -> None:
    """Insert batches at all agents side by side, as many at a time as the strategy lets be under way."""
    ahead = 1 if strategy == COMMITS else IN_FLIGHT

    async def spout(number: int, api: str) -> None:
        names = [f"{number}/{first + at}" for at in range(batches)]
        rng = random.Random(f"spout {number} {first}")
        async with AsyncClient(api) as client:
            for at, name in enumerate(names):
                if at >= ahead:
                    await reader.wait_batch(names[at - ahead], size)
                chosen = (f"w{rng.randrange(VOCABULARY)}" for _ in range(size))
                words = [{"batch": name, "word": word} for word in chosen]
                lines = lines_of([*words, {"batch": name, "word": "", "done": True}], stamp := time_text())
                await client.insert(
                    PROGRAM, lines, stream=STREAM, producer="bench", position=first + at + 1, stamp=stamp
                )

    await asyncio.gather(*(spout(number, api) for number, api in enumerate(apis)))
