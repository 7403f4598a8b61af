"""`elf init`: the configuration that it writes passes the check of the agent."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.agent.settings.config import config_of
from elfmesh.cli.host.found_logs import FoundLogs, FoundStream
from elfmesh.cli.host.init import SHOWN, configuration, toml_text
from tests.cli.host.test_found_logs import ACCESS, SYSLOG, write
from tests.cli.remote import elf


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    root = tmp_path / "var"
    write(root, nginx__access_log=ACCESS, syslog=SYSLOG, odd_log="??\n")
    return root


def test_the_configuration_is_printed_and_what_is_read_is_listed(logs: Path) -> None:
    ran = elf("init", str(logs))
    assert ran.exit_code == 0
    assert tomllib.loads(ran.stdout)["streams"]["nginx_access"] == {
        "path": f"{logs}/nginx/access.log", "format": "combined",
    }  # fmt: skip
    assert f"read: {logs}/nginx/access.log as stream nginx_access, format combined" in ran.stderr
    assert f"left out: {logs}/odd.log: its format is not recognised" in ran.stderr
    assert f'# "{logs}/odd.log": its format is not recognised' in ran.stdout


def test_the_file_passes_the_check_of_the_agent(logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "agent.toml"
    assert elf("init", str(logs), "-o", str(target), "--dry-run").stdout.startswith("# Written by `elf init`")
    assert not target.exists()
    ran = elf("init", str(logs), "-o", str(target))
    assert (ran.exit_code, ran.stdout) == (0, "")
    checked = elf("validate", str(target))
    assert (checked.exit_code, checked.stdout) == (0, f"{target}: configuration, 2 streams: valid\n")


def test_a_file_is_replaced_with_force_only(logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "agent.toml"
    target.write_text("before")
    ran = elf("init", str(logs), "-o", str(target))
    assert (ran.exit_code, "--force replaces it" in ran.stderr) == (1, True)
    assert target.read_text() == "before"
    assert elf("init", str(logs), "-o", str(target), "--force").exit_code == 0
    assert target.read_text() != "before"


def test_wrong_places(tmp_path: Path) -> None:
    assert elf("init", "/nosuch").exit_code == 2
    ran = elf("init", str(tmp_path))
    assert (ran.exit_code, "No log was found" in ran.stderr) == (0, True)
    config_of(tomllib.loads(ran.stdout), "test")
    ran = elf("init", str(tmp_path), "-o", str(tmp_path / "no/a"))
    assert (ran.exit_code, "No such file or directory" in ran.stderr) == (1, True)


def test_a_long_list_is_cut_in_the_file() -> None:
    found = FoundLogs(closed=[(f"/{number}", "root:adm 0640") for number in range(SHOWN + 2)])
    lines = list(configuration(found))
    assert lines[-1] == "# and 2 more"
    assert lines.index('# "/0": root:adm 0640') == len(lines) - SHOWN - 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_path_is_a_text_of_toml(path: str) -> None:
    assert tomllib.loads(f"path = {toml_text(path)}")["path"] == path
    stream = FoundStream("a", f"/{path}", "json", 1)
    found = FoundLogs([stream], [(path, "x")], [(path, "x")])
    text = "".join(f"{line}\n" for line in configuration(found))
    assert tomllib.loads(text)["streams"]["a"]["path"] == f"/{path}"
