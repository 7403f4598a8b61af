"""A data directory of a real agent that is rolled back, or started twice, is found out by the others."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Agent, Fleet, eventually

pytestmark = pytest.mark.apart

TEXT = """CREATE JOB e2e.kept DEADLINE '1 s' ON STRAGGLER SKIP AS SELECT k, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
JOB = "/v1/jobs/e2e/kept"
ONE_ASKED = 15
"""Results after which the master still asks the same one of two agents with one id."""


def close_one(fleet: Fleet, agents: list[Agent]) -> None:
    """Let the voters close another interval."""
    asked = agents[0]
    before = asked.get(JOB)["latest"]

    def another() -> bool:
        for agent in agents:
            with fleet.log(agent.number).open("a") as file:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                file.write(json.dumps({"ts": stamp, "k": "a"}) + "\n")
        return bool(asked.get(JOB)["latest"] != before)

    eventually(another, what="another result")


def reported_by(agent: Agent, fleet: Fleet, others: list[Agent]) -> str:
    """What the agent's health says once the others have asked it for votes."""

    def problem() -> str:
        close_one(fleet, others)
        reported: dict[str, Any] = agent.get("/v1/health")
        return "" if reported["status"] == "ok" else str(reported["problem"])

    return str(eventually(problem, what="a degraded agent"))


def follower(fleet: Fleet) -> Agent:
    led = fleet[0].get(JOB)["master"]
    return next(agent for agent in fleet if agent.name != led)


def begin(fleet: Fleet) -> tuple[Agent, list[Agent]]:
    """A job with three voters; one that does not lead, and the others."""
    fleet.start(3, options=",format=json,idle=1 s")
    fleet[0].apply(TEXT)
    eventually(lambda: len(fleet[0].get(JOB)["voters"]) == 3, what="three voters")
    close_one(fleet, list(fleet))
    chosen = follower(fleet)
    return chosen, [agent for agent in fleet if agent is not chosen]


def test_a_directory_that_was_rolled_back_is_reported_in_log_health_and_why(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        agent, others = begin(fleet)
        data = agent.directory / "data"
        agent.terminate()
        shutil.copytree(data, tmp_path / "snapshot")
        agent.start([others[0].overlay])
        agent.wait_ready()
        for _ in range(4):
            close_one(fleet, list(fleet))
        agent.kill()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "snapshot", data)
        agent.start([others[0].overlay])
        agent.wait_ready()
        problem = reported_by(agent, fleet, others)
        assert "has gone back in time" in problem or "is an old copy, or one of two" in problem
        assert "ERROR elf.agent the data directory " in agent.errors()
        assert "this agent has lost its votes" in agent.errors()


def test_a_directory_that_is_started_twice_votes_on_neither_host_for_long(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        agent, others = begin(fleet)
        data = agent.directory / "data"
        agent.terminate()
        shutil.copytree(data, tmp_path / "clone" / "data")
        (tmp_path / "clone" / "log").touch()
        clone = Agent(tmp_path / "clone", 9, [f"log={tmp_path}/clone/log,format=json,idle=1 s"])
        agent.start([others[0].overlay])
        agent.wait_ready()
        fleet.agents.append(clone)
        clone.start([others[0].overlay])
        clone.wait_ready()
        assert clone.id == agent.id

        voting = [agent, clone]

        def found() -> bool:
            close_one(fleet, others)
            if next(closed) == ONE_ASKED and agent in voting:
                agent.terminate()  # the master has asked this one only: it now asks the other one
                voting.remove(agent)
            return any("this agent has lost its votes" in each.errors() for each in (agent, clone))

        closed = itertools.count()
        eventually(found, what="a word of it in a log")
        eventually(partial(_degraded, *voting), what="a degraded agent")


def _degraded(*agents: Agent) -> bool:
    return any(agent.get("/v1/health")["status"] == "degraded" for agent in agents)
