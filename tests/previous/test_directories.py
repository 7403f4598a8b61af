"""Data directories of the release before, and of this one in the hands of the release before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import eventually
from tests.ports import reserve
from tests.previous import release


def goes_on(root: Path, recorded: dict[str, Any], place: Path | None, seconds: range) -> dict[str, Any]:
    """Start an agent on a directory, compare what was recorded, let it read on; what there is then."""
    with release.running(root, reserve(), place) as agent:
        assert release.answered(agent) == recorded["results"]
        assert release.jobs(agent) == recorded["jobs"]
        release.append(root, seconds)
        more = len(recorded["results"]["old/top"]) + len(seconds) // 10
        eventually(lambda: len(agent.results("old/top")) >= more, what="results of what came")
        eventually(lambda: len(agent.results("old/wide")) >= more, what="results of what came")
        health = agent.get("/v1/health")
        assert health["status"] == "ok", health
        archives = agent.get("/v1/agent")["archives"]
        assert all(not each["problem"] for each in archives.values()), archives
        found = {"jobs": release.jobs(agent), "results": release.answered(agent)}
    for job in ("old/top", "old/wide"):
        assert all(each["completeness"] == 1.0 for each in found["results"][job])
    assert "damaged" not in agent.errors()
    return found


def test_an_agent_goes_on_from_the_directory_of_the_release_before(tmp_path: Path) -> None:
    recorded = release.unpacked(tmp_path)
    assert set(recorded["jobs"]) == set(release.JOBS)
    assert recorded["jobs"]["old/top"] == ["running", 2]
    found = goes_on(tmp_path, recorded, None, range(180, 240))
    goes_on(tmp_path, found, None, range(240, 260))


@pytest.mark.exhaustive
def test_an_agent_of_the_release_before_goes_on_from_the_directory_of_this_one(
    tmp_path: Path,
) -> None:
    """Down, up and down again: with jobs that each of them has begun, updated and written archives of."""
    place = release.code(tmp_path / "code")
    root = tmp_path / "agent"
    root.mkdir()
    found = release.unpacked(root)
    for turn, code in enumerate((None, place, None, place)):
        found = goes_on(root, found, code, range(180 + 60 * turn, 240 + 60 * turn))
    shutil.rmtree(place)
