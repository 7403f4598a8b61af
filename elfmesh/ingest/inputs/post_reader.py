"""Readers of posts for the ordered topics over this agent's streams.

Owns the position of each reader, and the position up to which its posts are ordered, because the spool keeps
what follows. A record that is no post, such as an insert of the program, is passed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
import pyarrow as pa

from elfmesh.control.protocol.events import PostsRead, ReadPosts
from elfmesh.control.protocol.messages_order import Post
from elfmesh.ingest.host import Executor
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.scheduling.task_queue import Command
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.reader import Reader
from elfmesh.machine import Event
from elfmesh.ql.plan.delivery import BODY, POSITION, PRODUCER
from elfmesh.ql.plan.windows import TIME_COLUMN

log = logging.getLogger("elf.worker")

LOOK_S = 0.02
"""Polling period of a stream without new posts."""

AGAIN_S = 1.0
"""Pause after a failed disk operation."""

POLL_BYTES = 256 << 10

COLUMNS = (PRODUCER, POSITION, BODY, TIME_COLUMN)


class PostReader:
    """Reader of one stream for one topic.

    Args:
        effect: the first request.
        config: settings of the stream.
        opened: its reader.

    Attributes:
        ordered: positions before which all posts are ordered.
    """

    def __init__(
        self,
        effect: ReadPosts,
        config: StreamConfig,
        opened: Reader,
        executor: Executor,
        emit: Callable[[Event], None],
    ) -> None:
        self.job, self.incarnation = effect.job, effect.incarnation
        self._name, self._lane = effect.job.hex(), f"read:{effect.stream} for {effect.job.hex()}"
        self._config, self._reader, self._executor, self._emit = config, opened, executor, emit
        self.ordered = _positions(effect.restart)
        self._wanted = asyncio.Event()
        self._stopped = False
        self.request(effect)

    def request(self, effect: ReadPosts) -> None:
        """Emit the next posts as soon as there are any."""
        if effect.restart:
            self.ordered = _positions(effect.restart)
        self._wanted.set()

    def stop(self) -> None:
        self._stopped = True
        self._wanted.set()

    async def run(self) -> None:
        begun = await self._executor.run(self._lane, self._begin)
        if begun is not None:
            self._wanted.clear()
            self._emit(begun)
        while not self._stopped:
            await self._wanted.wait()
            try:
                found = None if self._stopped else await self._executor.run(self._lane, self._poll)
            except (OSError, pa.ArrowException) as error:
                log.warning("posts of %s cannot be read now: %s", self._config.path, error)
                await asyncio.sleep(AGAIN_S)
                continue
            if found is None or self._stopped:
                await asyncio.sleep(0 if self._stopped else LOOK_S)
                continue
            self._wanted.clear()
            self._emit(found)
        await self._executor.run(self._lane, self._reader.close)

    def _begin(self) -> PostsRead | None:
        """Open the stream; returns where a topic begins that has no position yet."""
        begun, read_from = bool(self.ordered), self._config.read_from
        self._reader.add(
            self._name, COLUMNS, positions=self.ordered, read_from="resume" if begun else read_from
        )
        if begun:
            return None
        self.ordered = self._reader.positions(self._name)
        return PostsRead(self.job, self.incarnation, (), msgspec.msgpack.encode(self.ordered))

    def _poll(self) -> PostsRead | None:
        posts: list[Post] = []
        passed = False
        for delivery in self._reader.poll(POLL_BYTES):
            passed = True
            posts += posts_of(delivery.parsed)
        if not passed:
            return None
        restart = msgspec.msgpack.encode(self._reader.positions(self._name))
        return PostsRead(self.job, self.incarnation, tuple(posts), restart)


def posts_of(parsed: Parsed) -> list[Post]:
    """Return the posts of a block; another record is none."""
    found = []
    columns = [parsed.arrays[name] for name in COLUMNS[:-1]]
    times = parsed.arrays[TIME_COLUMN].cast(pa.int64(), safe=False)
    for row in zip(*(each.to_pylist() for each in (*columns, times)), strict=True):
        producer, position, body, at_us = row
        try:
            found.append(msgspec.convert((producer, position, at_us, body), Post))
        except msgspec.ValidationError:
            continue
    return found


class PostReaders:
    """The readers of one agent, by the ids of topics.

    Args:
        streams: this agent's streams by name.
        open_reader: opens the reader of a stream.
        emit: receives the posts.
        spawn: runs a task.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamConfig],
        open_reader: Callable[[str, StreamConfig], Reader],
        executor: Executor,
        emit: Callable[[Event], None],
        spawn: Callable[[Command], None],
    ) -> None:
        self._streams, self._open, self._spawn = streams, open_reader, spawn
        self._new = partial(PostReader, executor=executor, emit=emit)
        self._of: dict[bytes, PostReader] = {}

    def read(self, effect: ReadPosts) -> None:
        known = self._of.get(effect.job)
        if known is not None and known.incarnation == effect.incarnation:
            known.request(effect)
            return
        self.stop(effect.job)
        if (config := self._streams.get(effect.stream)) is not None:
            made = self._of[effect.job] = self._new(effect, config, self._open(effect.stream, config))
            self._spawn(made.run)

    def stop(self, job: bytes) -> None:
        if (known := self._of.pop(job, None)) is not None:
            known.stop()

    def close(self) -> None:
        for job in list(self._of):
            self.stop(job)

    def positions(self) -> list[tuple[FilePosition, ...]]:
        """Return the positions before which the streams need not keep posts."""
        return [each.ordered for each in self._of.values()]


def _positions(restart: bytes) -> tuple[FilePosition, ...]:
    return msgspec.msgpack.decode(restart, type=tuple[FilePosition, ...]) if restart else ()
