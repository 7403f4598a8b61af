"""Two of three agents are lost: the job is shown, its results are read, it goes on; who returns follows."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elfmesh.control.jobs.register_value import GENERATION_BITS
from tests.e2e import zygote
from tests.e2e.fleet import Agent, Fleet, eventually

pytestmark = pytest.mark.apart

TEXT = """CREATE JOB e2e.kept DEADLINE '1 s' ON STRAGGLER SKIP AS SELECT k, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""


def elf(agent: Agent, *words: str) -> subprocess.CompletedProcess[str]:
    return zygote.elf(*words, "--api", agent.api)


def recovery_of(agent: Agent) -> str:
    """What a recovery would do; "" while it is refused."""
    done = elf(agent, "job", "recover", "e2e/kept")
    return done.stdout if done.returncode == 2 else ""


def written(fleet: Fleet, condition: Callable[[], Any], what: str) -> Any:
    """The first true value of `condition`, while each agent gets lines; some are read too late."""

    def checked() -> Any:
        write(fleet)
        return condition()

    return eventually(checked, what=what)


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
        written(fleet, lambda: fleet[0].results("e2e/kept"), what="a result")
        written(fleet, lambda: len(fleet[0].results("e2e/kept")) > 1, what="another one")
        left, *gone = fleet
        before = left.results("e2e/kept")[0]
        for agent in gone:
            agent.kill()
            shutil.rmtree(agent.directory / "data")
        rows = eventually(lambda: [r for r in left.get("/v1/jobs")["jobs"] if r["state"] == "no majority"])
        assert rows[0]["job"] == "e2e/kept"
        eventually(lambda: left.get("/v1/health")["status"] == "degraded", what="a degraded agent")
        assert left.results("e2e/kept")[0] == before
        # An agent that answered some seconds ago still counts, so the first questions may be refused.
        shown = eventually(lambda: recovery_of(left), what="a report of the recovery")
        assert "may be lost" in shown
        done = elf(left, "job", "recover", "e2e/kept", "--i-accept-loss")
        assert done.returncode == 0, done.stderr
        assert "e2e/kept: recovered" in done.stdout
        eventually(lambda: left.get("/v1/jobs/e2e/kept")["state"] == "running", what="a running job")
        written(fleet, lambda: left.results("e2e/kept"), what="a result of the new numbering")
        eventually(lambda: left.get("/v1/health")["status"] == "ok", what="health")


def test_an_agent_that_returns_with_its_disk_follows_the_recovered_job(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 s")
        fleet[0].apply(TEXT)
        written(fleet, lambda: fleet[0].results("e2e/kept"), what="a result")
        left, *gone = fleet
        refused = elf(left, "job", "recover", "e2e/kept", "--i-accept-loss")
        assert refused.returncode == 69
        assert "a majority of the agents that vote on the job answers" in refused.stderr
        for agent in gone:
            agent.kill()
        eventually(lambda: recovery_of(left), what="a report of the recovery")
        lacks = "elf_agent_jobs_without_majority 1.0"
        eventually(lambda: lacks in left.ask("GET", "/metrics").decode(), what="the metric")
        eventually(lambda: "does not answer" in elf(left, "why", "e2e/kept").stdout, what="the reason")
        done = elf(left, "job", "recover", "e2e/kept", "--i-accept-loss")
        assert done.returncode == 0, done.stderr
        for agent in gone:
            agent.start()
            agent.wait_ready()

        def notified() -> list[tuple[str, int]]:
            described = [agent.get("/v1/jobs/e2e/kept") for agent in fleet]
            return [(each["incarnation"], each["epoch"] >> GENERATION_BITS) for each in described]

        eventually(lambda: {generation for _, generation in notified()} == {1}, what="one generation")
        assert len({incarnation for incarnation, _ in notified()}) == 1
        eventually(lambda: all(agent.get("/v1/health")["status"] == "ok" for agent in fleet), what="health")
        audited = (left.directory / "data" / "audit.log").read_text().splitlines()
        assert [line for line in map(json.loads, audited) if line.get("what") == "recover"]
