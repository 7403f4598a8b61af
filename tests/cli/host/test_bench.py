"""`elf bench host`: what an agent costs on this machine."""

from __future__ import annotations

import json
import re

import pytest

from elfmesh.cli.entry import run


def test_the_benchmark_prints_what_an_agent_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "host", "--rate", "500", "--seconds", "4", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "combined"
    assert found["lines_counted"] > 0
    assert found["rss_bytes"] > found["rss_idle_bytes"] / 2 > 1_000_000
    assert 0 < found["lag_p50_s"] <= found["lag_p99_s"]
    assert found["cpu_percent"] > 0


def test_wrong_usage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "host", "--rate", "0"]) == 2
    assert re.search("rate", capsys.readouterr().err)
