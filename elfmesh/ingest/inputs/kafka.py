"""Input from a Kafka topic: each message is one line of the spool, stored once; the disk has the position.

Before messages are written to the spool, their partitions, offsets, lengths and start in the spool are
written beside it (`kafka_place`). After a crash, the spool's length shows which of them it contains. Offsets
are stored nowhere else, and there is no consumer group. Newlines become spaces in JSON and `#012` elsewhere;
a message without a value is skipped. See guarantees D-1 and docs/adr/0017-formats-and-spools.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from elfmesh.errors import StorageError
from elfmesh.ingest.inputs.kafka_config import KafkaInput
from elfmesh.ingest.inputs.kafka_place import PLACE, BatchPosition, encode_place, read_place
from elfmesh.ingest.inputs.messages import one_line
from elfmesh.ingest.inputs.writer import SpoolWriter, watched
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.limits import LINE_BYTES_MAX
from elfmesh.storage.failpoints import reach
from elfmesh.storage.storage import DiskStorage

log = logging.getLogger("elf.inputs")
BATCH_MESSAGES = 500
QUEUE_KILOBYTES = "16384"
"""Kilobytes that may be fetched in advance; bounds a batch."""

POLL_S, ANSWER_S = 0.2, 10.0
LOOK_S = 30.0
"""Interval at which the topic's partitions are listed again."""

AGAIN_MIN_S, AGAIN_MAX_S = 0.5, 30.0


class KafkaMessages:
    """Reader of a topic into a spool that has no other writer.

    `from_end` selects the starting offset of partitions from which nothing was read yet.
    """

    def __init__(self, writer: SpoolWriter, config: KafkaInput, *, from_end: bool) -> None:
        self._writer, self._config, self._from_end = writer, config, from_end
        self._storage = DiskStorage(writer.spool.path.parent)
        self._thread = WorkerThread(f"kafka-{writer.name}")
        self._offsets: dict[int, int] = {}
        self._begun: bool | None = None  # whether an earlier start read anything; None: unknown
        self._task = watched(self._run(), writer.name, writer.counters)

    def look(self) -> None: ...

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.close()
        self._storage.close()

    async def _run(self) -> None:
        pause = AGAIN_MIN_S
        counters = self._writer.counters
        while True:
            before = counters.messages
            try:
                await self._follow()
            except (KafkaException, StorageError) as error:
                why = str(error)[:300]
            else:
                continue  # new partitions
            pause = AGAIN_MIN_S if counters.messages > before else min(AGAIN_MAX_S, pause * 2)
            if counters.problem != why:
                log.warning("stream %s: the topic is not read: %s", self._writer.name, why)
            counters.problem = why
            await asyncio.sleep(pause)

    async def _follow(self) -> None:
        consumer = Consumer(
            {
                "client.id": "elfmesh",
                "queued.max.messages.kbytes": QUEUE_KILOBYTES,
                **self._config.options,
                "bootstrap.servers": ",".join(self._config.servers),
                "group.id": "elfmesh",  # required by the library; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
        )
        try:
            assigned = await self._thread.run(partial(self._assign, consumer))
            self._writer.counters.problem = ""
            loop = asyncio.get_running_loop()
            look_at = loop.time() + LOOK_S
            while True:
                batch = await self._thread.run(partial(_batch, consumer))
                if batch:
                    await self._take(batch)
                if loop.time() > look_at:
                    look_at = loop.time() + LOOK_S
                    if await self._thread.run(partial(self._partitions, consumer)) != assigned:
                        return
        finally:
            await asyncio.shield(self._thread.run(consumer.close))

    def _partitions(self, consumer: Consumer) -> list[int]:
        if self._config.partitions:
            return sorted(set(self._config.partitions))
        topic = consumer.list_topics(self._config.topic, timeout=ANSWER_S).topics[self._config.topic]
        if topic.error is not None:
            raise KafkaException(topic.error)
        return sorted(topic.partitions)

    def _assign(self, consumer: Consumer) -> list[int]:
        """Start where the spool ends; runs in the thread."""
        if self._begun is None:
            self._begun = self._recall()
        partitions, places = self._partitions(consumer), []
        for number in partitions:
            place = TopicPartition(self._config.topic, number)
            low, high = consumer.get_watermark_offsets(place, timeout=ANSWER_S)
            known = self._offsets.get(number)
            if known is None:
                known = self._offsets[number] = low if self._begun or not self._from_end else high
            elif known < low:
                self._writer.counters.lost += low - known
                log.error("%s [%d]: offsets %d to %d are gone", self._config.topic, number, known, low - 1)
                known = self._offsets[number] = low
            place.offset = known
            places.append(place)
        self._store(BatchPosition(self._config.topic, self._offsets, *self._writer.spool.end))
        self._begun = True
        consumer.assign(places)
        return partitions

    def _recall(self) -> bool:
        found = read_place(self._storage, self._config.topic, *self._writer.spool.end)
        self._offsets = found or {}
        return found is not None

    def _store(self, place: BatchPosition) -> None:
        self._storage.write(PLACE, encode_place(place))

    async def _take(self, messages: Sequence[Message]) -> None:
        lines, batch = [], []
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                raise KafkaException(error)
            if partition is None or offset is None:
                continue
            line = line_of(message.value())
            if len(line) > LINE_BYTES_MAX:
                self._writer.counters.overlong += 1
                line = b""
            lines.append(line)
            batch.append((partition, offset, len(line)))
        inode, size = self._writer.spool.end
        place = BatchPosition(self._config.topic, dict(self._offsets), inode, size, tuple(batch))
        await self._thread.run(partial(self._store, place))
        reach("kafka.noted")
        if data := b"".join(lines):
            await self._writer.put(data, sum(map(bool, lines)))
        reach("kafka.spooled")
        for partition, offset, _ in batch:
            self._offsets[partition] = offset + 1


def _batch(consumer: Consumer) -> list[Message]:
    first = consumer.consume(1, POLL_S)
    return first + consumer.consume(BATCH_MESSAGES - 1, 0.0) if first else first


def line_of(value: bytes | str | None) -> bytes:
    body = value.encode() if isinstance(value, str) else bytes(value or b"")
    if body.lstrip()[:1] in (b"{", b"["):
        body = body.replace(b"\n", b" ")
    return one_line(body)
