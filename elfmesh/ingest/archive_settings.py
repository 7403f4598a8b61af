"""What an agent is told about archives: `[streams.NAME.archive]` of agent.toml.

Paper: ELF 4.1 (the stream goes to the agents, and unchanged to storage).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import msgspec

from elfmesh.errors import ConfigError
from elfmesh.units import parse_duration_us, parse_size

FILE_BYTES_MIN, FILE_BYTES_MAX = 1_000, 512_000_000
KEEP_US_MIN = 1_000_000


class ArchiveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An archive of one stream's lines.

    Attributes:
        path: an absolute directory, of this host or shared; "" is `archive` in the data directory.
        what: "raw": the lines as they are. "parsed": columns; a line that cannot be parsed stays as it is.
        columns: of a parsed archive; none: all that the format has.
        every: a file is written at the latest so long after its first line was read.
        file: and at the latest when its lines have so many bytes.
        bytes: of all files; beyond it the oldest go.
        keep: files older than this go.
    """

    path: str = ""
    what: Literal["raw", "parsed"] = "raw"
    columns: tuple[str, ...] = ()
    every: str = "1 min"
    file: str = "64 MB"
    bytes: str = "10 GB"
    keep: str = "30 d"

    @property
    def every_s(self) -> float:
        """`every` in seconds."""
        return parse_duration_us(self.every) / 1e6

    @property
    def file_bytes(self) -> int:
        """`file` in bytes."""
        return parse_size(self.file)

    @property
    def bytes_max(self) -> int:
        """`bytes` in bytes."""
        return parse_size(self.bytes)

    @property
    def keep_s(self) -> float:
        """`keep` in seconds."""
        return parse_duration_us(self.keep) / 1e6


def check_archive(config: ArchiveConfig, where: str) -> None:
    """Refuse settings that cannot be."""
    for key in ("every", "keep", "file", "bytes"):
        value = getattr(config, key)
        try:
            parse_duration_us(value) if key in ("every", "keep") else parse_size(value)
        except ConfigError as error:
            raise ConfigError(error.message, where=f"{where}.{key}", hint=error.hint) from None
    if config.path and not PurePath(config.path).is_absolute():
        raise ConfigError(f"{config.path!r} is not absolute", where=f"{where}.path", hint="Begin with /.")
    if not FILE_BYTES_MIN <= config.file_bytes <= FILE_BYTES_MAX:
        raise ConfigError("must be from 1 kB to 512 MB", where=f"{where}.file")
    if config.bytes_max < config.file_bytes:
        raise ConfigError(
            "must be at least the size of one file", where=f"{where}.bytes", hint="Make `file` smaller."
        )
    if config.keep_s * 1e6 < KEEP_US_MIN:
        raise ConfigError("must be at least one second", where=f"{where}.keep")
    if config.columns and config.what == "raw":
        raise ConfigError(
            "a raw archive has no columns of the format",
            where=f"{where}.columns",
            hint='Set what = "parsed".',
        )
