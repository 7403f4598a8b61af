"""Kafka: each interval under one key, position and message together, whichever agent writes next."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from elfmesh.agent.sinks import follow
from elfmesh.agent.sinks import kafka as kafka_module
from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordFenced,
    RecordRefused,
    Unavailable,
)
from elfmesh.agent.sinks.config import KafkaSink
from elfmesh.agent.sinks.kafka import KafkaTopic
from elfmesh.storage import failpoints
from tests.agent.sinks.rig import HOSTILE, LOG, Died, Following, Master, die, item, starve
from tests.agent.sinks.servers import kafka, kafka_apart
from tests.patience import PATIENCE_S


@pytest.fixture
def servers() -> Iterator[str]:
    with kafka() as found:
        yield found


def sink(servers: str, **options: str) -> KafkaTopic:
    quiet = {"log_level": "0"} | options
    return KafkaTopic("test", KafkaSink(jobs=("*",), servers=(servers,), topic="out", options=quiet))


def messages(servers: str, topic: str = "out") -> list[tuple[str, dict[str, Any], int]]:
    """Key, value and partition of everything in a topic."""
    settings = {"group.id": "test", "enable.partition.eof": True, "fetch.wait.max.ms": 5, "log_level": 0}
    reader = Consumer({"bootstrap.servers": servers, **settings})
    found = []
    for number in reader.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions:
        reader.assign([TopicPartition(topic, number, 0)])
        while True:
            message = reader.poll(PATIENCE_S)
            assert message is not None
            error, key, value = message.error(), message.key(), message.value()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                break
            assert key is not None
            assert value is not None
            found.append((key.decode(), json.loads(value), number))
    reader.close()
    return found


async def test_an_interval_is_a_message_and_the_position_is_in_a_topic(servers: str) -> None:
    out = sink(servers)
    assert await out.position(LOG) is None
    assert await out.write(LOG, item(57))
    assert not await out.write(LOG, item(57))
    ((key, body, _),) = messages(servers)
    assert (key, body["incarnation"]) == ("shop/top:1a2b:57", "1a2b")
    assert body["rows"] == [{"path": "/0", "hits": 57}, {"path": "/1", "hits": 57}]
    assert messages(servers, "out.positions")[0][:2] == ("shop/top:1a2b", {"next": 58, "epoch": 1})
    assert await sink(servers).position(LOG) == Position(58, 1)
    await out.close()


async def test_a_crash_anywhere_leaves_each_key_with_one_content(servers: str, tmp_path: Path) -> None:
    master = Master(tmp_path)
    master.append(*(item(index) for index in range(6)))
    for place in ("sink.write", "sink.written"):
        for nth in (1, 2):
            with failpoints.armed(f"{place}.kafka", die, n=nth), pytest.raises(Died):
                async with Following(sink(servers), master) as following:
                    await following.until(lambda: False)
    async with Following(sink(servers), master) as following:
        await following.until(lambda: following.progress.lag == 0)
    kept: dict[str, dict[str, Any]] = {}
    for key, body, _ in messages(servers):
        assert kept.setdefault(key, body) == body
    assert sorted(kept) == [f"shop/top:1a2b:{index}" for index in range(6)]


async def test_a_job_stays_in_order_in_one_partition(servers: str) -> None:
    out = sink(servers)
    for index in range(8):
        await out.write(LOG, item(index))
        await out.write(LogName("shop/other", "1"), item(index, job="shop/other"))
    found = messages(servers)
    for job in ("shop/top", "shop/other"):
        ours = [(body["interval"]["index"], number) for _, body, number in found if body["job"] == job]
        assert [index for index, _ in ours] == list(range(8))
        assert len({number for _, number in ours}) == 1


async def test_a_master_that_wakes_is_refused_also_after_a_restart(servers: str) -> None:
    out = sink(servers)
    await out.write(LOG, item(1, epoch=5))
    await out.write(LOG, item(2, epoch=6, state="TENTATIVE", rev=2))
    assert not await out.write(LOG, item(2, epoch=6, state="TENTATIVE", rev=1))
    with pytest.raises(RecordFenced):
        await out.write(LOG, item(2, epoch=5, state="TENTATIVE", rev=3))
    with pytest.raises(RecordFenced):
        await sink(servers).write(LOG, item(2, epoch=4))
    assert [body["rev"] for _, body, _ in messages(servers)] == [1, 2]


async def test_what_was_shown_of_closed_intervals_is_forgotten(servers: str) -> None:
    out = sink(servers)
    for index in (1, 2, 3, 9):
        await out.write(LOG, item(index, state="TENTATIVE"))
    await out.write(LOG, item(3, since=0))  # closes those before it, too
    assert out._shown[LOG] == {9: (1, 1)}
    out.ended(LOG)
    assert LOG not in out._shown
    await out.close()


async def test_losses_are_messages(servers: str) -> None:
    out = sink(servers)
    await out.declare(LOG, LostIntervals(1, 4, "gone"))
    await out.declare(LOG, LostIntervals(1, 4, "gone"))
    assert [body["lost"] for _, body, _ in messages(servers)] == [[1, 4]]
    assert await sink(servers).position(LOG) == Position(5)


async def test_hostile_values_and_too_much(servers: str) -> None:
    out = sink(servers, **{"message.max.bytes": "200000"})
    assert await out.write(LOG, item(1, HOSTILE))
    with pytest.raises(RecordRefused, match="more than a message"):
        await out.write(LOG, item(2, pa.table({"t": ["x" * 300_000]})))
    assert await out.write(LOG, item(3))
    found = messages(servers)
    assert [body["interval"]["index"] for _, body, _ in found] == [1, 3]
    assert found[0][1]["rows"][0]["text"] == HOSTILE.column("text")[0].as_py()


async def test_unreachable_brokers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.agent.sinks.kafka.ANSWER_S", 0.2)
    with pytest.raises(Unavailable):
        await sink("127.0.0.1:9").write(LOG, item(1))


def until_closed(servers: str) -> None:
    """Wait until this process has no connection to the broker."""
    port = f":{int(servers.rpartition(':')[2]):04X}"
    end = time.monotonic() + PATIENCE_S
    while True:
        sockets = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
        lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
        if not any(line[2].endswith(port) and f"socket:[{line[9]}]" in sockets for line in lines):
            return
        assert time.monotonic() < end, "it keeps its connection"
        time.sleep(0.02)


async def test_a_sink_without_descriptors_reports_it_and_writes_all_messages_when_it_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka reports a time-out, whatever it has waited for. It closes an idle connection by itself."""
    monkeypatch.setattr(kafka_module, "ANSWER_S", 2.0)
    monkeypatch.setattr(follow, "PAUSE_S", 0.01)
    with kafka_apart() as servers:
        out = sink(servers, **{"connections.max.idle.ms": "50"})
        await starve(out, "kafka", tmp_path, partial(until_closed, servers))
        await out.close()
        assert [body["interval"]["index"] for _, body, _ in messages(servers)] == [0, 1, 2]
