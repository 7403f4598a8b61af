"""A flipped bit in the votes of a real agent, where they are needed: nothing that was decided is undone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from elfmesh.storage.statelog import NAME
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.patience import PATIENCE_S

TEXT = """CREATE JOB e2e.{job} DEADLINE '1 s' ON STRAGGLER SKIP AS SELECT k{more}, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""


def jobs(agent: Agent) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = agent.get("/v1/jobs")["jobs"]
    return {each["job"]: each for each in found}


def restart(agents: list[Agent]) -> None:
    """Start them at their old addresses, and wait for all."""
    for agent in agents:
        agent.start([other.overlay for other in agents if other is not agent])
    for agent in agents:
        agent.wait_ready()


def rewritten_and_killed(agent: Agent) -> Path:
    """Start an agent alone, and kill it as soon as it has rewritten its state log."""
    path = agent.directory / "data" / NAME
    before = path.stat().st_ino
    agent.start()
    eventually(lambda: path.stat().st_ino != before, what="a rewritten state log")
    agent.kill()
    return path


def test_a_deleted_job_and_an_old_version_stay_gone(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 s")
        for job in ("kept", "gone"):
            fleet[0].apply(TEXT.format(job=job, more=""))
        for number in range(3):
            with fleet.log(number).open("a") as file:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                file.write(json.dumps({"ts": stamp, "k": "a"}) + "\n")
        eventually(lambda: len(jobs(fleet[0])) == 2, what="two jobs")

        def described() -> list[dict[str, Any]]:
            found = [fleet[0].get(f"/v1/jobs/e2e/{job}") for job in ("kept", "gone")]
            return found if all(len(each["voters"]) == 3 for each in found) else []

        leads = {each["master"] for each in eventually(described, what="three voters")}
        away = next(agent for agent in fleet if agent.name not in leads)
        one, two = (agent for agent in fleet if agent is not away)
        away.kill()
        changed = {"text": TEXT.format(job="kept", more=", 2 AS two"), "job": "e2e/kept"}
        one.ask("POST", "/v1/jobs", changed)
        one.ask("DELETE", "/v1/jobs/e2e/gone", timeout_s=PATIENCE_S)
        eventually(lambda: one.get("/v1/jobs/e2e/kept")["version"] == 2, what="version 2")
        one.kill()
        two.kill()
        path = rewritten_and_killed(one)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
        restart([one, away])
        reported = eventually(lambda: degraded(one), what="a degraded agent")
        assert str(path) in reported["problem"]
        assert "has lost its votes" in reported["problem"]
        assert f"ERROR elf.agent {path} is damaged at byte" in one.errors()
        states = eventually(lambda: [each["state"] for each in jobs(one).values()], what="the jobs")
        assert {*states} == {"no majority"}, "none may decide"
        kept = one.get("/v1/agent")["votes"]["lost"]["kept"]
        assert Path(kept).read_bytes() == content
        two.start([one.overlay, away.overlay])
        two.wait_ready()
        eventually(lambda: [(n, each["version"]) for n, each in jobs(two).items()] == [("e2e/kept", 2)])
        eventually(lambda: len(two.get("/v1/jobs/e2e/kept")["voters"]) == 3, what="three voters")
        eventually(lambda: one.get("/v1/health")["status"] == "ok", what="a healthy agent")


def degraded(agent: Agent) -> dict[str, Any] | None:
    reported: dict[str, Any] = agent.get("/v1/health")
    return reported if reported["status"] == "degraded" else None
