"""`elf agent`: what it refuses before it starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from elfmesh.cli.host.agent import agent_command
from elfmesh.cli.host.validate import validate_command
from elfmesh.errors import ConfigError
from tests.cli.host.test_validate import validate


def test_a_foreign_agent_without_certificates_is_a_warning_and_refused_by_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'data_dir = "{tmp_path}/elf"\njoin = ["127.0.0.1:7400", "10.0.0.5:7400"]\n')
    done = validate(path)
    assert done.return_value == 0
    assert f"{path}: configuration, 0 streams: valid" in done.stdout
    place = f"{path}:2:1: join: 10.0.0.5:7400 is another host, and no certificates are configured"
    assert f"warning: {place}" in done.stderr
    shown = CliRunner().invoke(validate_command, ["-o", "json", str(path)], standalone_mode=False)
    found = json.loads(shown.stdout)
    assert found["valid"]
    assert not found["problems"]
    assert [(each["line"], each["column"]) for each in found["warnings"]] == [(2, 1)]
    with pytest.raises(ConfigError, match="another host") as refused:
        agent_command.main(["-c", str(path)], standalone_mode=False)
    assert str(refused.value).startswith(place)


def test_a_format_that_cannot_be_made_is_refused_at_its_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'data_dir = "{tmp_path}/elf"\n[streams.a]\npath = "x"\nformat = "regex:(?P<a>"\n')
    done = subprocess.run(
        [sys.executable, "-m", "elfmesh.agent", "agent", "-c", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 78
    assert f"{path}:4:" in done.stderr
