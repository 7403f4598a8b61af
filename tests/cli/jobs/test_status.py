"""`elf status`: each fact that is a problem, and the exit codes."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from elfmesh.cli.jobs.status import HELD_S, problems
from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
AGENT: dict[str, Any] = {"name": "web1", "id": "aa", "status": "alive", "skew_seconds": 0.01}
JOB: dict[str, Any] = {
    "job": "shop/top",
    "state": "running",
    "agents": 2,
    "completeness": 1.0,
    "missing": [],
    "held_for_seconds": 0.2,
    "master": "web1",
}
DEAD = AGENT | {"status": "dead", "last_seen": "2026-11-27T11:59:30Z"}


@pytest.mark.parametrize(
    ("fact", "reported"),
    [
        ({}, None),
        ({"skew_seconds": None}, None),
        ({"health": {"status": "ok"}}, None),
        ({"status": "dead", "last_seen": "2026-11-27T11:59:30Z"}, "dead, last seen 30 s ago"),
        ({"status": "dead", "last_seen": "2026-11-27T12:00:09Z"}, "dead, last seen 0 s ago"),
        ({"status": "dead", "last_seen": None}, "dead"),
        ({"health": {"status": "waiting", "problem": "the disk is full"}}, "waiting: the disk is full"),
        ({"health": {"status": "degraded"}}, "degraded: no reason given"),
        ({"health": {"status": "ok", "sinks": {"lake": "no room"}}}, "sink lake: no room"),
        ({"health": {"status": "ok", "archives": {"old": "no room"}}}, "archive old: no room"),
        ({"health": {"status": "ok", "slowed": {"a/b": "over its limit"}}}, "slowed a/b: over its limit"),
        ({"skew_seconds": -1.5}, "its clock differs by -1.5 s from those of the other agents"),
        ({"security": {"expires": "2026-12-30T00:00:00Z"}}, None),
        ({"security": {"expires": "2026-12-01T12:00:00Z"}}, "its certificate expires in 4 days"),
        ({"security": {"expires": "2026-11-27T11:00:00Z"}}, "its certificate has expired"),
        ({"security": {"problem": "cert.pem is torn"}}, "cert.pem is torn"),
        ({"security": {"expires": "soon"}}, "its certificate ends at 'soon', which is no time"),
        ({"status": "dead", "last_seen": "lately"}, "dead"),
        ({"status": "dead", "last_seen": "2026-11-27T11:59:30"}, "dead, last seen 30 s ago"),
    ],
)
def test_the_facts_of_an_agent_that_are_problems(fact: dict[str, Any], reported: str | None) -> None:
    found = problems([AGENT | fact], [], {}, 0, NOW)
    assert [tuple(each) for each in found] == ([("agent", "web1", reported)] if reported else [])


@pytest.mark.parametrize(
    ("fact", "reported"),
    [
        ({}, None),
        ({"state": "paused"}, None),
        ({"completeness": None}, None),
        ({"state": "no majority"}, "no majority"),
        (
            {"completeness": 0.5, "missing": ["web2"]},
            "its newest result has completeness 0.5; missing: web2",
        ),
        ({"completeness": 0.0}, "its newest result has completeness 0; missing: no agent"),
    ],
)
def test_the_facts_of_a_job_that_are_problems(fact: dict[str, Any], reported: str | None) -> None:
    found = problems([AGENT], [JOB | fact], {}, 0, NOW)
    assert [tuple(each) for each in found] == ([("job", "shop/top", reported)] if reported else [])


def test_a_job_that_waits_has_the_reason_of_elf_why() -> None:
    why = {"because": "web2 has not sealed it"}
    (found,) = problems([AGENT], [JOB | {"held_for_seconds": 12.3}], {"shop/top": why}, 0, NOW)
    assert found.problem == "waits for 12 s: web2 has not sealed it"


def test_an_agent_without_an_answer_is_a_problem_and_a_dead_one_counts_only_as_dead() -> None:
    (found,) = problems([AGENT], [], {}, 2, NOW)
    assert found.problem == "2 of the agents did not answer"
    assert len(problems([AGENT, DEAD], [], {}, 1, NOW)) == 1


def test_a_network_without_authentication_is_a_problem() -> None:
    mode = {"mode": "INSECURE NETWORK: any peer that reaches this agent is trusted"}
    (found,) = problems([AGENT | {"security": mode}], [], {}, 0, NOW)
    assert "INSECURE NETWORK" in found.problem


def test_a_fleet_that_is_well(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", [AGENT])
    backend.lists("list", [JOB])
    ran = elf("status", "--api", api)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("1 of 1 agents are alive; 1 running job\n")
    assert "PROBLEM" not in ran.stdout
    found = json.loads(elf("status", "-o", "json", "--api", api).stdout)
    assert (found["ok"], found["problems"]) == (True, [])


def test_a_fleet_that_is_not_well(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", [AGENT, DEAD | {"name": "web2", "id": "bb"}])
    partial = JOB | {"completeness": 0.5, "missing": ["web2"]}
    held = JOB | {"job": "shop/held", "held_for_seconds": HELD_S + 1}
    others = [JOB | {"job": f"a/{number}"} for number in range(30)]
    backend.lists("list", [*others, partial, held])
    backend.replies["why"] = Reply(0, 200, {"because": "web2 is dead"})
    ran = elf("status", "--api", api)
    assert (ran.exit_code, ran.stderr.splitlines()[0]) == (1, "elf: 3 problems")
    lines = ran.stdout.splitlines()
    assert lines[0] == "1 of 2 agents are alive; 32 running jobs"
    assert lines[-1] == "and 12 more: elf get jobs"
    assert lines[8].startswith("shop/held  running"), "jobs with a problem stand first"
    found = json.loads(elf("status", "-o", "json", "--api", api).stdout)
    assert [each["name"] for each in found["problems"]] == ["web2", "shop/top", "shop/held"]
    assert found["agents"] == {"alive": 1, "dead": ["web2"]}
    assert elf("status", "-o", "csv", "--api", api).stdout.splitlines()[0] == "kind,name,problem"


def test_no_agent_answers() -> None:
    ran = elf("status", "--api", "127.0.0.1:1")
    assert ran.exit_code == 69
    assert "no agent answers at 127.0.0.1:1" in ran.stderr
