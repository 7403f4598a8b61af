"""Programs that the tests run beside agents, kill and start again; what they did is in files.

    elf program run counting_program.py --class Inserter

`ELF_TEST_DIRECTORY` says where.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import elfmesh
from elfmesh.api.client.job_values import Message, Result

DIRECTORY = Path(os.environ["ELF_TEST_DIRECTORY"])
BATCHES = int(os.environ.get("ELF_TEST_BATCHES", "0"))


def note(name: str, value: object) -> None:
    """One line more in a file, in one write."""
    with (DIRECTORY / name).open("a") as file:
        file.write(json.dumps(value) + "\n")


class Inserter(elfmesh.Job):
    """Inserts BATCHES batches of ten records, and goes on where its last life ended."""

    name = "test/inserts"

    async def on_start(self) -> None:
        """What the agent has already is not inserted again."""
        done = await self.position("numbers") or 0
        note("began", done)
        for number in range(done + 1, BATCHES + 1):
            records = [{"ts": "2015-05-17T10:05:03Z", "k": f"k{each}"} for each in range(10)]
            await self.insert(records, producer="numbers", position=number)
            note("inserted", number)
        self.stop()


class Follower(elfmesh.Job):
    """Notes each result that it is told, and what its master side publishes of it."""

    query = """CREATE JOB test.follow LATENESS '0 s' DEADLINE '1 s' AS SELECT k, count(*) AS n FROM log
    GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""

    async def on_master(self) -> None:
        note("masters", self.agent)

    async def on_result(self, result: Result) -> None:
        await self.multicast({"index": result.index, "rows": result.rows})
        note("results", [result.index, self.agent])

    async def on_multicast(self, message: Message) -> None:
        note("multicasts", [message.body["index"], self.api])
