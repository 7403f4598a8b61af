"""Two of three agents are lost with their disks: the job is shown, its results are read, and it goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.fleet import Agent, Fleet, eventually

TEXT = """CREATE JOB e2e.kept DEADLINE '1 s' ON STRAGGLER SKIP AS SELECT k, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""


def elf(agent: Agent, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elfmesh.agent", *words, "--api", agent.api]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def recovery_of(agent: Agent) -> str:
    """What a recovery would do; "" while it is refused."""
    done = elf(agent, "job", "recover", "e2e/kept")
    return done.stdout if done.returncode == 2 else ""


def write(fleet: Fleet) -> None:
    """A line now, at each agent."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for number in range(3):
        with fleet.log(number).open("a") as file:
            file.write(json.dumps({"ts": stamp, "k": "a"}) + "\n")


def test_a_job_is_recovered_by_the_agent_that_is_left(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 s")
        fleet[0].apply(TEXT)
        write(fleet)
        eventually(lambda: fleet[0].results("e2e/kept"), what="a result")
        write(fleet)
        eventually(lambda: len(fleet[0].results("e2e/kept")) > 1, what="another one")
        left, *gone = fleet
        before = left.results("e2e/kept")[0]
        for agent in gone:
            agent.kill()
            shutil.rmtree(agent.directory / "data")
        rows = eventually(lambda: [r for r in left.get("/v1/jobs")["jobs"] if r["state"] == "no majority"])
        assert rows[0]["job"] == "e2e/kept"
        assert left.get("/v1/health")["status"] == "degraded"
        assert left.results("e2e/kept")[0] == before
        # An agent that answered some seconds ago still counts, so the first questions may be refused.
        shown = eventually(lambda: recovery_of(left), what="a report of the recovery")
        assert "may be lost" in shown
        done = elf(left, "job", "recover", "e2e/kept", "--i-accept-loss")
        assert done.returncode == 0, done.stderr
        assert "e2e/kept: recovered" in done.stdout
        write(fleet)
        eventually(lambda: left.get("/v1/jobs")["jobs"][0]["state"] == "running", what="a running job")
        eventually(lambda: left.results("e2e/kept"), what="a result of the new numbering")
        assert left.get("/v1/health")["status"] == "ok"
