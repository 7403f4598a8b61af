"""`elf archive`: brings the archives of this host up to date once, without an agent."""

from __future__ import annotations

import socket

import click
import msgspec

from elfmesh.agent.archive.host import open_archive
from elfmesh.agent.settings import config as configuration
from elfmesh.agent.settings.config import AgentConfig
from elfmesh.errors import RuntimeFailure, UsageError
from elfmesh.ingest.archive_settings import ArchiveConfig
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ql.values.row_json import encode_json


@click.command("archive")
@click.argument("streams", nargs=-1)
@click.option(
    "-c",
    "--config",
    "path",
    required=True,
    metavar="FILE",
    help="Configuration file of the agent (agent.toml).",
)
def archive_command(streams: tuple[str, ...], path: str) -> None:
    """Write all lines that the logs of STREAMS contain now to their archives.

    Without STREAMS, the command does this for all streams that have an archive. The section
    [streams.NAME.archive] specifies the path, the content (raw or parsed), and the retention. Each line
    is archived once, because the agent and this command share their position. Prints one JSON line per
    stream.
    """
    config = configuration.load_config(path)
    for name in _named(config, streams, path):
        stream = config.streams[name]
        stream = msgspec.structs.replace(stream, archive=stream.archive or ArchiveConfig())
        click.echo(encode_json({"stream": name, **_write(name, stream, config)}).decode())


def _named(config: AgentConfig, streams: tuple[str, ...], path: str) -> list[str]:
    for name in streams:
        if name not in config.streams:
            hint = f"There are {', '.join(sorted(config.streams)) or 'none'}."
            raise UsageError(f"there is no stream {name!r} in {path}", hint=hint)
    found = list(streams) or [name for name, each in config.streams.items() if each.archive is not None]
    if not found:
        raise UsageError(f"no stream of {path} has an archive", hint="Add [streams.NAME.archive].")
    for name in found:
        if not config.streams[name].path:
            raise UsageError(
                f"stream {name} does not read files",
                hint="Its agent archives what it receives; this command cannot.",
            )
    return found


def _write(name: str, stream: StreamConfig, config: AgentConfig) -> dict[str, object]:
    host = socket.gethostname()
    archive = open_archive(
        name, stream, lambda name, each: format_of(each, name=name, host=host),
        config.directory / "archive", host,
    )  # fmt: skip
    try:
        while archive.step() or not archive.at_end:
            pass
        archive.flush()
        return archive.describe()
    except OSError as error:
        raise RuntimeFailure(f"{archive.directory}: {error.strerror}", where=f"streams.{name}") from None
    finally:
        archive.close()
