"""The story of an interval, asked of real agents with the command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import LIVE, Traffic
from tests.e2e.zygote import elf


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def why(agent: Agent, *arguments: str) -> subprocess.CompletedProcess[str]:
    return elf("why", *arguments, "--api", agent.api)


def test_any_agent_shows_how_an_interval_was_sealed_collected_accepted_and_published(fleet: Fleet) -> None:
    fleet.start(3)
    fleet.apply(LIVE)
    names = {agent.name for agent in fleet}
    with Traffic(fleet, [0, 1, 2]):

        def whole() -> int | None:
            final = [each for each in fleet[1].results("e2e/live") if each["state"] == "FINAL"]
            return final[-1]["interval"]["index"] if final else None

        interval = eventually(whole, what="a final record")
        done = why(fleet[1], "e2e/live", "--trace", str(interval), "-o", "json")
        newest = why(fleet[2], "e2e/live", "--trace")
        unknown = why(fleet[2], "e2e/other", "--trace")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["interval"]["index"], found["state"], found["without"]) == (interval, "FINAL", [])
    kinds = [step["kind"] for step in found["steps"]]
    assert {step["agent"] for step in found["steps"] if step["kind"] == "sealed"} == names
    assert {"sent", "received", "collected", "decided", "made", "proposed", "accepted", "published"} <= set(
        kinds
    )
    assert (
        kinds.index("sealed") < kinds.index("collected") < kinds.index("decided") < kinds.index("published")
    )
    places = {step["step"]: place for place, step in enumerate(found["steps"])}
    received = [step for step in found["steps"] if step["kind"] == "received"]
    for step in received:  # the cause travels with the message
        cause = found["steps"][places[step["cause"]]]
        assert (cause["kind"], cause["agent"]) == ("sent", step["peer"])
    assert newest.returncode == 0, newest.stderr
    assert "AFTER END" in newest.stdout
    assert "published" in newest.stdout
    assert unknown.returncode == 1
    assert "no such job" in unknown.stderr
