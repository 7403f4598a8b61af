"""An agent without jobs holds neither SQL nor Arrow; what is loaded later comes in time."""

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
def test_an_agent_may_load_what_a_job_needs_with_the_first_job(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('[limits]\nengine = "job"\n')
    with Fleet(tmp_path) as fleet:
        fleet.start(1, cold=True, options=",format=json,idle=500ms", extra=["-c", str(config)])
        assert fleet[0].get("/v1/streams")["streams"]
        assert fleet[0].process is not None
        assert mapped(fleet[0].process.pid) == set()
        write_lines(fleet.log(0))
        assert fleet[0].apply(JOB)["expected"] == 1
        eventually(lambda: bool(fleet[0].results("shop/count")), what="a result")
        assert mapped(fleet[0].process.pid) >= {"pyarrow", "numpy"}
        fleet[0].kill()
        fleet[0].start()
        fleet[0].wait_ready()
        found = mapped(fleet[0].process.pid)
        assert found >= {"pyarrow", "numpy"}, "a job goes on: it is loaded at the start"
        assert "pandas" not in found, "Arrow loads it where it is installed"


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
