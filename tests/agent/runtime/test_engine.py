"""An agent loads SQL and Arrow behind its ready line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, eventually

HEAVY = ("pyarrow", "numpy", "sqlglot", "pandas", "re2", "cryptography", "rich")


JOB = "CREATE JOB shop.count EVERY '1 s' AS SELECT count(*) AS n FROM log"


def write_lines(log: Path) -> None:
    log.write_text("".join(json.dumps({"ts": f"2015-05-17T10:00:0{at}Z"}) + "\n" for at in range(9)))


def mapped(pid: int) -> set[str]:
    """Which of the heavy libraries a process has in memory."""
    text = Path(f"/proc/{pid}/maps").read_text()
    return {name for name in ("pyarrow", "libarrow", "numpy", "re2", "pandas") if f"/{name}" in text}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may see what an agent has in memory")
def test_an_agent_without_a_job_loads_what_a_job_needs_after_it_is_ready(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('[limits]\nengine = "job"\n')  # of an earlier release
    with Fleet(tmp_path) as fleet:
        fleet.start(
            1,
            cold=True,
            options=",format=json,idle=500ms",
            extra=["-c", str(config)],
            environment={"ELF_FAILPOINT": "load:1:hang"},
        )
        agent = fleet[0]
        assert agent.process is not None
        assert agent.get("/v1/health")["status"] == "ok", "the thread that loads hangs, the agent does not"
        assert mapped(agent.process.pid) == set(), "the formats of its streams wait for the engine, too"
        agent.kill()
        agent.environment = {}
        agent.start()
        agent.wait_ready()
        write_lines(fleet.log(0))
        assert agent.apply(JOB)["expected"] == 1
        eventually(lambda: bool(agent.results("shop/count")), what="a result")
        agent.kill()
        agent.start()
        agent.wait_ready()
        found = mapped(agent.process.pid)
        assert found >= {"pyarrow", "numpy", "re2"}, "a job goes on: it is loaded before the ready line"
        assert "pandas" not in found, "Arrow loads it where it is installed"


def test_an_agent_that_cannot_load_the_engine_ends(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(1, cold=True, environment={"ELF_FAILPOINT": "load:2:error"})
        process = fleet[0].process
        assert process is not None
        eventually(lambda: process.poll() is not None, what="the end of the agent")
        assert process.wait() == 1
        assert "fatal: " in fleet[0].errors()


@pytest.mark.parametrize("module", ["elfmesh.agent.runtime.host_agent", "elfmesh.cli.host.agent"])
def test_what_an_agent_imports_at_its_start_is_light(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("words", [("--help",), ("get", "--help"), ("get", "jobs", "--api", "127.0.0.1:1")])
def test_commands_that_only_ask_load_no_engine(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elfmesh.agent", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "click" in loaded
    assert not loaded & {"numpy", "sqlglot", "pyarrow"}
