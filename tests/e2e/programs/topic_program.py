"""Programs that post to the topic test/words and follow it; what each process received is in a file.

    elf program run topic_program.py --class Vertex

`ELF_TEST_DIRECTORY` says where, `ELF_TEST_BATCHES` how many messages a publisher posts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import elfmesh
from elfmesh.api.client.job_topics import PostBatch, post_text
from elfmesh.limits import POST_BYTES_MAX

DIRECTORY = Path(os.environ["ELF_TEST_DIRECTORY"])
POSTS = int(os.environ.get("ELF_TEST_BATCHES", "0"))


def note(name: str, value: object) -> None:
    """One line more in a file, in one write."""
    with (DIRECTORY / name).open("a") as file:
        file.write(json.dumps(value) + "\n")


class Publisher(elfmesh.Job):
    """Posts messages under a name of its agent, and goes on where its last process ended."""

    name = "test/publisher"

    async def on_start(self) -> None:
        note("attached", os.getpid())
        producer = f"p-{self.api}"
        for number in range(POSTS):
            body = {"campaign": f"c{number % 3}", "event": "click", "number": number}
            if not number:  # the largest message
                body["filler"] = "x" * (POST_BYTES_MAX - len(post_text(body | {"filler": ""})))
            await self.post("test/words", body, producer=producer, position=number)
            note("posted", [producer, number])
        for campaign in ("c0", "c1", "c2"):
            await self.post(
                "test/words", {"campaign": campaign, "event": "end"}, producer=producer,
                position=POSTS + int(campaign[1]),
            )  # fmt: skip
        self.stop()


class Vertex(elfmesh.Job):
    """Notes what it receives, in a file of its agent."""

    name = "test/vertex"
    topics = ("test.words",)

    async def on_start(self) -> None:
        note("attached", os.getpid())

    async def on_post(self, topic: str, batch: PostBatch) -> None:
        for each in batch.posts:
            line = [batch.index, each.producer, each.position, each.body, batch.partition, batch.early]
            note(f"vertex-{self.api.rpartition(':')[2]}", [os.getpid(), *line])
