"""Settings of archives: `[streams.NAME.archive]` of agent.toml.

Paper: ELF 4.1 (the stream is processed by the agents and also stored unchanged).
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
    """Archive of one stream's lines.

    Attributes:
        path: an absolute directory, local or shared; "" is `archive` in the data directory.
        what: "raw": the lines unchanged. "parsed": columns; a line that cannot be parsed is stored unchanged.
        columns: columns of a parsed archive; none: all columns of the format.
        every: greatest time between the first line of a file and the writing of the file.
        file: number of bytes of lines after which a file is written.
        bytes: limit on all files together; beyond it, the oldest are deleted.
        keep: age at which files are deleted.
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
        return parse_duration_us(self.every) / 1e6

    @property
    def file_bytes(self) -> int:
        return parse_size(self.file)

    @property
    def bytes_max(self) -> int:
        return parse_size(self.bytes)

    @property
    def keep_s(self) -> float:
        return parse_duration_us(self.keep) / 1e6


def check_archive(config: ArchiveConfig, where: str) -> None:
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
