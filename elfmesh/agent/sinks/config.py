"""What an agent is told about sinks: `[sinks.NAME]` of agent.toml, one declaration per type.

A sink exists by this file alone: no job and no other agent can make an agent connect or write anywhere. See
guarantees D-5, D-17.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from elfmesh.errors import ConfigError
from elfmesh.ingest.inputs.kafka_config import check_kafka
from elfmesh.units import parse_duration_us, parse_size

BODY_BYTES_MIN = 1_000
TIMEOUT_US_MIN = 10_000
_PATTERN = re.compile(r"[A-Za-z0-9_*?-]{1,128}[./][A-Za-z0-9_*?-]{1,128}|\*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("content-length", "content-type", "host", "idempotency-key", "transfer-encoding")
EXTRAS = {"postgres": "psycopg", "prometheus": "prometheus_client", "kafka": "confluent_kafka"}
"""Types that need an extra, and the module that shows whether it is installed."""


class _Common(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """What sinks of all types are told.

    Attributes:
        jobs: which jobs: names such as "shop/top", or patterns such as "shop/*".
    """

    jobs: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class _Stored(_Common, frozen=True, kw_only=True):
    """A sink that keeps every interval.

    Attributes:
        state: "final": intervals when they are closed. "all": also what open intervals look like so far; each
            revision replaces the one before.
    """

    state: Literal["final", "all"] = "final"


class ParquetSink(_Stored, frozen=True, kw_only=True, tag="parquet"):
    """Parquet files, a directory per job.

    Attributes:
        jobs: which jobs: names such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also open intervals; each revision replaces the one before.
        path: an absolute directory; made if it is missing.
    """

    path: str


class PrometheusSink(_Common, frozen=True, kw_only=True, tag="prometheus"):
    """The newest interval of each job, as metrics of the agent's `/metrics`.

    Attributes:
        jobs: which jobs: names such as "shop/top", or patterns such as "shop/*".
        labels: columns of numbers that are labels, such as a status; all columns that hold no numbers are.
        series_max: samples of one job; rows beyond it are left out and counted.
    """

    labels: tuple[str, ...] = ()
    series_max: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000


class PostgresSink(_Stored, frozen=True, kw_only=True, tag="postgres"):
    """A table per job in a PostgreSQL database; needs the extra `postgres`.

    Attributes:
        jobs: which jobs: names such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also open intervals; each revision replaces the one before.
        conninfo: as libpq reads it: "host=... dbname=..." or postgresql://...; a password belongs into the
            password file (PGPASSFILE), not here.
        schema: of the tables; made if it is missing.
    """

    conninfo: str
    schema: str = "elf"


class WebhookSink(_Stored, frozen=True, kw_only=True, tag="webhook"):
    """A POST of JSON for every interval.

    Attributes:
        jobs: which jobs: names such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also open intervals, with a key of their own for each revision.
        url: http:// or https://.
        headers: sent with each request.
        allow: networks besides the public ones that the name in `url` may lead to, such as "10.0.0.0/8".
        timeout: of one request, from connecting to the end of the answer.
        body_max: an interval with more JSON than this is refused.
    """

    url: str
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    timeout: str = "10 s"
    body_max: str = "16 MB"

    @property
    def timeout_s(self) -> float:
        return parse_duration_us(self.timeout) / 1e6

    @property
    def body_bytes_max(self) -> int:
        return parse_size(self.body_max)


class KafkaSink(_Stored, frozen=True, kw_only=True, tag="kafka"):
    """A message per interval, keyed, in one transaction with the position; needs the extra `kafka`.

    Attributes:
        jobs: which jobs: names such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also open intervals; each revision replaces the one before.
        servers: brokers, HOST:PORT.
        topic: for all of its jobs; positions are in TOPIC.positions. Both exist, or the brokers make them.
        options: further properties of librdkafka, such as security.protocol.
    """

    servers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    topic: str
    options: dict[str, str] = {}


SinkConfig = ParquetSink | PrometheusSink | PostgresSink | WebhookSink | KafkaSink
_KINDS = (ParquetSink, PrometheusSink, PostgresSink, WebhookSink, KafkaSink)
TYPES: dict[str, type[SinkConfig]] = {str(kind.__struct_config__.tag): kind for kind in _KINDS}


def check_sink(name: str, sink: SinkConfig, source: str) -> None:
    where = f"{source}: sinks.{name}"
    if not _NAME.fullmatch(name):
        hint = "Use letters, digits, '_' and '-'; begin with a letter."
        raise ConfigError(f"{name!r} is not a sink's name", where=f"{source}: sinks", hint=hint)
    for pattern in sink.jobs:
        if not _PATTERN.fullmatch(pattern):
            hint = 'A job is named NAMESPACE/NAME; "shop/*" are all of a namespace, "*" is everything.'
            raise ConfigError(f"{pattern!r} is not a job name or pattern", where=f"{where}.jobs", hint=hint)
    if isinstance(sink, ParquetSink) and not sink.path.startswith("/"):
        raise ConfigError(f"{sink.path!r} is not an absolute path", where=f"{where}.path")
    if isinstance(sink, PostgresSink) and not _NAME.fullmatch(sink.schema):
        raise ConfigError(f"{sink.schema!r} is not a schema's name", where=f"{where}.schema")
    if isinstance(sink, WebhookSink):
        _check_webhook(sink, where)
    if isinstance(sink, KafkaSink):
        check_kafka(sink.servers, sink.topic, sink.options, where)
    kind = str(sink.__struct_config__.tag)
    if kind in EXTRAS and importlib.util.find_spec(EXTRAS[kind]) is None:
        hint = f"Install it: pip install 'elfmesh[{kind}]'."
        raise ConfigError(f"needs the extra {kind!r}, which is not installed", where=where, hint=hint)


def _check_webhook(sink: WebhookSink, where: str) -> None:
    try:
        url = urlsplit(sink.url)
        sound = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or re.search(r"[\x00-\x20\x7f]", sink.url):
        raise ConfigError(
            "is not an http:// or https:// address", where=f"{where}.url"
        )  # it may hold a secret
    if url.username is not None or url.password is not None:
        hint = 'Use headers = { Authorization = "..." }.'
        raise ConfigError("a password in an address would appear in logs", where=f"{where}.url", hint=hint)
    for key, value in sink.headers.items():
        if not _HEADER.fullmatch(key) or re.search(r"[\x00-\x1f\x7f]", value):
            raise ConfigError(f"{key!r} cannot be sent as a header", where=f"{where}.headers")
        if key.lower() in _OWN_HEADERS:
            raise ConfigError(f"{key!r} is set by the sink itself", where=f"{where}.headers")
    for network in sink.allow:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise ConfigError(f"{error}", where=f"{where}.allow", hint='As in "10.0.0.0/8".') from None
    _check_least(sink.timeout, parse_duration_us, TIMEOUT_US_MIN, f"{where}.timeout")
    _check_least(sink.body_max, parse_size, BODY_BYTES_MIN, f"{where}.body_max")


def _check_least(text: str, read: Callable[[str], int], least: int, where: str) -> None:
    try:
        value = read(text)
    except ConfigError as error:
        raise ConfigError(error.message, where=where, hint=error.hint) from None
    if value < least:
        raise ConfigError(f"{text!r} is too little", where=where)
