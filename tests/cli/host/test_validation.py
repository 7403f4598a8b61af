"""Everything that is wrong with a file, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.agent.settings.config import load_config
from elfmesh.errors import ConfigError
from tests.cli.host.test_validate import problems, validate


def test_every_error_of_a_configuration_is_found_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        'listne = "127.0.0.1:1"\n'
        'listen = "10.0.0.1:7400"\n'
        "labels = { role = 5 }\n"
        "[streams.access]\n"
        'path = "x.log"\n'
        '  idle = "5 parsecs"\n'
        'spool = "1 MB"\n'
        'format = "combinde"\n'
        "[streams.lost]\n"
        'idle = "1 s"\n'
        "[limits]\n"
        'memory = "1 kB"\n'
        "self_check = -1\n"
    )
    found = {(line, column) for line, column, _ in problems(path)}
    assert found == {(1, 1), (2, 1), (3, 1), (6, 3), (7, 1), (8, 1), (9, 2), (12, 1), (13, 1)}
    done = validate(path)
    assert done.return_value == ConfigError.exit_code
    assert f"{path}:1:1: unknown key 'listne'\n  Did you mean listen?" in done.stderr
    assert done.stdout == ""


def test_a_text_that_is_not_toml_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('data_dir = "x"\nlisten = 127.0.0.1:7400\n')
    ((line, column, message),) = problems(path)
    assert (line, "is not TOML" in message) == (2, True)
    assert column > 9
    path.write_text('[streams.x\npath = "a"')
    assert validate(path).return_value == ConfigError.exit_code


def test_every_wrong_statement_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "jobs.elfql"
    path.write_text(
        "SELECT cuont(*) FROM log;\n"
        "CREATE JOB a.fine EVERY '1 s' AS SELECT count(*) FROM log;\n"
        "SELECT a FROM log WHERE;\n"
        "CREATE JOB a.fine EVERY '1 s' AS SELECT count(*) FROM log;\n"
        "CREATE JOB a.other PARTITIONS 99999 EVERY '1 s' AS SELECT count(*) FROM log"
    )
    found = problems(path)
    assert [line for line, _, _ in found] == [1, 3, 4, 5]
    assert "defined twice, first in" in found[2][2]
    assert validate(path).return_value == 65


def test_kinds_of_files_are_distinguished_and_the_graver_code_wins(tmp_path: Path) -> None:
    job, named, config = tmp_path / "a.elfql", tmp_path / "b", tmp_path / "c"
    job.write_text("SELECT 1 +")
    named.write_text("SELECT count(*) FROM log")
    config.write_text("nonsense = 1\n")
    assert validate(named).stdout == f"{named}: jobs, 1 statement: valid\n"
    assert validate(config).return_value == 78
    assert validate(job, config).return_value == 78
    assert validate(tmp_path / "missing", named).return_value == 1


def test_the_loader_reports_the_same_first_error(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('[streams.a]\npath = "x"\nidle = "soon"\n')
    with pytest.raises(ConfigError) as error:
        load_config(str(path))
    assert error.value.message in validate(path).stderr
