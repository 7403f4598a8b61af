"""Agents of a demonstration: one that is slow is waited for, one that does nothing is not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from elfmesh.cli.host import local_agents
from elfmesh.cli.host.local_agents import LocalAgents
from elfmesh.errors import RuntimeFailure

READY = "print('ready api=127.0.0.1:1 overlay=127.0.0.1:2 id=ff', flush=True)"


class Played(LocalAgents):
    """Processes that run `script` in place of agents."""

    script = ""

    def command(self, name: str, options: Sequence[str], join: str | None) -> list[str]:
        return [sys.executable, "-c", self.script]


def start(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch, idle_s: float = 0.3) -> None:
    monkeypatch.setattr(local_agents, "IDLE_S_MAX", idle_s)
    monkeypatch.setattr(Played, "script", script)
    with Played(directory) as agents:
        agents.start({"web1": ()})
        assert agents.agents[0].api == "127.0.0.1:1"


def test_an_agent_that_is_slow_to_start_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = "import time\nwhile time.process_time() < 1: pass\n"
    start(tmp_path, work + READY, monkeypatch, 0.9)  # a busy machine may leave it none for a while


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not tell")
def test_an_agent_that_does_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeFailure, match="web1 did not become ready: it used no processor time"):
        start(tmp_path, "import time\ntime.sleep(1000)", monkeypatch)


def test_the_last_output_of_an_agent_that_ends_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeFailure, match="web1 did not become ready\n  no room"):
        start(tmp_path, "import sys\nsys.exit('no room')", monkeypatch)
