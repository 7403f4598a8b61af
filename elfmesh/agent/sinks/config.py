"""Settings of sinks: `[sinks.NAME]` of agent.toml, one struct per type.

Only this file defines sinks: no job and no other agent can make an agent connect or write anywhere. See
guarantees D-5, D-17.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from elfmesh.errors import ConfigError
from elfmesh.ingest.inputs.kafka_config import check_kafka
from elfmesh.plugins import SINKS, plugins, refused
from elfmesh.units import parse_duration_us, parse_size

BODY_BYTES_MIN = 1_000
TIMEOUT_US_MIN = 10_000
REPEAT_US_MIN = 1_000_000
_PATTERN = re.compile(r"[A-Za-z0-9_*?-]{1,128}[./][A-Za-z0-9_*?-]{1,128}|\*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("content-length", "content-type", "host", "idempotency-key", "transfer-encoding")
EXTRAS = {"postgres": "psycopg", "prometheus": "prometheus_client", "kafka": "confluent_kafka"}
"""Types that need an extra, and the module that shows whether it is installed."""


class _Common(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """Settings of sinks of all types.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
    """

    jobs: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class _Stored(_Common, frozen=True, kw_only=True):
    """Settings of sinks that store every interval.

    Attributes:
        state: "final": closed intervals. "all": also tentative results of open intervals; each revision
            replaces the previous one.
    """

    state: Literal["final", "all"] = "final"


class _Pushed(_Stored, frozen=True, kw_only=True):
    """Settings of sinks that send a message for every interval.

    Attributes:
        early: also the early rows of open windows, each once per epoch of the master.
    """

    early: bool = False


class ParquetSink(_Stored, frozen=True, kw_only=True, tag="parquet"):
    """Writes Parquet files, one directory per job.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also tentative results of open intervals; each revision replaces the
            previous one.
        path: absolute path of the directory; created if it does not exist.
    """

    path: str


class PrometheusSink(_Common, frozen=True, kw_only=True, tag="prometheus"):
    """Exposes the newest interval of each job in the agent's `/metrics`.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        labels: numeric columns that become labels, such as a status; columns that are not numeric always do.
        series_max: maximum number of samples per job; further rows are left out and counted.
    """

    labels: tuple[str, ...] = ()
    series_max: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000


class PostgresSink(_Stored, frozen=True, kw_only=True, tag="postgres"):
    """Writes one table per job in a PostgreSQL database; needs the extra `postgres`.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also tentative results of open intervals; each revision replaces the
            previous one.
        conninfo: connection string of libpq: "host=... dbname=..." or postgresql://... Put the password into
            the password file (PGPASSFILE), not here.
        schema: schema of the tables; created if it does not exist.
    """

    conninfo: str
    schema: str = "elf"


class WebhookSink(_Pushed, frozen=True, kw_only=True, tag="webhook"):
    """Sends a POST request with JSON for every interval.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also tentative results of open intervals, with a separate key for each
            revision.
        early: also early rows of open windows, of jobs with EARLY.
        url: address that starts with http:// or https://.
        headers: headers of each request.
        allow: networks besides the public ones to which the name in `url` may resolve, such as "10.0.0.0/8".
        timeout: time limit of a request, from connecting to the end of the answer.
        body_max: maximum size of the JSON of an interval; larger ones are refused.
        alerts: send the alerts of the jobs instead of their intervals.
        repeat: how often an alert is sent again while it fires.
        idempotent: the receiver stores idempotency keys, so that an interval that it receives twice changes
            nothing. The agent does not check this; `elf lint` and `elf blazes` believe it.
    """

    url: str
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    timeout: str = "10 s"
    body_max: str = "16 MB"
    alerts: bool = False
    repeat: str = "1 h"
    idempotent: bool = False

    @property
    def timeout_s(self) -> float:
        return parse_duration_us(self.timeout) / 1e6

    @property
    def repeat_us(self) -> int:
        return parse_duration_us(self.repeat)

    @property
    def body_bytes_max(self) -> int:
        return parse_size(self.body_max)


class AlertmanagerSink(_Common, frozen=True, kw_only=True, tag="alertmanager"):
    """Sends the alerts of jobs to an Alertmanager.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        url: address of the Alertmanager, without /api/v2/alerts.
        headers: headers of each request.
        allow: networks besides the public ones to which the name in `url` may resolve, such as "10.0.0.0/8".
        timeout: time limit of a request, from connecting to the end of the answer.
    """

    url: str
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    timeout: str = "10 s"

    @property
    def timeout_s(self) -> float:
        return parse_duration_us(self.timeout) / 1e6


class KafkaSink(_Pushed, frozen=True, kw_only=True, tag="kafka"):
    """Sends one keyed message per interval in a transaction with the position; needs the extra `kafka`.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also tentative results of open intervals; each revision replaces the
            previous one.
        early: also early rows of open windows, of jobs with EARLY.
        servers: brokers, HOST:PORT.
        topic: topic for all jobs of the sink; positions are in TOPIC.positions. Both must exist, or the
            brokers must create topics automatically.
        options: further properties of librdkafka, such as security.protocol.
    """

    servers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    topic: str
    options: dict[str, str] = {}


class PluginSink(_Stored, frozen=True, kw_only=True, tag="plugin"):
    """Passes results to a sink of another package.

    Attributes:
        jobs: names of jobs such as "shop/top", or patterns such as "shop/*".
        state: "final", or "all": also tentative results of open intervals; each revision replaces the
            previous one.
        plugin: name of the plug-in, see `elf get plugins`.
        options: what the plug-in is given; its documentation describes them.
    """

    plugin: str
    options: dict[str, Any] = {}


SinkConfig = (
    ParquetSink | PrometheusSink | PostgresSink | WebhookSink | AlertmanagerSink | KafkaSink | PluginSink
)
TYPES: dict[str, type[SinkConfig]] = {str(kind.__struct_config__.tag): kind for kind in get_args(SinkConfig)}


def sends_alerts(sink: SinkConfig) -> bool:
    """Return whether a sink receives the alerts of its jobs."""
    return isinstance(sink, AlertmanagerSink) or (isinstance(sink, WebhookSink) and sink.alerts)


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
    if isinstance(sink, _Pushed) and sink.early and sink.state == "all":
        text = "early rows and tentative results exclude each other"
        hint = 'Leave out state = "all": final records replace early rows as well.'
        raise ConfigError(text, where=f"{where}.early", hint=hint)
    if isinstance(sink, WebhookSink | AlertmanagerSink):
        _check_receiver(sink, where)
    if isinstance(sink, WebhookSink):
        _check_webhook(sink, where)
    if isinstance(sink, KafkaSink):
        check_kafka(sink.servers, sink.topic, sink.options, where)
    if isinstance(sink, PluginSink) and sink.plugin not in plugins(SINKS):
        reasons = [str(each) for each in refused() if (each.group, each.name) == (SINKS, sink.plugin)]
        hint = reasons[0] if reasons else "Install its package where the agent runs."
        raise ConfigError(f"no sink {sink.plugin!r} is installed", where=f"{where}.plugin", hint=hint)
    kind = str(sink.__struct_config__.tag)
    if kind in EXTRAS and importlib.util.find_spec(EXTRAS[kind]) is None:
        hint = f"Install it: pip install 'elfmesh[{kind}]'."
        raise ConfigError(f"needs the extra {kind!r}, which is not installed", where=where, hint=hint)


def _check_webhook(sink: WebhookSink, where: str) -> None:
    if sink.alerts and (sink.early or sink.state == "all"):
        hint = "Use another sink for tentative results and early rows."
        raise ConfigError("alerts are evaluated over final results", where=f"{where}.alerts", hint=hint)
    _check_least(sink.repeat, parse_duration_us, REPEAT_US_MIN, f"{where}.repeat")
    _check_least(sink.body_max, parse_size, BODY_BYTES_MIN, f"{where}.body_max")


def _check_receiver(sink: WebhookSink | AlertmanagerSink, where: str) -> None:
    try:
        url = urlsplit(sink.url)
        sound = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or re.search(r"[\x00-\x20\x7f]", sink.url):
        raise ConfigError(
            "is not an http:// or https:// address", where=f"{where}.url"
        )  # the address is not shown, because it may contain a secret
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


def _check_least(text: str, read: Callable[[str], int], least: int, where: str) -> None:
    try:
        value = read(text)
    except ConfigError as error:
        raise ConfigError(error.message, where=where, hint=error.hint) from None
    if value < least:
        raise ConfigError(f"{text!r} is too little", where=where)
