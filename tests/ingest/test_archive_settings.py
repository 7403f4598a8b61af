"""The settings of an archive: what cannot be is refused at its key."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.archive_settings import ArchiveConfig, check_archive


@pytest.mark.parametrize(
    "right",
    [
        {},
        {"path": "/var/archive", "what": "parsed", "columns": ("a",)},
        {"file": "1 kB", "bytes": "1 kB", "keep": "1 s"},
        {"file": "512 MB", "bytes": "512 MB"},
    ],
)
def test_settings_within_their_bounds_are_allowed(right: dict[str, Any]) -> None:
    check_archive(ArchiveConfig(**right), "s.archive")


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"every": "soon"}, "every"),
        ({"keep": "1 parsec"}, "keep"),
        ({"file": "big"}, "file"),
        ({"bytes": ""}, "bytes"),
        ({"path": "relative/path"}, "path"),
        ({"file": "999 B"}, "file"),
        ({"file": "513 MB"}, "file"),
        ({"file": "64 MB", "bytes": "63 MB"}, "bytes"),
        ({"keep": "999 ms"}, "keep"),
        ({"columns": ("a",)}, "columns"),
    ],
)
def test_a_setting_that_cannot_be_is_named(wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_archive(ArchiveConfig(**wrong), "s.archive")
    assert caught.value.where == f"s.archive.{key}"


def test_settings_are_read_in_their_units() -> None:
    config = ArchiveConfig(every="2 min", file="3 kB", bytes="4 MB", keep="1 h")
    assert (config.every_s, config.file_bytes, config.bytes_max, config.keep_s) == (
        120.0,
        3_000,
        4_000_000,
        3600.0,
    )
