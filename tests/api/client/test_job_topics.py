"""Topics of a program: what a vertex receives, and what cannot be posted."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import elfmesh
from elfmesh.api.client.job_topics import PostBatch, TopicReader, post_text, topic_name
from elfmesh.errors import Unreachable, UsageError
from tests.patience import PATIENCE_S

SEALED = "CREATE TOPIC ads.clicks DELIVERY SEALED "


def row(position: int, **keys: object) -> dict[str, Any]:
    return {**keys, "producer": "p", "position": position, "agent": "web", "body": f"[{position}]"}


def line(index: int, rows: list[dict[str, Any]], state: str = "FINAL") -> dict[str, Any]:
    return {"interval": {"index": index}, "state": state, "rows": rows, "completeness": 1.0, "version": 1}


class Recording:
    """A vertex that notes what it receives; `failing` batches raise."""

    creator = "local"

    def __init__(self, failing: int = 0) -> None:
        self.batches: list[PostBatch] = []
        self.failing = failing

    async def on_post(self, topic: str, batch: PostBatch) -> None:
        self.failing -= 1
        if self.failing >= 0:
            raise Unreachable("away")
        self.batches.append(batch)

    @property
    def positions(self) -> list[tuple[int, list[int], bool]]:
        return [(each.index, [post.position for post in each.posts], each.early) for each in self.batches]


class Pages:
    """An agent's API with the pages of a topic; the last one is empty."""

    text = "CREATE TOPIC ads.clicks DELIVERY UNORDERED"

    def __init__(self, *pages: list[dict[str, Any]], incarnation: str = "i") -> None:
        self.pages, self.asked = list(pages), list[int]()
        self.incarnation = incarnation
        self.done = asyncio.Event()

    async def page(self, *_: object, start: int, **__: object) -> tuple[list[dict[str, Any]], int]:
        await asyncio.sleep(0)
        self.asked.append(start)
        if len(self.asked) == 1:
            return [], 0
        page = self.pages.pop(0) if self.pages else []
        found = [each for each in page if each["interval"]["index"] >= start]
        if not self.pages and not found:
            self.done.set()
        return found, 0

    async def exists(self, *_: object, **__: object) -> bool:
        return True

    async def ask(self, *_: object, **__: object) -> dict[str, Any]:
        return {"text": self.text}

    async def offsets(self, *_: object, **__: object) -> dict[str, Any]:
        return {"earliest": 0, "latest": 0, "incarnation": self.incarnation, "expired": None}


class Positions:
    def __init__(self, text: str = "") -> None:
        self.text, self.reported = text, list[str]()

    async def follow(self, topic: str) -> str:
        return self.text

    async def posts_handled(self, topic: str, text: str) -> None:
        self.reported.append(text)


async def follow(vertex: Recording, pages: Pages, positions: Positions) -> None:
    reader = TopicReader(vertex, pages, positions, "ads/clicks")  # type: ignore[arg-type]  # what it uses
    task = asyncio.create_task(reader.run())
    async with asyncio.timeout(PATIENCE_S):
        await pages.done.wait()
    task.cancel()


async def test_records_arrive_in_order_and_their_index_is_reported_after_they_were_handled() -> None:
    vertex, positions = Recording(), Positions()
    await follow(vertex, Pages([line(5, [row(1), row(2)]), line(6, []), line(7, [row(3)])]), positions)
    assert vertex.positions == [(5, [1, 2], False), (7, [3], False)]
    assert vertex.batches[0].posts[0].body == [1]
    assert positions.reported == ["i:5", "i:6", "i:7"]


async def test_a_vertex_goes_on_behind_its_position_unless_the_topic_is_another() -> None:
    for incarnation, first in (("i", 7), ("j", 0)):
        pages = Pages([line(6, [row(1)]), line(7, [row(2)])], incarnation=incarnation)
        vertex = Recording()
        await follow(vertex, pages, Positions("i:6"))
        assert pages.asked[-1] >= first
        assert len(vertex.batches) == (1 if first else 2)


async def test_posts_that_were_early_are_not_repeated_by_their_record() -> None:
    early = [line(5, [row(2)], "EARLY"), line(5, [row(2), row(1)], "EARLY")]
    vertex, positions = Recording(), Positions()
    await follow(vertex, Pages(early, [line(5, [row(1), row(2), row(3)])]), positions)
    assert vertex.positions == [(5, [2], True), (5, [1], True), (5, [3], False)]
    assert positions.reported == ["i:5"]


async def test_a_sealed_topic_gives_one_partition_at_a_time() -> None:
    vertex = Recording()
    rows = [row(1, campaign="a"), row(2, campaign="a"), row(1, campaign="b")]
    await follow(vertex, Pages([line(5, rows)]), Positions())
    assert [each.partition for each in vertex.batches] == [{"campaign": "a"}, {"campaign": "b"}]
    assert vertex.positions == [(5, [1, 2], False), (5, [1], False)]


@pytest.mark.parametrize(
    "wrong", [{"body": "no JSON"}, {"body": 7}, {"producer": None}, {"position": "1"}, {"body": "[" * 9000}]
)
async def test_a_record_that_is_no_post_stops_no_vertex(wrong: dict[str, Any]) -> None:
    """A client may insert records into the stream of a topic."""
    vertex, positions = Recording(), Positions()
    await follow(vertex, Pages([line(5, [row(1), row(2) | wrong, row(3)]), line(6, [row(4)])]), positions)
    assert vertex.positions == [(5, [1, 3], False), (6, [4], False)]
    assert positions.reported == ["i:5", "i:6"]


async def test_a_batch_whose_callback_was_unreachable_is_handled_again() -> None:
    vertex, positions = Recording(failing=1), Positions()
    await follow(vertex, Pages([line(5, [row(1)])], [line(5, [row(1)])]), positions)
    assert vertex.positions == [(5, [1], False)]
    assert positions.reported == ["i:5"]


class Ordering(Recording):
    """A vertex whose state depends on the order of the posts of a campaign."""

    @elfmesh.path("post:ads.clicks", "outside", "OW", by=("campaign",))
    async def on_post(self, topic: str, batch: PostBatch) -> None:
        await super().on_post(topic, batch)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (Pages.text, "post:ads.clicks -> outside is OW over campaign, and the topic is UNORDERED"),
        (f"{SEALED}(campaign, id WHEN e = 1 PRODUCERS ONE AFTER '1 h')", "is SEALED on campaign, id"),
        (f"{SEALED}(campaign WHEN e = 1 PRODUCERS ONE AFTER '1 h')", ""),
        ("CREATE TOPIC ads.clicks DELIVERY SEQUENCED EVERY '1 s'", ""),
        ("CREATE JOB ads.clicks EVERY '1 s' AS SELECT a FROM s", "a job, not a topic"),
    ],
)
async def test_a_program_that_needs_more_than_its_topic_delivers_is_refused(text: str, error: str) -> None:
    pages = Pages([line(5, [row(1)])])
    pages.text = text
    vertex = Ordering()
    if not error:
        await follow(vertex, pages, Positions())
        assert vertex.positions == [(5, [1], False)]
        return
    reader = TopicReader(vertex, pages, Positions(), "ads/clicks")  # type: ignore[arg-type]  # what it uses
    with pytest.raises(UsageError, match=error):
        await reader.run()
    assert vertex.batches == []


def test_a_program_chooses_the_delivery_that_its_paths_need() -> None:
    class Confluent(elfmesh.Job):
        query = "CREATE TOPIC ads.clicks -- a topic\n DELIVERY AUTO LATENESS '1 s'"

        @elfmesh.path("post:ads.clicks", "outside", "CW", idempotent=True)
        async def on_post(self, topic: str, batch: PostBatch) -> None: ...

    class Silent(Confluent):
        async def on_post(self, topic: str, batch: PostBatch) -> None: ...

    class Slower(Silent):
        query = "CREATE TOPIC ads.clicks DELIVERY AUTO EVERY '2 s'"

    assert Confluent().query == "CREATE TOPIC ads.clicks -- a topic\n DELIVERY UNORDERED LATENESS '1 s'"
    assert "DELIVERY SEQUENCED EVERY '100 ms' LATENESS" in Silent().query
    assert Slower().query == "CREATE TOPIC ads.clicks DELIVERY SEQUENCED EVERY '2 s'"


@pytest.mark.parametrize("message", [None, True, 1.5, "x", [1, {"a": None}], {"a": [2**80, "ü\0"]}])
def test_a_post_is_what_its_reader_receives(message: object) -> None:
    assert msgspec.json.decode(post_text(message)) == message


def _deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "message",
    [
        b"x",
        (1, 2),
        float("nan"),
        float("inf"),
        {1: 2},
        {1, 2},
        object(),
        "\ud800",
        "x" * 40_000,
        _deep(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_post_that_would_change_or_is_too_large_is_refused(message: object) -> None:
    with pytest.raises(UsageError, match="post"):
        post_text(message)


def test_a_topic_has_the_name_of_a_job() -> None:
    assert topic_name("ads.clicks") == topic_name("ads/clicks") == "ads/clicks"
    with pytest.raises(UsageError, match="name of a job"):
        topic_name("a b")


class Posting(elfmesh.Job):
    """Posts once, behind the newest position of its producer."""

    name = "ads/follow"

    async def on_start(self) -> None:
        newest = await self.position("p", stream="clicks")
        assert newest is not None
        await self.post("ads/clicks", "x", producer="p", position=newest + 1)
        self.stop()


@pytest.mark.parametrize("answered", range(4))
async def test_an_agent_that_goes_away_during_the_first_post_gets_it_when_it_is_back(
    answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elfmesh.api.client.job_topics.AGAIN_S", 0.0)
    asked: list[str] = []

    async def attach(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if len(asked) in (answered + 1, answered + 2):
            return web.json_response({"error": "away"}, status=503)
        return web.json_response({"text": "CREATE TOPIC ads.clicks DELIVERY ORDERED", "position": 7})

    app = web.Application()
    app.router.add_get("/v1/programs/ads/follow", attach)
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app, host="127.0.0.1") as server, asyncio.timeout(PATIENCE_S):
        await Posting(f"{server.host}:{server.port}").serve()
    assert asked[-1] == "/v1/programs/ads/clicks/post"
    assert len(set(asked)) < len(asked), "a request was repeated"
