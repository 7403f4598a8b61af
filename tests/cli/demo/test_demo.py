from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow]
COMMAND = [sys.executable, "-m", "elfmesh.agent", "demo", "--agents", "3", "--seconds", "10", "--no-spark"]


def start(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [*COMMAND, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def left_over(tmp_path: Path) -> list[str]:
    """Files below the demo's directory, and processes that were started with it."""
    listing = subprocess.run(["ps", "-ewwo", "args"], check=True, capture_output=True, text=True).stdout
    found = [line for line in listing.splitlines() if str(tmp_path) in line]
    return found + [path.name for path in tmp_path.iterdir()]


def test_every_interval_equals_one_process_and_nothing_is_left_behind(tmp_path: Path) -> None:
    demo = start(tmp_path, "--seed", "7")
    output, _ = demo.communicate()
    assert demo.returncode == 0, output
    assert "killed agent web" in output
    assert "missing: web" in output
    assert "shop/sale_prediction" in output
    assert output.count("EQUAL") == 5
    assert "s before its end: " in output
    assert "rows were shown before their windows closed" in output
    assert output.endswith("demo: every interval EQUAL\n")
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive)],
)
def test_a_demo_that_is_interrupted_stops_its_agents_and_cleans_up(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("-> acknowledged"):
            break
    assert len(left_over(tmp_path)) == 4  # three agents and a directory
    demo.send_signal(number)
    output, _ = demo.communicate()
    assert demo.returncode == code, output
    assert left_over(tmp_path) == []
