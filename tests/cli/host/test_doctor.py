"""`elf doctor`: with and without an agent, its output and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    (tmp_path / "a.log").write_text("{}\n")
    limits = '[limits]\ndisk = "1 MB"\nspill = "0"\nmemory = "16 MB"\n'
    stream = f'[streams.a]\npath = "{tmp_path}/*.log"\n'
    text = f'data_dir = "{tmp_path}/data"\nlisten = "127.0.0.1:0"\napi = "127.0.0.1:1"\n'
    path.write_text(text + stream + limits)
    return path


def well(backend: FakeBackend) -> None:
    row = {"name": "web1", "id": "aa", "status": "alive", "skew_seconds": 0.01, "version": "1"}
    backend.lists("agents", [row])
    from elfmesh.control.protocol.events import Reply

    backend.replies["health"] = Reply(0, 200, {"agent": "web1", "status": "ok"})


def test_a_configuration_is_checked_without_an_agent(config: Path) -> None:
    ran = elf("doctor", "-c", str(config))
    lines = ran.stdout.splitlines()
    assert ran.exit_code == 0, ran.output
    assert lines[0] == f"ok    configuration: {config}, 1 stream"
    assert "ok    logs of a: 1 files can be read" in lines
    assert lines[-1].startswith("warn  agent: no agent answers at 127.0.0.1:1")
    assert all(line[:4].strip() in ("ok", "warn", "fail") for line in lines)


def test_a_fault_is_exit_code_1_and_names_what_to_do(config: Path) -> None:
    config.write_text(config.read_text().replace('listen = "127', 'lisen = "127'))
    ran = elf("doctor", "-c", str(config))
    assert ran.exit_code == 1
    assert ran.stdout.startswith(f"fail  configuration: {config}:2:1: unknown key 'lisen'")
    assert "listen" in ran.stdout.splitlines()[0].partition(". ")[2]


def test_an_agent_that_was_named_must_answer(config: Path) -> None:
    assert elf("doctor", "--api", "127.0.0.1:1").exit_code == 1
    assert elf("doctor", "-c", str(config), "--api", "127.0.0.1:1").exit_code == 1


def test_a_running_agent_is_asked(api: str, backend: FakeBackend, config: Path) -> None:
    well(backend)
    ran = elf("doctor", "-c", str(config), "--api", api, "-o", "json")
    found = json.loads(ran.stdout)
    checks = {each["check"]: each["status"] for each in found["checks"]}
    assert checks.keys() >= {"configuration", "data directory", "disk", "agent", "clocks", "versions"}
    assert checks["agent"] == "ok"
    assert found["ok"] is (ran.exit_code == 0)


def test_the_agent_of_the_configuration_is_asked(api: str, backend: FakeBackend, config: Path) -> None:
    well(backend)
    config.write_text(config.read_text().replace("127.0.0.1:1", api))
    assert "ok    agent: web1 is ok" in elf("doctor", "-c", str(config)).stdout


def test_wrong_use(tmp_path: Path) -> None:
    assert elf("doctor", "--log", "x").exit_code == 2
    ran = elf("doctor", "-c", str(tmp_path / "nosuch.toml"))
    assert (ran.exit_code, "nosuch.toml: No such file" in ran.stdout) == (1, True), ran.output
