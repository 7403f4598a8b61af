"""A fleet is upgraded one agent at a time while a job runs, from the code of an earlier version to this one.

The earlier agents are real: their package is taken out of this repository's history. Where there is none (an
sdist, a shallow clone) that is said and the test is skipped; the handshake's own tests need none.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.identity.bearer import TOKEN_FILE
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import oracle
from tests.e2e.test_agents import append, close, complete, records, without_closing
from tests.previous import release

EARLIER = "2697201"
"""The last commit of wire version 1."""

JOB = """CREATE JOB e2e.upgraded HORIZON '300 s' ON STRAGGLER WAIT AS SELECT k, count(*) AS n, sum(v) AS s
FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY n DESC"""
AGENTS = 3


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the earlier package is."""
    return release.code(tmp_path_factory.mktemp("earlier"), EARLIER)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def begin_earlier(fleet: Fleet, earlier: Path) -> None:
    fleet.start(AGENTS, options=",format=json,idle=1 h", environment=of(earlier))
    for agent in fleet:
        token = agent.directory / "data" / TOKEN_FILE  # the earlier version asks for none
        token.touch(mode=0o600)
        token.write_text(secrets.token_urlsafe(32))
        assert agent.process is not None
        environment = Path(f"/proc/{agent.process.pid}/environ")
        if os.access(environment, os.R_OK):  # an agent's belongs to root
            assert str(earlier).encode() in environment.read_bytes()


def of(place: Path) -> dict[str, str]:
    """What makes a process import the package from there, and from nowhere else first."""
    return {"PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}


def write(fleet: Fleet, lines: list[str], phase: int, phases: int = AGENTS + 1) -> None:
    """A part of all lines, in every log."""
    size = len(lines) // phases
    for number in range(AGENTS):
        append(fleet.log(number), lines[phase * size + number : (phase + 1) * size : AGENTS])


def test_a_job_runs_to_exact_results_while_its_agents_are_upgraded_one_by_one(
    fleet: Fleet, earlier: Path
) -> None:
    begin_earlier(fleet, earlier)
    fleet.apply(JOB, 1)
    lines = records(4000, 160)
    write(fleet, lines, 0)
    for phase, number in enumerate((2, 0, 1), 1):
        agent = fleet[number]
        assert agent.terminate() == 0
        write(fleet, lines, phase)
        agent.environment = {}
        agent.start([other.overlay for other in fleet if other is not agent])
        agent.wait_ready()
        assert "refused" not in agent.errors()
    exact(fleet)
    for agent in fleet:
        assert agent.get("/v1/agent")["transport"]["connections_of_earlier_version"] == 0


def exact(fleet: Fleet) -> None:
    """Each interval of the job has what one process computes over all logs, and is complete."""
    close(fleet, 600)
    expected = without_closing(oracle([fleet.log(number) for number in range(AGENTS)], JOB))
    assert len(expected) == 16
    found: dict[int, Any] = complete(fleet, "e2e/upgraded", expected)
    for index, result in expected.items():
        assert found[index]["rows"] == result["rows"], index
        assert (found[index]["state"], found[index]["completeness"]) == ("FINAL", 1.0)


@pytest.mark.exhaustive
def test_a_job_runs_to_exact_results_while_its_agents_are_upgraded_and_downgraded(
    fleet: Fleet, tmp_path: Path
) -> None:
    """From the release before to this one and back, one agent at a time: the fleet is mixed all the while."""
    before = release.code(tmp_path / "before")
    fleet.start(AGENTS, options=",format=json,idle=1 h", environment=release.of(before))
    fleet.apply(JOB, 1)
    phases = 2 * AGENTS + 1
    lines = records(phases * 540, 160)
    write(fleet, lines, 0, phases)
    turns = [(number, place) for place in ({}, release.of(before)) for number in (2, 0, 1)]
    for phase, (number, environment) in enumerate(turns, 1):
        agent = fleet[number]
        assert agent.terminate() == 0
        write(fleet, lines, phase, phases)
        agent.environment = environment
        agent.start([other.overlay for other in fleet if other is not agent])
        agent.wait_ready()
        eventually(lambda: fleet[0].get("/v1/jobs/e2e/upgraded"), what="a master after a restart")
    exact(fleet)
    for agent in fleet:
        assert "refused" not in agent.errors()
        assert "damaged" not in agent.errors()
        assert agent.get("/v1/agent")["transport"].get("protocol_errors", 0) == 0


@pytest.mark.exhaustive
def test_agents_of_both_releases_make_each_change_once_in_a_mixed_fleet(fleet: Fleet, tmp_path: Path) -> None:
    """At each mixture every agent changes three jobs, which agents of either release lead.

    An agent of the release before names no precondition, and a master of it does not know one.
    """
    before = release.code(tmp_path / "before")
    fleet.start(AGENTS, options=",format=json,idle=1 h", environment=release.of(before))
    for agent in fleet:
        agent.apply(changed(agent, 1))
    turns = [(number, place) for place in ({}, release.of(before)) for number in (2, 0, 1)]
    version, masters = 1, set()
    for number, environment in turns:
        restarted = fleet[number]
        assert restarted.terminate() == 0
        restarted.environment = environment
        restarted.start([other.overlay for other in fleet if other is not restarted])
        restarted.wait_ready()
        for agent, owner in itertools.product(fleet, fleet):
            version += 1
            change(agent, owner, version)
            led_by = agent.get(f"/v1/jobs/e2e/{job(owner)}")["master"]
            masters.add((bool(agent.environment), bool(named(fleet, led_by).environment)))
    assert {(True, False), (False, True)} <= masters, "no agent asked a master of the other release"
    for agent in fleet:
        assert "damaged" not in agent.errors()
        assert agent.get("/v1/agent")["transport"].get("protocol_errors", 0) == 0


def job(agent: Agent) -> str:
    return f"by{agent.number}"


def named(fleet: Fleet, name: str) -> Agent:
    return next(agent for agent in fleet if agent.name == name)


def changed(agent: Agent, version: int) -> str:
    return (
        f"CREATE JOB e2e.{job(agent)} AS SELECT count(*) AS n, {version} AS v FROM log"
        " GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    )


def change(agent: Agent, owner: Agent, version: int) -> None:
    """Update a job, pause, resume, delete and begin it again by one agent, and see each change once."""
    path = f"/v1/jobs/e2e/{job(owner)}"

    def made(method: str, path: str, body: object = None) -> None:
        eventually(lambda: [agent.ask(method, path, body)], what=f"an answer to {method} {path}")

    def is_at(state: str, version: int) -> bool:
        with contextlib.suppress(AssertionError):
            row = agent.get(path)
            return (row["state"], row["version"]) == (state, version)
        return False

    creator = eventually(lambda: is_at("running", 1) and agent.get(path), what="the job")["creator"]
    made(
        "POST", "/v1/jobs", {"text": changed(owner, version), "job": f"e2e/{job(owner)}", "creator": creator}
    )
    eventually(lambda: is_at("running", 2), what="version 2")
    made("POST", f"{path}/pause")
    eventually(lambda: is_at("paused", 2), what="a paused job")
    made("POST", f"{path}/resume")
    eventually(lambda: is_at("running", 2), what="a resumed job")
    made("DELETE", path)
    made("POST", "/v1/jobs", {"text": changed(owner, version)})
    eventually(lambda: is_at("running", 1), what="the job that began again")
