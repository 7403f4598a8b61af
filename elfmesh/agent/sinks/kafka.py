"""Sink for a Kafka topic: one message per interval, in a transaction with the position.

  TOPIC              key "shop/top:INCARNATION:57", value as the webhook's; a revision has the same key
  TOPIC.positions    key "shop/top:INCARNATION", value {"next", "epoch"}; partition 0; may be compacted

A line of early rows has the key of its interval, so that the final record replaces it in a compacted topic.

All messages of a job go to one partition, in order. A consumer of committed messages gets each interval once;
a compacted topic keeps the newest revision. The sink reads its positions after it has taken the transactional
id, so that a replaced writer can commit nothing more. See guarantees D-5, D-17.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordRefused,
    SinkItem,
    Unavailable,
    admit,
    behind,
    past,
)
from elfmesh.agent.sinks.config import KafkaSink
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.failpoints import reach

T = TypeVar("T")
ANSWER_S = 20.0
POLL_S = 1.0
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)


class KafkaTopic:
    """Sink for a Kafka topic. Agents with a sink of this name for this topic replace each other."""

    def __init__(self, name: str, config: KafkaSink) -> None:
        self._config = config
        own = {"bootstrap.servers": ",".join(config.servers), "client.id": "elfmesh"}
        self._common: dict[str, Any] = {**own, **config.options}
        self._id = f"elfmesh.{config.topic}.{name}"
        self._positions = f"{config.topic}.positions"
        self._thread = WorkerThread(name)
        self._producer: Producer | None = None
        self._known: dict[str, Position] = {}
        self._shown: dict[LogName, dict[int, tuple[int, int]]] = {}
        self._partitions = 1

    async def position(self, log: LogName) -> Position | None:
        return await self._run(partial(self._position, log))

    async def write(self, log: LogName, item: SinkItem) -> bool:
        return await self._run(partial(self._write, log, item))

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        await self._run(partial(self._declare, log, lost))

    def ended(self, log: LogName) -> None:
        """Forget tentative results of the log; its position stays."""
        self._shown.pop(log, None)

    async def close(self) -> None:
        """Close the producer. The brokers abort an open transaction."""
        self._thread.close()

    def describe(self) -> Mapping[str, Any]:
        return {"servers": list(self._config.servers), "topic": self._config.topic}

    # -- in the thread -----------------------------------------------------------------------------------

    async def _run(self, call: Callable[[], T]) -> T:
        def guarded() -> T:
            try:
                return call()
            except (KafkaException, BufferError) as error:
                self._producer = None  # the next producer takes the transactional id again
                raise Unavailable(_reason(error)) from None

        return await self._thread.run(guarded)

    def _open(self) -> Producer:
        if self._producer is None:
            producer = Producer({**self._common, "transactional.id": self._id, "enable.idempotence": True})
            producer.init_transactions(ANSWER_S)
            for name in (self._positions, self._config.topic):  # requesting a topic may create it
                topic = producer.list_topics(name, timeout=ANSWER_S).topics[name]
                if topic.error is not None:
                    raise KafkaException(topic.error)
            self._partitions = max(1, len(topic.partitions))
            self._known = self._read_positions()
            self._shown.clear()
            self._producer = producer
        return self._producer

    def _read_positions(self) -> dict[str, Position]:
        """Return the newest position of every log. Cost: reads the topic of positions to its end."""
        found: dict[str, Position] = {}
        settings = {"group.id": self._id, "enable.auto.commit": False, "isolation.level": "read_committed"}
        settings |= {"enable.partition.eof": True, "fetch.wait.max.ms": 20}
        consumer = Consumer({**self._common, **settings})
        try:
            place = TopicPartition(self._positions, 0)
            place.offset, _ = consumer.get_watermark_offsets(place, timeout=ANSWER_S)
            consumer.assign([place])
            until = time.monotonic() + ANSWER_S
            while time.monotonic() < until:
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                if error is not None:
                    raise KafkaException(error)
                key, value = message.key(), message.value()
                if key is not None and value is not None:
                    found[bytes(key).decode()] = _decoded(bytes(value))
                    until = time.monotonic() + ANSWER_S
            raise Unavailable(f"{self._positions} cannot be read to its end")
        finally:
            consumer.close()

    def _position(self, log: LogName) -> Position | None:
        self._open()
        return self._known.get(_key(log))

    def _write(self, log: LogName, item: SinkItem) -> bool:
        self._open()
        index, shown = item.record.index, self._shown.get(log, {})
        position = self._known.get(_key(log))
        if not admit(position, shown.get(index), item):
            return False
        messages = [encode_json(shown) for shown in item.shown(log)]
        self._send(log, f"{_key(log)}:{index}", messages, behind(position, item))
        if item.terminal:
            self._shown[log] = {each: order for each, order in shown.items() if each > index}
        else:
            self._shown[log] = {**shown, index: item.order}
        return True

    def _declare(self, log: LogName, lost: LostIntervals) -> None:
        self._open()
        position = self._known.get(_key(log))
        if position is not None and lost.last < position.next:
            return
        reported: dict[str, Any] = {"job": log.job, "incarnation": log.incarnation, "why": lost.why}
        reported |= {"lost": [lost.first, lost.last]}
        key = f"{_key(log)}:{lost.first}-{lost.last}:lost"
        self._send(log, key, [encode_json(reported)], past(position, lost))

    def _send(self, log: LogName, key: str, values: list[bytes], position: Position | None) -> None:
        producer = self._open()
        reach("sink.write", "kafka")
        producer.begin_transaction()
        partition = zlib.crc32(log.job.encode()) % self._partitions
        try:
            for number, value in enumerate(values, 1):
                name = key if len(values) == 1 else f"{key}:{number}"
                producer.produce(self._config.topic, value, name.encode(), partition)
        except KafkaException as error:
            producer.abort_transaction(ANSWER_S)
            if error.args[0].code() in TOO_LARGE:
                raise RecordRefused(
                    f"{max(map(len, values))} bytes are more than a message may have"
                ) from None
            raise
        reach("sink.written", "kafka")
        if position is not None:
            producer.produce(self._positions, msgspec.json.encode(position), _key(log).encode(), 0)
        producer.commit_transaction(ANSWER_S)
        if position is not None:
            self._known[_key(log)] = position


def _key(log: LogName) -> str:
    return f"{log.job}:{log.incarnation}"


def _decoded(value: bytes) -> Position:
    try:
        return msgspec.json.decode(value, type=Position)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"a position is damaged: {error}") from None


def _reason(error: Exception) -> str:
    found = error.args[0] if error.args else error
    return str(found.str() if isinstance(found, KafkaError) else found)[:300]
