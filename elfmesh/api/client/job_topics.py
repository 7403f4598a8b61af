"""Topics of a program: posting a message, and following a topic at every vertex.

The module owns the position up to which a vertex has handled the posts of a topic. A position is reported to
the agent only after the posts were handled. After a crash in between, they are handled again; a running
process handles each post once, unless its callback fails.

Paper: Blazes III.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.attachment import Attachment
from elfmesh.api.client.job_values import MESSAGE_S
from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.jobs.program_paths import declared_paths, handles, least_delivery, unmet_need
from elfmesh.control.protocol.replies import ResultOffsets, read_reply
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.limits import POST_BYTES_MAX
from elfmesh.ql.plan.delivery import AUTO, BODY, COLUMNS
from elfmesh.wire import UNREADABLE

if TYPE_CHECKING:
    from elfmesh.ql.plan.statement import Statement

AGAIN_S = 0.5
FOLLOW_S = 5.0
"""How long one request for the next posts waits."""

log = logging.getLogger("elf.program")
T = TypeVar("T")


class Posted(msgspec.Struct, frozen=True):
    """One message of a topic; `agent`, `producer` and `position` name it."""

    body: Any
    producer: str
    position: int
    agent: str


class PostBatch(msgspec.Struct, frozen=True):
    """Messages of a topic that a vertex handles together.

    Attributes:
        topic: "namespace/name".
        index: number of the record that contains them; the first index is that of the oldest record that is
            kept.
        posts: the messages, in the order of the topic.
        partition: keys of the partition that has ended, for a sealed topic; otherwise empty.
        early: whether the record is still open, for an unordered topic.
        completeness: share of the expected agents that contributed.
    """

    topic: str
    index: int
    posts: list[Posted]
    partition: dict[str, Any]
    early: bool
    completeness: float


class Vertex(Protocol):
    """Interface of a program that follows topics."""

    creator: str

    async def on_post(self, topic: str, batch: PostBatch) -> None:
        """Called for the messages of a topic."""
        ...


class TopicReader:
    """Follows one topic for one process of a program.

    Args:
        vertex: the program.
        client: client of the agent's API.
        attached: attachment through which positions are stored at the agent.
        topic: "namespace/name".
    """

    def __init__(self, vertex: Vertex, client: AsyncClient, attached: Attachment, topic: str) -> None:
        self._vertex, self._client, self._attached, self._topic = vertex, client, attached, topic
        self._incarnation, self._next, self._revision = "", 0, 0
        self._version = -1  # the one whose delivery was compared with the program's paths; 0: the first read
        self._paths = [each for each in declared_paths(type(vertex).on_post) if handles(each, topic)]
        self._early: dict[int, set[tuple[str, str, int]]] = {}  # delivered posts of open records

    async def run(self) -> None:
        """Follow the topic until cancelled.

        Raises:
            UsageError: the program needs more than the topic delivers, or the topic is a job.
        """
        kept, _, index = (await self._attached.follow(self._topic)).rpartition(":")
        if kept and index.lstrip("-").isdecimal():
            self._incarnation, self._next = kept, int(index) + 1
        while True:
            try:
                page = await self._page()
            except (Unreachable, RuntimeFailure) as error:
                log.info("no posts of %s now: %s", self._topic, error)
                page = []
            for line in page:
                if not await self._handle(line):
                    break
            if not page:
                await asyncio.sleep(AGAIN_S)

    async def _check(self, version: int) -> None:
        """Compare the delivery of the topic with the paths of the program, once for each version."""
        if version == self._version:
            return
        found = await topic_statement(self._client, self._topic, self._vertex.creator)
        if found is None or found.job is None or found.job.delivery is None:
            raise Unreachable(f"there is no topic {self._topic}")
        keys = [name for name in found.columns if name not in COLUMNS]
        if problem := unmet_need(self._paths, found.job.delivery, keys):
            hint = "Write DELIVERY SEQUENCED in the topic, or make the callback confluent."
            raise UsageError(f"{self._topic} delivers less than the program needs: {problem}", hint=hint)
        self._version = version

    async def _page(self) -> list[dict[str, Any]]:
        """Return the next records; none if the topic was deleted and created again meanwhile."""
        creator = self._vertex.creator
        if self._version < 0:
            await self._check(0)
        page, revision = await self._client.page(
            self._topic,
            start=self._next,
            wait_s=FOLLOW_S,
            state="early",
            revision=self._revision,
            creator=creator,
        )
        held = read_reply(ResultOffsets, await self._client.offsets(self._topic, creator=creator))
        if held.incarnation != self._incarnation:  # only now the meaning of the numbers is known
            self._incarnation, self._next, self._revision = held.incarnation, 0, 0
            self._early.clear()
            return []
        if self._next and held.expired is not None and held.expired >= self._next:
            log.warning("posts of %s up to record %d are no longer kept", self._topic, held.expired)
        self._revision = revision
        for version in dict.fromkeys(line["version"] for line in page):
            await self._check(version)
        return page

    async def _handle(self, line: dict[str, Any]) -> bool:
        """Handle the new messages of a record; returns whether they were handled."""
        index, early = line["interval"]["index"], line["state"] == "EARLY"
        if index < self._next:  # early rows of a record that was handled meanwhile
            return True
        known = self._early.setdefault(index, set())
        keys = [name for name in (line["rows"] or [{}])[0] if name not in COLUMNS]
        read = [(row, post) for row in line["rows"] if (post := _read(row)) is not None]
        if len(read) < len(line["rows"]):
            others = len(line["rows"]) - len(read)
            log.warning("%d rows of record %d of %s are no posts", others, index, self._topic)
        new = [(row, post) for row, post in read if _name(post) not in known]
        for values, rows in groupby(new, lambda each: [each[0][key] for key in keys]):
            posts = [post for _, post in rows]
            partition = dict(zip(keys, values, strict=True))
            batch = PostBatch(
                self._topic, index, posts, partition, early, 1.0 if early else line["completeness"]
            )
            try:
                await self._vertex.on_post(self._topic, batch)
            except Unreachable as error:
                log.warning("posts of record %d of %s are handled again: %s", index, self._topic, error)
                self._revision = 0
                await asyncio.sleep(AGAIN_S)
                return False
            known |= {_name(each) for each in posts}
        if not early:
            self._next = index + 1
            for other in [each for each in self._early if each <= index]:
                del self._early[other]
            await self._attached.posts_handled(self._topic, f"{self._incarnation}:{index}")
        return True


def _read(row: dict[str, Any]) -> Posted | None:
    """Return the message of a row; None if a client has inserted a record that is no post into the stream."""
    try:
        return msgspec.convert({**row, BODY: msgspec.json.decode(row[BODY])}, Posted)
    except (TypeError, *UNREADABLE):
        return None


def _name(post: Posted) -> tuple[str, str, int]:
    return post.agent, post.producer, post.position


def topic_name(topic: str) -> str:
    """Return "namespace/name". Raises UsageError if the text is not the name of a topic."""
    try:
        return "/".join(split_name(topic))
    except ValueError as error:
        raise UsageError(str(error), hint="A topic is named NAMESPACE/NAME.") from None


async def topic_statement(client: AsyncClient, topic: str, creator: str) -> Statement | None:
    """Return the statement of a topic; None if it does not exist. Raises UsageError if it is a job."""
    from elfmesh import ql

    if not await client.exists(topic, creator=creator):
        return None
    found = ql.parse((await client.ask("describe", topic, creator=creator))["text"])
    if found.job is None or found.job.delivery is None:
        raise UsageError(f"{topic} is a job, not a topic", hint=_hint(topic))
    return found


async def check_topic(client: AsyncClient, topic: str, creator: str) -> None:
    """Raise UsageError unless there is a topic of this name."""
    if await topic_statement(client, topic, creator) is None:
        raise UsageError(f"there is no topic {topic}", hint=_hint(topic))


def _hint(topic: str) -> str:
    return f"Apply one: CREATE TOPIC {topic.replace('/', '.')} DELIVERY SEQUENCED EVERY '100 ms'"


def chosen(program: type[Vertex], query: str) -> str:
    """Return the query of a program, with a delivery for the paths of its class in place of AUTO."""
    if AUTO not in query.upper():
        return query
    from elfmesh.ql.plan.topics import with_delivery

    paths = declared_paths(program.on_post)
    return with_delivery(query, least_delivery([each.label.startswith("C") for each in paths]))


def post_text(message: Any) -> bytes:
    """Encode a message as JSON.

    Raises:
        UsageError: a reader would receive another value, or the message is too large.
    """
    try:
        data = msgspec.json.encode(message)
        same = msgspec.json.decode(data) == message
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"a post must consist of plain values: {error}") from None
    if not same:
        hint = "Use None, numbers, strings, lists and dicts with strings as keys; no bytes, tuples or NaN."
        raise UsageError("JSON cannot represent this post exactly", hint=hint)
    if len(data) > POST_BYTES_MAX:
        hint = "Insert the data as records, and post a reference to them."
        raise UsageError(f"a post of {len(data)} bytes is over {POST_BYTES_MAX}", hint=hint)
    return data


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a read, or an insert or post with its position, while the agent is away, at most `MESSAGE_S`.

    Raises Unreachable if the agent was away for longer.
    """
    until = asyncio.get_running_loop().time() + MESSAGE_S
    while True:
        try:
            return await call()
        except Unreachable:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(AGAIN_S)
