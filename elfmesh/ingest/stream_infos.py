"""Stream information that an agent announces."""

from __future__ import annotations

from collections.abc import Mapping

from elfmesh.control.protocol.events import StreamInfo
from elfmesh.ingest.stream_settings import StreamConfig


def infos_of(streams: Mapping[str, StreamConfig]) -> tuple[StreamInfo, ...]:
    """Return the announced information of each stream."""
    from elfmesh.ingest.stream_formats import format_of

    return tuple(
        StreamInfo.of(name, config.format, format_of(config, name=name).static_schema)
        for name, config in streams.items()
    )
