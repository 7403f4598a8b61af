"""`elf ok-to-stop`: which jobs would lose the majority of their voters."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from elfmesh.cli.jobs.ok_to_stop import stopped_jobs
from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

AGENTS = [{"name": f"web{n}", "address": f"10.0.0.{n}:7400", "status": "alive"} for n in range(1, 6)]
DEAD = [each | {"status": "dead"} if each["name"] == "web3" else each for each in AGENTS]


def job(*voters: int, without: Collection[int] = ()) -> dict[str, Any]:
    addresses = [f"10.0.0.{n}:7400" for n in voters]
    return {
        "job": "shop/top",
        "voters": addresses,
        "voters_without_votes": [f"10.0.0.{n}:7400" for n in without],
    }


@pytest.mark.parametrize(
    ("agents", "voters", "stopping", "lost"),
    [
        (AGENTS, job(1, 2, 3), {"web1"}, None),
        (AGENTS, job(1, 2, 3), {"web4", "web5"}, None),
        (AGENTS, job(1, 2, 3), {"web1", "web2"}, ["web1", "web2"]),
        (DEAD, job(1, 2, 3), {"web1"}, ["web1", "web3"]),
        (DEAD, job(1, 2, 3), {"web4"}, None),
        (AGENTS, job(1, 2, 3, without=[2]), {"web1"}, ["web1", "web2"]),
        (AGENTS, job(1), {"web1"}, ["web1"]),
        (AGENTS, job(1, 2), {"web1"}, ["web1"]),
        (DEAD, job(3, 9), {"web1"}, ["web3"]),
        (AGENTS, job(1, 2, 3, 4, 5), {"web1", "web2"}, None),
    ],
)
def test_a_job_needs_more_than_half_of_its_voters(
    agents: list[dict[str, Any]], voters: dict[str, Any], stopping: set[str], lost: list[str] | None
) -> None:
    found = stopped_jobs(agents, [voters], stopping)
    assert [each["lost"] for each in found] == ([] if lost is None else [lost])


@pytest.mark.parametrize(("agent", "code"), [("web4", 0), ("web1", 1)])
def test_the_command(api: str, backend: FakeBackend, agent: str, code: int) -> None:
    backend.lists("agents", DEAD)
    backend.replies["describe"] = Reply(0, 200, job(1, 2, 3))
    ran = elf("ok-to-stop", agent, "--api", api)
    assert ran.exit_code == code
    expected = "1 of 1 jobs would have no majority" if code else "all 1 jobs keep a majority"
    assert expected in ran.stderr
    assert json.loads(elf("ok-to-stop", agent, "-o", "json", "--api", api).stdout)["ok"] is not bool(code)


def test_an_agent_that_does_not_exist(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", AGENTS)
    ran = elf("ok-to-stop", "wbe1", "--api", api)
    assert (ran.exit_code, "there is no agent 'wbe1'" in ran.stderr) == (1, True)
    assert "web1" in ran.stderr


def test_a_job_without_a_master_goes_on_with_no_agent(api: str, backend: FakeBackend) -> None:
    backend.lists("agents", AGENTS)
    backend.replies["describe"] = Reply(0, 503, {"error": "no majority answers"})
    ran = elf("ok-to-stop", "web1", "--api", api)
    assert (ran.exit_code, "1 of 1 jobs would have no majority" in ran.stderr) == (1, True)
    assert "shop/top: no majority answers" in ran.stderr
    (found,) = json.loads(elf("ok-to-stop", "web1", "-o", "json", "--api", api).stdout)["jobs"]
    assert found["error"] == "no majority answers"
