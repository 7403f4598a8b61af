"""Creates sinks from their configuration. A sink that needs an extra is imported only if it is configured."""

from __future__ import annotations

from typing import assert_never, cast

from elfmesh.agent.sinks.base import Sink
from elfmesh.agent.sinks.config import (
    AlertmanagerSink,
    KafkaSink,
    ParquetSink,
    PluginSink,
    PostgresSink,
    PrometheusSink,
    SinkConfig,
    WebhookSink,
    sends_alerts,
)
from elfmesh.errors import ConfigError
from elfmesh.plugins import SINKS, plugins
from elfmesh.storage.storage import DiskStorage


def open_sink(name: str, config: SinkConfig, storage: DiskStorage) -> Sink:
    """Return a sink. `storage` holds positions of sinks that cannot store their own."""
    if isinstance(config, ParquetSink):
        from elfmesh.agent.sinks.parquet import ParquetFiles

        return ParquetFiles(name, config)
    if isinstance(config, PrometheusSink):
        from elfmesh.agent.sinks.prometheus import LastResults

        return LastResults(name, config)
    if isinstance(config, PostgresSink):
        from elfmesh.agent.sinks.postgres import PostgresTables

        return PostgresTables(name, config)
    if sends_alerts(config):
        from elfmesh.agent.sinks.alerts import AlertSink

        return AlertSink(name, cast("AlertmanagerSink | WebhookSink", config), storage)
    if isinstance(config, WebhookSink):
        from elfmesh.agent.sinks.webhook import Webhook

        return Webhook(name, config, storage)
    assert not isinstance(config, AlertmanagerSink)
    if isinstance(config, KafkaSink):
        from elfmesh.agent.sinks.kafka import KafkaTopic

        return KafkaTopic(name, config)
    if isinstance(config, PluginSink):
        return _of_plugin(name, config)
    assert_never(config)


def _of_plugin(name: str, config: PluginSink) -> Sink:
    plugin = plugins(SINKS)[config.plugin]
    try:
        sink: Sink = plugin.made(name, dict(config.options))
    except Exception as error:
        raise ConfigError(
            f"the {plugin} refuses its options: {error}", where=f"sinks.{name}.options"
        ) from None
    return sink
