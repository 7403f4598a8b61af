"""WordCount: each host splits its own text into words, the agents add them up, the master side prints them.

    python examples/programs/wordcount.py

The job has two trees, one per hash range of the words, as in the paper (ELF 2.3). It begins when all hosts
have inserted their text, which they tell the master side by `route`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import fleet

import elfmesh
from elfmesh.api.client.job_values import Message, Result
from elfmesh.cli.host.local_agents import LocalAgents

HOSTS = 3
BATCH = 500
DAY = "2015-05-17T10:00:00Z"
QUERY = """CREATE JOB demo.wordcount PARTITIONS 2 AS
SELECT key AS word, sum(value) AS count FROM words
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), key ORDER BY count DESC, word"""


class WordCount(elfmesh.Job):
    """One host's vertex.

    Args:
        api: of the agent beside it.
        text: the file that this host has.
        hosts: how many there are.
    """

    name = "demo/wordcount"

    def __init__(self, api: str, text: Path, hosts: int, done: asyncio.Event) -> None:
        super().__init__(api)
        self.text, self.hosts, self.done = text, hosts, done
        self.inserted: set[str] = set()

    async def on_start(self) -> None:
        """Map: a pair for each word. The line's number is its position: no word counts twice."""
        for position, pairs in enumerate(batches(self.text), 1):
            await self.insert(pairs, producer=self.text.name, position=position)
        await self.route(self.name, {"inserted": self.text.name})

    async def on_route(self, message: Message) -> None:
        """Master side: when all have inserted, let them be counted."""
        self.inserted.add(message.body["inserted"])
        if len(self.inserted) == self.hosts:
            await self.update(QUERY)

    async def on_result(self, result: Result) -> None:
        """Reduced: one row for each word."""
        for row in result.rows:
            click.echo(json.dumps(row))
        if result.rows:
            self.done.set()


def batches(text: Path) -> Iterator[list[dict[str, Any]]]:
    """(word, 1), in batches; combined within a batch, as the paper's buffer trees do."""
    words = re.findall(r"[a-z']+", text.read_text().lower())
    for start in range(0, len(words), BATCH):
        counts = Counter(words[start : start + BATCH])
        yield [{"key": word, "value": count, "ts": DAY} for word, count in counts.items()]


def write_texts(directory: Path) -> list[Path]:
    """Some text for each host: one question, mixed differently."""
    question = "to be or not to be that is the question whether it is nobler in the mind to suffer"
    words = question.split()
    paths = []
    for number in range(HOSTS):
        paths.append(directory / f"host{number}.txt")
        mixed = [words[(place * (number + 3) + place // 7) % len(words)] for place in range(2000)]
        lines = [" ".join(mixed[at : at + 10]) for at in range(0, len(mixed), 10)]
        paths[-1].write_text("\n".join(lines))
    return paths


async def play(directory: Path, agents: LocalAgents) -> None:
    """Write the texts, start the agents and the vertices, wait for the result."""
    texts = write_texts(directory)
    options = ["--stream", "words=program://demo/wordcount,format=json,idle=1 s"]
    agents.start({path.stem: options for path in texts})
    done = asyncio.Event()
    jobs = [WordCount(agent.api, text, HOSTS, done) for agent, text in zip(agents.agents, texts, strict=True)]
    await fleet.until_done(jobs, done.wait(), 120)


if __name__ == "__main__":
    fleet.run(play)
