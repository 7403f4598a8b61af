"""A flipped bit in the results of real agents: filled from another copy, or declared lost to every reader."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from elfmesh.control.jobs.pages import frames
from elfmesh.storage.results.salvage import segment_paths
from tests.e2e.fleet import Agent, Fleet, eventually

TEXT = """CREATE JOB e2e.rot DEADLINE '1 s' AS SELECT k, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
JOB = "e2e/rot"
INTERVALS = 9
"""The record of the one in the middle is where the bit flips."""


def results(agent: Agent) -> list[dict[str, Any]]:
    """What a reader gets; nothing while some of it is being fetched, or no agent leads."""
    try:
        return agent.results(JOB)
    except AssertionError:
        return []


def flip(agent: Agent) -> Path:
    """One bit of the record in the middle of the results of an agent that does not run."""
    (log,) = (agent.directory / "data" / "results").iterdir()
    path = segment_paths(log)[-1]
    content = bytearray(path.read_bytes())
    ends = [end for _, _, end in frames(bytes(content))]
    content[ends[INTERVALS // 2] - 9] ^= 1
    path.write_bytes(bytes(content))
    return path


def shows(agent: Agent, records: list[dict[str, Any]]) -> bool:
    return results(agent)[: len(records)] == records


def restart(agents: list[Agent], running: list[Agent]) -> None:
    for agent in agents:
        agent.start([other.overlay for other in (*running, *agents) if other is not agent])
    for agent in agents:
        agent.wait_ready()


def test_records_that_rot_are_filled_and_those_that_rot_everywhere_are_declared_lost(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 s")
        start = int(time.time()) - 100
        for number in range(3):
            with fleet.log(number).open("a") as file:
                for second in range(INTERVALS):
                    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start + second))
                    file.write(json.dumps({"ts": stamp, "k": "a"}) + "\n")
        fleet[0].apply(TEXT)
        eventually(lambda: len(results(fleet[0])) >= INTERVALS, what="the results")
        before = results(fleet[0])
        eventually(lambda: len(fleet[0].get(f"/v1/jobs/{JOB}")["voters"]) == 3, what="three voters")
        names = {agent.name: agent for agent in fleet}
        master = names[fleet[0].get(f"/v1/jobs/{JOB}")["master"]]
        others = [agent for agent in fleet if agent is not master]
        master.kill()
        path = flip(master)
        restart([master], others)
        for agent in fleet:
            eventually(partial(shows, agent, before[:INTERVALS]), what="all records")
        assert f"ERROR elf.results {path} is damaged at byte" in master.errors()
        eventually(lambda: path.with_name(path.name + ".damaged").exists(), what="the file as it was")

        for agent in fleet:
            agent.kill()
        paths = [flip(agent) for agent in fleet]
        restart(list(fleet), [])
        reported = eventually(lambda: [each for each in results(fleet[0]) if "reason" in each], what="a loss")
        assert [(each["state"], each["completeness"]) for each in reported] == [("SKIPPED", 0)]
        assert reported[0]["reason"].startswith("lost")
        lost = {each["interval"]["index"] for each in reported}
        kept = [each for each in before if each["interval"]["index"] not in lost]
        assert [each for each in results(fleet[0]) if each in before] == kept
        assert all(str(path) in agent.errors() for path, agent in zip(paths, fleet, strict=True))
