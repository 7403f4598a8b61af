"""Inserts of programs: records with a position, durable before they are acknowledged, stored at most once.

An insert has a producer and an increasing position. An insert at or below the producer's stored position is
acknowledged without writing, so a program may repeat an insert that was not answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.ingest.inputs.positions import TooManyProducers
from elfmesh.ingest.inputs.posts import (
    STAMP_BYTES_MAX,
    PostTimes,
    newest_us,
    now_us,
    post_line,
    read_post,
    stamped,
)
from elfmesh.ingest.inputs.writer import SpoolWriter
from elfmesh.limits import LINE_BYTES_MAX
from elfmesh.safeguards import safeguard

Lines = Callable[[], list[bytes]]
"""Makes lines when they are queued, because a post gets its time then."""

LOCKS_MAX = 64
"""Maximum number of concurrent inserts in one stream; further ones are asked to retry."""


@dataclass(slots=True)
class _Producer:
    lock: asyncio.Lock
    waiting: int = 0


class Inserts:
    """Receiver of one stream's inserts from a program ("namespace/name")."""

    def __init__(self, program: str, writer: SpoolWriter, clock_us: Callable[[], int] = now_us) -> None:
        self.program = program
        self._writer = writer
        self.times = PostTimes(clock_us, newest_us(writer.spool.last_lines()))
        self._producers: dict[str, _Producer] = {}

    def look(self) -> None: ...

    async def close(self) -> None:
        """The spool's writer finishes pending writes."""

    def position(self, producer: str) -> int | None:
        assert self._writer.spool.positions is not None
        return self._writer.spool.positions.last(producer)

    async def insert(self, producer: str, position: int, lines: list[bytes], stamp: str = "") -> int:
        """Store records; returns the producer's newest position when they are durable.

        Lines that begin with the time `stamp` get the time at which they are queued.

        Raises:
            UsageError: A line is too long, or there are too many producers.
            RuntimeFailure: The spool has no room.
            Unreachable: Too many inserts are in progress; no record was stored.
        """
        if any(len(line) > LINE_BYTES_MAX - STAMP_BYTES_MAX * bool(stamp) for line in lines):
            raise UsageError(f"a record is longer than {LINE_BYTES_MAX} bytes; no record was stored")
        times = self.times
        return await self._once(
            producer, position, lambda: stamped(lines, stamp, times.next_us()) if stamp else lines
        )

    async def post(self, producer: str, position: int, message: bytes) -> int:
        """Store a message of a topic, as `insert` stores records. Raises as `insert`."""
        fields = read_post(message)
        return await self._once(
            producer, position, lambda: [post_line(fields, self.times.next_us(), producer, position)]
        )

    async def _once(self, producer: str, position: int, lines: Lines) -> int:
        if sum(each.waiting for each in self._producers.values()) >= LOCKS_MAX:
            raise Unreachable("too many inserts at once; no record of this insert was stored")
        mine = self._producers.setdefault(producer, _Producer(asyncio.Lock()))
        mine.waiting += 1
        # Queued records will be written, so the position must not be read before, even if the caller is
        # cancelled.
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(mine, producer, position, lines)))

    async def _in_turn(self, mine: _Producer, producer: str, position: int, lines: Lines) -> int:
        try:
            async with mine.lock:
                return await self._one(producer, position, lines)
        finally:
            mine.waiting -= 1
            if not mine.waiting:
                del self._producers[producer]

    async def _one(self, producer: str, position: int, lines: Lines) -> int:
        positions = self._writer.spool.positions
        assert positions is not None
        last = positions.last(producer)
        if last is not None and position <= last:
            return last
        try:
            positions.check_room(producer)
        except TooManyProducers as error:
            raise UsageError(str(error), hint="Name fewer producers, or leave the name out.") from None
        if self._writer.waiting:
            raise RuntimeFailure(self._writer.counters.problem, hint="No record was stored; insert it again.")
        with self._awaited():
            made = lines()
            data = b"".join(line + b"\n" for line in made)
            await self._writer.put(data, len(made), (producer, position))
        return position

    @contextlib.contextmanager
    @safeguard("post-awaited")
    def _awaited(self) -> Iterator[None]:
        """Keep the watermark of the stream back until the lines are written."""
        self.times.waiting += 1
        try:
            yield
        finally:
            self.times.waiting -= 1
