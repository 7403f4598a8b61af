"""`elf archive`: archives are brought up to date once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from elfmesh.cli.host.archive import archive_command
from elfmesh.errors import UsageError
from tests.agent.archive.rig import Rig


def test_the_command_catches_up_and_the_next_call_adds_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write('{"n": 1}', '{"n": 2}')
    config = tmp_path / "agent.toml"
    config.write_text(
        f'data_dir = "{tmp_path}/data"\n[streams.app]\npath = "{rig.log}"\nformat = "json"\n'
        f'[streams.app.archive]\npath = "{tmp_path}/out"\n'
    )
    for _ in range(2):
        result = CliRunner().invoke(archive_command, ["-c", str(config)])
        assert result.exit_code == 0, result.output
        assert json.loads(result.output)["rows"] == 2
    assert len(rig.rows) == 2


@pytest.mark.parametrize(
    ("stream", "words", "message"),
    [
        ('path = "x.log"', [], "has an archive"),
        ('path = "x.log"', ["other"], "there is no stream 'other'"),
        ('listen = "udp://127.0.0.1:5514"', ["app"], "stream app does not read files"),
    ],
)
def test_a_stream_that_cannot_be_archived_by_it_is_refused(
    stream: str, words: list[str], message: str, tmp_path: Path
) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(f'data_dir = "{tmp_path}/data"\n[streams.app]\n{stream}\n')
    with pytest.raises(UsageError, match=message):
        archive_command.main(["-c", str(config), *words], standalone_mode=False)
