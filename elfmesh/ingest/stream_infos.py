"""Stream information that an agent announces.

A format needs Arrow and numpy. Until they are loaded, an agent announces names.
"""

from __future__ import annotations

from collections.abc import Mapping

from elfmesh.control.protocol.events import StreamInfo
from elfmesh.ingest.stream_settings import StreamConfig

PLAIN = frozenset({"auto", "json", "logfmt", "common", "combined", "raw"})
"""Formats that have no argument, so that nothing can be wrong with them."""

_ELSEWHERE = frozenset(
    {"path", "listen", "journal", "kafka", "spool", "read_from", "idle", "on_overload", "archive"}
)
"""Settings of a stream that its format does not depend on."""


def format_settings(config: StreamConfig) -> dict[str, object]:
    """Return the settings of a stream by which its lines are read."""
    own = [field for field in StreamConfig.__struct_fields__ if field not in _ELSEWHERE]
    return {field: getattr(config, field) for field in own}


def is_plain(config: StreamConfig) -> bool:
    """Return whether the format of a stream cannot be refused, because it has a name and no other setting."""
    default = StreamConfig(format=config.format)
    return config.format in PLAIN and format_settings(config) == format_settings(default)


def names_of(streams: Mapping[str, StreamConfig]) -> tuple[StreamInfo, ...]:
    """Return the information of each stream that needs no format."""
    return tuple(StreamInfo(name, config.format) for name, config in streams.items())


def infos_of(streams: Mapping[str, StreamConfig]) -> tuple[StreamInfo, ...]:
    """Return the announced information of each stream."""
    from elfmesh.ingest.stream_formats import format_of

    return tuple(
        StreamInfo.of(name, config.format, format_of(config, name=name).static_schema)
        for name, config in streams.items()
    )
