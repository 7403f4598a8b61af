"""Setting of a stream that comes from a Kafka topic: `kafka = {...}` of agent.toml."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from elfmesh.errors import ConfigError

OWN = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "client.id",
        "enable.auto.commit",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "transactional.id",
    }
)
"""Properties that the source and the sink set themselves, because their guarantees depend on them."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,239}")
_SERVER = re.compile(r"[^\s,]+:\d{1,5}")


class KafkaInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Kafka topic as a stream.

    Attributes:
        servers: brokers, HOST:PORT.
        topic: topic whose messages are the stream's lines.
        partitions: partitions that this agent reads; none: all. Assign each partition to one agent.
        options: further properties of librdkafka, such as security.protocol.
    """

    servers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    topic: str
    partitions: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()
    options: dict[str, str] = {}


def check_kafka(servers: tuple[str, ...], topic: str, options: Mapping[str, str], where: str) -> None:
    """Check the values of a Kafka setting. Raises ConfigError with file, key and remedy."""
    if not _TOPIC.fullmatch(topic):
        raise ConfigError(f"{topic!r} is not a valid topic name", where=f"{where}.topic")
    for server in servers:
        if not _SERVER.fullmatch(server):
            raise ConfigError(f"{server!r} is not HOST:PORT", where=f"{where}.servers")
    for key in options:
        if key in OWN:
            raise ConfigError(f"{key!r} is set by the agent itself", where=f"{where}.options")
    if importlib.util.find_spec("confluent_kafka") is None:
        hint = "Install it: pip install 'elfmesh[kafka]'."
        raise ConfigError("needs the extra 'kafka', which is not installed", where=where, hint=hint)
