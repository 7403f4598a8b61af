"""What an agent writes into its log: one line an event, and no credential."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh.agent.runtime.log_lines import MASK, JsonLine, TextLine, masked
from tests.patience import PATIENCE_S


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    caught = None if error is None else (type(error), error, None)
    return logging.LogRecord("elf.agent", logging.WARNING, "f.py", 1, message, arguments, caught)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2hunter2",
        "password=hunter2hunter2",
        '{"db_password": "hunter2hunter2"}',
        "postgresql://elf:hunter2hunter2@db/logs",
        "api-key: hunter2hunter2, next",
        "sink.token = 'hunter2hunter2'",
        "basic aHVudGVyMmh1bnRlcjI= hunter2hunter2".replace(" hunter2hunter2", ""),
        "client_secret=hunter2hunter2&x=1",
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str) -> None:
    for shown in (masked(text), JsonLine().format(record("%s", text)), TextLine().format(record("%s", text))):
        assert "hunter2" not in shown
        assert "aHVudGVy" not in shown
        assert MASK in shown


@pytest.mark.parametrize(
    "text", ["joined the overlay", "no token here", "http://127.0.0.1:7401/v1", "stream a: cannot read /p=1"]
)
def test_other_text_stays(text: str) -> None:
    assert masked(text) == text


def test_an_event_is_one_object_whatever_it_holds() -> None:
    line = JsonLine().format(record("bad key %r\n%s", "\x1b[2J", "forged"))
    assert "\n" not in line
    assert "\x1b" not in line
    reported = json.loads(line)
    assert (reported["level"], reported["logger"]) == ("warning", "elf.agent")
    assert reported["event"].endswith("\nforged")
    assert reported["time"].endswith("Z")


def test_a_traceback_stays_within_its_event() -> None:
    line = JsonLine().format(record("failed", error=ValueError("password=hunter2hunter2")))
    reported = json.loads(line)
    assert reported["error"] == f"ValueError: password={MASK}"
    assert "ValueError" in reported["traceback"]
    assert "\n" not in line


def test_an_agent_writes_its_log_in_the_configured_format(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elfmesh.agent", "agent", "--log-format", "json"]
    command += ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline().startswith("ready ")
        agent.terminate()
        _, errors = agent.communicate(timeout=PATIENCE_S)
    assert agent.returncode == 0
    events = [json.loads(line) for line in errors.splitlines()]
    assert "joined the overlay" in [each["event"] for each in events]
    assert {"time", "level", "logger", "event"} == set(events[0])
