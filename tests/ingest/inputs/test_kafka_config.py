"""Brokers, topics and options of a Kafka input that types alone cannot refuse."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.inputs.kafka_config import OWN, KafkaInput, check_kafka


def test_a_topic_is_taken_with_further_options() -> None:
    check_kafka(("kafka-1:9092", "[::1]:9"), "clicks.v1", {"security.protocol": "ssl"}, "stream.a.kafka")


@pytest.mark.parametrize(
    ("servers", "topic", "options", "where"),
    [
        (("a:1",), "", {}, "w.topic"),
        (("a:1",), "a b", {}, "w.topic"),
        (("a:1",), "x" * 240, {}, "w.topic"),
        (("a",), "t", {}, "w.servers"),
        (("a:1", "b:123456"), "t", {}, "w.servers"),
        (("a:1,b:2",), "t", {}, "w.servers"),
        *((("a:1",), "t", {key: "x"}, "w.options") for key in sorted(OWN)),
    ],
)
def test_what_cannot_be_is_refused_at_its_key(
    servers: tuple[str, ...], topic: str, options: dict[str, str], where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_kafka(servers, topic, options, "w")
    assert caught.value.where == where


@pytest.mark.parametrize(
    "wrong",
    [
        {"servers": [], "topic": "t"},
        {"servers": ["a:1"]},
        {"servers": ["a:1"], "topic": "t", "partitions": [-1]},
        {"servers": ["a:1"], "topic": "t", "group": "g"},
    ],
)
def test_a_table_of_another_shape_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, KafkaInput)
