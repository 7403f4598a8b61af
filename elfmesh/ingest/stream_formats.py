"""Construction of a stream's format from its settings, for an agent, a recheck and `elf run`."""

from __future__ import annotations

from collections.abc import Mapping

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.framing import RecordBounds, parse_framing
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.units import parse_duration_us, parse_size


def format_of(config: StreamConfig, *, name: str = "", host: str = "") -> StreamFormat:
    """Return the format of a stream, with its own schema.

    Without a `name`, errors refer to command-line options.
    """
    try:
        bounds = RecordBounds(config.multiline_lines_max, parse_size(config.multiline_bytes_max))
        return StreamFormat(
            config.format,
            host=host,
            declared=config.types,
            timestamp=config.ts or None,
            clock=LocalClock(config.timezone, config.year, config.ts_format),
            patterns=config.patterns,
            framing=parse_framing(
                config.multiline, bounds=bounds, timeout_s=parse_duration_us(config.multiline_timeout) / 1e6
            ),
        )
    except ConfigError as error:
        if not name:
            raise
        key = error.where if error.where in StreamConfig.__struct_fields__ else "format"
        raise ConfigError(error.message, where=f"streams.{name}.{key}", hint=error.hint) from None


def run_format(
    spec: str,
    *,
    multiline: str,
    timezone: str,
    year: int | None,
    patterns: Mapping[str, str],
    host: str,
    ts: str = "",
    ts_format: str = "",
) -> StreamFormat:
    config = StreamConfig(
        path="-", format=spec, multiline=multiline, timezone=timezone, year=year, patterns=dict(patterns),
        ts=ts, ts_format=ts_format,
    )  # fmt: skip
    return format_of(config, host=host)
