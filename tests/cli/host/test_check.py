"""`elf check` and `elf repair`: a data directory whose agent does not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from elfmesh.agent.data_directory.examine import examine
from elfmesh.cli.host.check import check_command
from elfmesh.errors import ConfigError
from elfmesh.storage.storage import DiskStorage
from tests.agent.data_directory.test_examine import damaged, recorded
from tests.storage.rot.cases import (
    DAMAGES,
    SEGMENT,
)

__all__ = ["recorded"]


def test_check_names_file_offset_and_what_and_changes_nothing(recorded: Path, tmp_path: Path) -> None:
    ((_, root), *_) = damaged(recorded, tmp_path, SEGMENT, DAMAGES[0])
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = CliRunner().invoke(check_command, [str(root)])
    assert done.exit_code == 1
    assert f"{root / SEGMENT}: byte 0: " in done.stdout
    assert "hold no record with a right checksum" in done.stdout
    done = CliRunner().invoke(check_command, [str(root), "-o", "json"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (lines[0]["file"], lines[0]["offset"]) == (str(root / SEGMENT), 0)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_check_refuses_what_an_agent_uses_and_what_is_no_data_directory(
    recorded: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(recorded / "own", root)
    storage = DiskStorage(root)
    try:
        with pytest.raises(ConfigError, match="an agent is using it"):
            examine(root)
    finally:
        storage.close()
    with pytest.raises(ConfigError, match="not the data directory"):
        examine(tmp_path)
    assert not (tmp_path / "lock").exists()
