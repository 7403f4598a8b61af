"""Kafka as a source: every message is a line of the spool once, wherever the agent was killed."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.agent.settings.config import config_of
from elfmesh.errors import ConfigError
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs import kafka as module
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.inputs.kafka import line_of
from elfmesh.ingest.inputs.kafka_config import KafkaInput
from elfmesh.ingest.inputs.kafka_place import BatchPosition
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.storage import failpoints
from tests.agent.sinks.rig import die
from tests.agent.sinks.servers import kafka
from tests.ingest.inputs.receiving import NoFrames, until
from tests.patience import PATIENCE_S


@pytest.fixture
def servers() -> Iterator[str]:
    with kafka() as found:
        yield found


class Topic:
    """Something to read: numbered lines in all partitions."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self.sent: Counter[bytes] = Counter()
        assert len(self._producer.list_topics("in", timeout=PATIENCE_S).topics["in"].partitions) == 4

    def send(self, count: int) -> None:
        for _ in range(count):
            line = b'{"n": %d}' % self.sent.total()
            self.sent[line + b"\n"] += 1
            self._producer.produce("in", line, partition=self.sent.total() % 4)
        assert self._producer.flush(PATIENCE_S) == 0

    def raw(self, value: bytes | None) -> None:
        self._producer.produce("in", value, key=b"k", partition=0)
        assert self._producer.flush(PATIENCE_S) == 0


def stream(servers: str, **changes: Any) -> StreamConfig:
    topic = {"options": {"log_level": "0", "fetch.wait.max.ms": "5"}} | changes.pop("topic", {})
    return StreamConfig(kafka=KafkaInput(servers=(servers,), topic="in", **topic), **changes)


@asynccontextmanager
async def reading(root: Path, config: StreamConfig) -> AsyncIterator[Inputs]:
    executor = ThreadExecutor(2)
    inputs = Inputs({"net": config}, root, executor)
    try:
        await inputs.start(NoFrames())  # type: ignore[arg-type]  # a frame log without jobs
        yield inputs
    finally:
        await inputs.close()
        executor.close()


def spooled(root: Path) -> Counter[bytes]:
    return Counter((root / "net" / "spool.log").read_bytes().splitlines(keepends=True))


def _failed(inputs: Inputs) -> bool:
    return "failed" in inputs.describe()["net"]["problem"]


def _has(root: Path, count: int) -> bool:
    return spooled(root).total() == count


async def test_every_message_is_a_line_once_through_restarts(tmp_path: Path, servers: str) -> None:
    topic = Topic(servers)
    for _ in range(3):
        topic.send(50)
        async with reading(tmp_path, stream(servers)):
            await until(lambda: spooled(tmp_path).total() == topic.sent.total())
    assert spooled(tmp_path) == topic.sent


@pytest.mark.parametrize("place", ["kafka.noted", "kafka.spooled"])
async def test_a_crash_anywhere_repeats_and_loses_nothing(
    tmp_path: Path, servers: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_MESSAGES", 7)
    topic, rng = Topic(servers), random.Random(1)
    topic.send(60)
    log = tmp_path / "net" / "spool.log"
    for nth in (1, 3):
        with failpoints.armed(place, die, n=nth):
            async with reading(tmp_path, stream(servers)) as inputs:
                await until(partial(_failed, inputs))
        if place == "kafka.spooled":  # as if the process had ended within the write
            noted = msgspec.msgpack.decode(
                (tmp_path / "net" / "kafka.place").read_bytes(), type=BatchPosition
            )
            with log.open("r+b") as file:
                file.truncate(rng.randrange(noted.begin, log.stat().st_size))
    async with reading(tmp_path, stream(servers)):
        await until(lambda: spooled(tmp_path).total() >= 60)
    assert spooled(tmp_path) == topic.sent


async def test_it_begins_at_the_end_if_so_configured_and_only_the_first_time(
    tmp_path: Path, servers: str
) -> None:
    topic = Topic(servers)
    topic.send(20)
    async with reading(tmp_path, stream(servers, read_from="end")) as inputs:
        await until((tmp_path / "net" / "kafka.place").exists)
        assert inputs.describe()["net"]["kafka"] == "in"
    before, topic.sent = topic.sent, Counter()
    topic.raw(b"later")
    async with reading(tmp_path, stream(servers, read_from="end")):
        await until(lambda: spooled(tmp_path).total() == 1)
    assert spooled(tmp_path) == Counter([b"later\n"])
    assert before.total() == 20


async def test_a_first_try_that_fails_does_not_change_where_it_begins(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(servers)
    topic.send(20)
    ask, tries = module.KafkaMessages._partitions, 0

    def away_at_first(self: module.KafkaMessages, consumer: Consumer) -> list[int]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise KafkaException("brokers are not up yet")
        return ask(self, consumer)

    monkeypatch.setattr(module.KafkaMessages, "_partitions", away_at_first)
    async with reading(tmp_path, stream(servers, read_from="end")):
        await until((tmp_path / "net" / "kafka.place").exists)
        topic.raw(b"later")
        await until(lambda: spooled(tmp_path).total() > 0)
    assert spooled(tmp_path) == Counter([b"later\n"])


async def test_without_its_place_nothing_is_read_again(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_MIN_S", 0.01)
    topic = Topic(servers)
    topic.send(20)
    async with reading(tmp_path, stream(servers)):
        await until(partial(_has, tmp_path, 20))
    (tmp_path / "net" / "kafka.place").write_bytes(b"\xc1")
    recall, tries = module.KafkaMessages._recall, 0

    def counted(self: module.KafkaMessages) -> bool:
        nonlocal tries
        tries += 1
        return recall(self)

    monkeypatch.setattr(module.KafkaMessages, "_recall", counted)
    async with reading(tmp_path, stream(servers)) as inputs:
        await until(lambda: tries > 2 or spooled(tmp_path).total() > 20)
        assert "damaged" in inputs.describe()["net"]["problem"]
    assert spooled(tmp_path) == topic.sent


async def test_an_agent_reads_its_partitions_only(tmp_path: Path, servers: str) -> None:
    topic = Topic(servers)
    topic.send(40)
    for name, partitions in (("a", (0, 2)), ("b", (1, 3))):
        async with reading(tmp_path / name, stream(servers, topic={"partitions": partitions})):
            await until(partial(_has, tmp_path / name, 20))
    assert spooled(tmp_path / "a") + spooled(tmp_path / "b") == topic.sent


async def test_hostile_messages(tmp_path: Path, servers: str) -> None:
    topic = Topic(servers)
    for value in (b'{\n "a": 1\n}', None, b"", b"two\nlines", b"\x00\xff", b"x" * 999_000):
        topic.raw(value)
    async with reading(tmp_path, stream(servers)):
        await until(lambda: spooled(tmp_path).total() == 4)
    lines = (tmp_path / "net" / "spool.log").read_bytes().splitlines()
    assert lines[:3] == [b'{  "a": 1 }', b"two#012lines", b"\x00\xff".strip(b"\0")]


@given(st.binary(max_size=50) | st.none())
def test_a_message_is_one_line_or_none(value: bytes | None) -> None:
    line = line_of(value)
    assert line == b"" or line.count(b"\n") == 1 == line.endswith(b"\n")


async def test_unreachable_brokers_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    async with reading(tmp_path, stream("127.0.0.1:9")) as inputs:
        await until(lambda: bool(inputs.describe()["net"]["problem"]))


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"servers": ["x"], "topic": "a"}, "HOST:PORT"),
        ({"servers": ["x:1"], "topic": "a b"}, "not a valid topic"),
        ({"servers": [], "topic": "a"}, "servers"),
        ({"servers": ["x:1"], "topic": "a", "options": {"group.id": "x"}}, "by the agent itself"),
        ({"servers": ["x:1"], "topic": "a", "partitions": [-1]}, "partitions"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], reported: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reported)):
        config_of({"streams": {"s": {"kafka": given}}}, "agent.toml")
