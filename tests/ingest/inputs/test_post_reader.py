"""Posts of a spool for an ordered topic: in their order, from where the last process had come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from elfmesh.control.protocol.events import PostsRead, ReadPosts
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.inputs.inserts import Inserts
from elfmesh.ingest.inputs.post_reader import PostReaders
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.scheduling.task_queue import TaskQueue
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.machine import Event
from tests.patience import PATIENCE_S

JOB = bytes(20)


class Host:
    """An agent with one stream of posts."""

    def __init__(self, inputs: Inputs, executor: ThreadExecutor) -> None:
        self.inputs, self.events = inputs, list[Event]()
        self.tasks = TaskQueue(_fail)
        self.readers = PostReaders(
            inputs.streams,
            lambda name, config: inputs.reader(name, config, StreamFormat("json")),
            executor,
            self.events.append,
            self.tasks.spawn,
        )

    @property
    def target(self) -> Inserts:
        return self.inputs.inserts("shop/words", None)

    def ask(self, restart: bytes = b"") -> None:
        self.readers.read(ReadPosts(JOB, "i", "words", restart))

    async def next(self) -> PostsRead:
        await until(lambda: bool(self.events))
        event = self.events.pop(0)
        assert isinstance(event, PostsRead)
        return event

    async def some(self, count: int) -> list[tuple[str, int]]:
        """So many posts, however they are divided."""
        found: list[tuple[str, int]] = []
        while len(found) < count:
            self.ask()
            self.last = await self.next()
            found += [(post.producer, post.position) for post in self.last.posts]
        return found


def _fail(error: BaseException) -> None:
    raise AssertionError(error)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not what():  # noqa: ASYNC110 - a thread's outcome
            await asyncio.sleep(0.005)


@asynccontextmanager
async def host(directory: Path, read_from: Literal["beginning", "end"] = "beginning") -> AsyncIterator[Host]:
    executor = ThreadExecutor(2)
    config = StreamConfig(listen="program://shop/words", read_from=read_from)
    inputs = Inputs({"words": config}, directory, executor)
    try:
        await inputs.start(None)  # type: ignore[arg-type]  # no job reads here
        made = Host(inputs, executor)
        yield made
        made.readers.close()
        await made.tasks.wait_done()
    finally:
        await inputs.close()
        executor.close()


async def test_posts_come_in_their_order_and_other_records_are_passed_over(tmp_path: Path) -> None:
    async with host(tmp_path) as agent:
        await agent.target.post("p", 0, b'{"campaign":"c"}')
        await agent.target.insert("q", 0, [b'{"ts":"2026-01-01T00:00:00Z","other":1}', b"no json"])
        await agent.target.post("q", 1, b'"text"')
        assert await agent.some(2) == [("p", 0), ("q", 1)]
        assert agent.last.posts[-1].body == '"text"'
        assert agent.last.posts[-1].at_us > 1_600_000_000_000_000
        agent.ask()
        await agent.target.post("p", 1, b"1")
        assert [post.position for post in (await agent.next()).posts] == [1]
        assert agent.events == [], "one answer for each request"


async def test_a_restarted_agent_reads_on_where_all_posts_were_ordered(tmp_path: Path) -> None:
    async with host(tmp_path) as agent:
        await agent.target.post("p", 0, b"1")
        assert await agent.some(1) == [("p", 0)]
        restart = agent.last.restart
        await agent.target.post("p", 1, b"1")
        assert await agent.some(1) == [("p", 1)]
        assert [place.offset for place in agent.readers.positions()[0]] == [0], "nothing is ordered yet"
        agent.ask(restart)
        assert agent.readers.positions()[0][0].offset > 0
    async with host(tmp_path) as agent:
        agent.ask(restart)
        assert [post.position for post in (await agent.next()).posts] == [1]


async def test_a_topic_that_begins_at_the_end_of_a_spool_states_where_that_is(tmp_path: Path) -> None:
    """Otherwise an agent that is killed before the first post is ordered begins behind it."""
    async with host(tmp_path, "end") as agent:
        await agent.target.post("p", 0, b"1")
        agent.ask()
        begun = await agent.next()
        assert begun.posts == ()
        await agent.target.post("p", 1, b"1")
        assert await agent.some(1) == [("p", 1)]
    async with host(tmp_path, "end") as agent:
        agent.ask(begun.restart)
        assert [post.position for post in (await agent.next()).posts] == [1]


async def test_a_topic_that_is_over_needs_nothing_of_the_spool(tmp_path: Path) -> None:
    async with host(tmp_path) as agent:
        agent.ask()
        agent.readers.stop(JOB)
        assert agent.readers.positions() == []
        agent.readers.read(ReadPosts(JOB, "i", "no such stream", b""))
        assert agent.readers.positions() == []
