"""A kernel without a layer: functions are off and say why, unless the configuration accepts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from elfmesh.control.jobs.signing import show_key
from tests.ingest.functions import as_agent, lesser_kernel, on_lesser_kernel

KEY = show_key(Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw())
SIGNED = f'[functions]\npython = "signed"\nkeys = ["{KEY}"]\n'
QUERY = """WITH FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$
def f(x): return x + 1
$$ SELECT sum(f(x)) AS y FROM log"""


def elf(layer: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", lesser_kernel.__name__, layer, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=as_agent.environment(), timeout=300
    )


@pytest.mark.parametrize(("layer", "name"), [("landlock", "Landlock"), ("seccomp", "seccomp")])
def test_functions_are_off_without_a_layer_unless_that_is_accepted(layer: str, name: str) -> None:
    command = [sys.executable, "-m", on_lesser_kernel.__name__, layer]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=as_agent.environment())
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    why = f"{name}: this kernel is built without it"
    off = f"Python functions are off here: {why} ([functions] dangerously_without_sandbox accepts that)"
    assert reported["held"] == {
        "trial": off,
        "open": f"the functions are off: {why}",
        "again": off,
        "python": off,
        "problem": off,
        "worker": f"PermissionError: {why}",
    }
    risk = f"functions are not confined: {why} (dangerously_without_sandbox)"
    nothing = {"trial": "", "open": "", "again": "", "problem": "", "worker": ""}
    assert reported["accepted"] == nothing | {"python": f"signed by 1 of 1 keys; {risk}"}
    assert reported["off"]["problem"] == ""
    assert reported["off"]["python"] == "off by configuration"


def test_a_configuration_is_warned_of_before_it_is_used(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    for text, warned in (
        (SIGNED, True),
        (f"{SIGNED}dangerously_without_sandbox = true\n", False),
        ("", False),
    ):
        config.write_text(text)
        done = elf("landlock", "validate", str(config))
        assert done.returncode == 0, done.stderr
        assert ("functions.python: would be unavailable on this host: Landlock" in done.stderr) is warned, (
            done.stderr
        )


def test_an_operator_that_trusts_a_text_may_run_it_and_gets_a_warning(tmp_path: Path) -> None:
    log, query = tmp_path / "a.log", tmp_path / "q.sql"
    log.write_text('{"x": 1}\n{"x": 2}\n')
    query.write_text(QUERY)
    done = elf("landlock", "run", "--python", "-f", str(query), str(log), "--format", "json", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == [{"y": 5}]
    assert "Python functions have your rights here: Landlock: this kernel is built without it" in done.stderr


@contextmanager
def agent(home: Path, *, layer: str) -> Iterator[tuple[int, str]]:
    """A real agent, not root's, on a kernel without a layer: its process and its API's address."""
    config = home / "agent.toml"
    config.write_text(SIGNED)
    words = ["agent", "-c", str(config), "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"]
    words += ["--data-dir", str(home / "data")]
    command = as_agent.command(lesser_kernel.__name__, layer, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=as_agent.environment(), text=True) as process:
        try:
            assert process.stdout is not None
            ready = dict(each.split("=") for each in process.stdout.readline().split()[1:])
            yield process.pid, ready["api"]
        finally:
            process.terminate()


def get(api: str, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{api}{path}") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_health_reports_why_functions_are_off_and_no_process_of_the_same_user_may_look_into_an_agent() -> (
    None
):
    with as_agent.directory() as home, agent(home, layer="landlock") as (pid, api):
        health = get(api, "/v1/health")
        assert health["status"] == "degraded"
        assert health["problem"].startswith("Python functions are off here: Landlock")
        assert get(api, "/v1/agent")["functions"]["python"] == health["problem"]
        own = Path(f"/proc/{pid}/status").read_text().partition("Uid:")[2].split()[0]
        assert int(own) != 0 or os.geteuid() == 0
        assert Path(f"/proc/{pid}/environ").stat().st_uid == 0, (
            "the kernel gives it to root: no dumps, no tracing"
        )
