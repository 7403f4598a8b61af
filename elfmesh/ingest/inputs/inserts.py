"""What programs insert: records with a position, durable before they are acknowledged, never twice.

An insert names its producer and a position that grows. One whose position the spool has already is
acknowledged and not written again, so a program may repeat an insert without an answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.ingest.inputs.positions import TooManyProducers
from elfmesh.ingest.inputs.writer import SpoolWriter
from elfmesh.limits import LINE_BYTES_MAX

LOCKS_MAX = 64
"""Inserts under way at once in one stream; more are told to come again."""


@dataclass(slots=True)
class _Producer:
    lock: asyncio.Lock
    waiting: int = 0


class Inserts:
    """Takes the inserts of one stream from a program ("namespace/name")."""

    def __init__(self, program: str, writer: SpoolWriter) -> None:
        self.program = program
        self._writer = writer
        self._producers: dict[str, _Producer] = {}

    def look(self) -> None: ...

    async def close(self) -> None:
        """What is being written is the writer's business."""

    def position(self, producer: str) -> int | None:
        assert self._writer.spool.positions is not None
        return self._writer.spool.positions.last(producer)

    async def insert(self, producer: str, position: int, lines: list[bytes]) -> int:
        """Take records; returns the producer's newest position once they are durable.

        Raises:
            UsageError: a line is too long, or there is no room for another producer.
            RuntimeFailure: the spool has no room now.
            Unreachable: too much is under way; no record was stored.
        """
        if any(len(line) > LINE_BYTES_MAX for line in lines):
            raise UsageError(f"a record is longer than {LINE_BYTES_MAX} bytes; no record was stored")
        if sum(each.waiting for each in self._producers.values()) >= LOCKS_MAX:
            raise Unreachable("too many inserts at once; no record of this insert was stored")
        mine = self._producers.setdefault(producer, _Producer(asyncio.Lock()))
        mine.waiting += 1
        # What is in the queue of the spool will be written: no reader may look at the position before.
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(mine, producer, position, lines)))

    async def _in_turn(self, mine: _Producer, producer: str, position: int, lines: list[bytes]) -> int:
        try:
            async with mine.lock:
                return await self._one(producer, position, lines)
        finally:
            mine.waiting -= 1
            if not mine.waiting:
                del self._producers[producer]

    async def _one(self, producer: str, position: int, lines: list[bytes]) -> int:
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
        data = b"".join(line + b"\n" for line in lines)
        await self._writer.put(data, len(lines), (producer, position))
        return position
