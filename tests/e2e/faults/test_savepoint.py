"""A job goes on from a savepoint in another overlay: what it says afterwards is what it would have said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import zygote
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import PATIENT, by_index, oracle
from tests.e2e.test_agents import append, close, records

AGENTS = 3
JOB = f"""CREATE JOB e2e.moved {PATIENT} AS SELECT k, count(*) AS n, sum(v) AS s
FROM log GROUP BY HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND), k ORDER BY k"""


@pytest.fixture
def fleets(tmp_path: Path) -> Iterator[tuple[Fleet, Fleet]]:
    with Fleet(tmp_path / "one") as one, Fleet(tmp_path / "two") as two:
        yield one, two


def elf(fleet: Fleet, *words: object, code: int = 0) -> tuple[str, str]:
    token = fleet[0].directory / "data" / "api.token"
    of = ["--api", fleet[0].api, "--token-file", token] if words[1] in ("create", "restore") else []
    done = zygote.elf(*words, *of)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stdout, done.stderr


def readers_known_at(agent: Agent) -> int:
    """Return how many agents read the stream, as this one knows: any agent may found the job."""
    streams = agent.get("/v1/streams")["streams"]
    return len(streams[0]["agents"]) if streams else 0


def latest(fleet: Fleet, job: str) -> dict[int, dict[str, Any]]:
    return by_index(fleet[0].results(job))


def test_a_job_goes_on_in_another_overlay_with_the_records_that_were_rotated_away_meanwhile(
    fleets: tuple[Fleet, Fleet], tmp_path: Path
) -> None:
    one, two = fleets
    one.start(AGENTS, options=",format=json,idle=1 h,read_from=end")
    one.apply(JOB)
    lines = records(2400, 240)

    def write(first: int, stop: int) -> None:
        for number in range(AGENTS):
            append(one.log(number), lines[first + number : stop : AGENTS])

    write(0, 1200)
    eventually(lambda: len(latest(one, "e2e/moved")) >= 8, what="some intervals")
    _, reported = elf(one, "savepoint", "create", "e2e.moved", "-o", tmp_path / "s")
    head = json.loads(elf(one, "savepoint", "show", tmp_path / "s")[0])
    first = head["first"]
    assert f"continues with interval {first}" in reported
    kept = by_index(
        [json.loads(line) for line in elf(one, "savepoint", "results", tmp_path / "s")[0].splitlines()]
    )
    before = latest(one, "e2e/moved")
    assert kept == {index: result for index, result in before.items() if index < first}
    assert elf(one, "savepoint", "restore", tmp_path / "s", code=1)[1].count("runs: end it first") == 1
    for agent in one:
        agent.terminate()
    for number in range(AGENTS):  # the first half is in a rotated file when the other overlay begins
        path = one.log(number)
        path.rename(path.with_name("log.log.1"))
        path.touch()
    write(1200, 1800)
    for number in range(AGENTS):  # the same agents: names and logs
        stream = f"log={one.log(number)},format=json,idle=1 h,read_from=end"
        two.agents.append(Agent(two.root / f"agent-{number}", number, [stream]))
        two[number].start([two[0].overlay] if number else [])
        if not number:
            two[0].wait_ready()
    for agent in two.agents[1:]:
        agent.wait_ready()
    eventually(
        lambda: all(readers_known_at(agent) == AGENTS for agent in two), what="all agents at each agent"
    )
    shutil.copy(tmp_path / "s", tmp_path / "elsewhere")
    _, reported = elf(two, "savepoint", "restore", tmp_path / "elsewhere")
    assert f"{AGENTS} of {AGENTS} agents have it, from interval {first} on" in reported
    assert "not here" not in reported
    write(1800, 2400)
    close(one, 900)
    paths = [one.log(number) for number in range(AGENTS)]
    expected = oracle([*(path.with_name("log.log.1") for path in paths), *paths], JOB)
    wanted = {index: result for index, result in expected.items() if index < max(expected) - 10}
    assert len(wanted) >= 20
    last = max(wanted)
    eventually(lambda: max(latest(two, "e2e/moved"), default=0) >= last, what="all intervals")
    after = latest(two, "e2e/moved")
    assert min(after) >= first
    for index, result in wanted.items():
        got = kept[index] if index < first else after[index]
        assert got["rows"] == result["rows"], index
        assert (got["state"], got["completeness"]) == ("FINAL", 1.0)
    _, reported = elf(two, "savepoint", "restore", tmp_path / "s", "--as", "e2e.again")
    assert "e2e/again" in reported
    eventually(lambda: max(latest(two, "e2e/again"), default=0) >= last, what="the copy's intervals")
    again = latest(two, "e2e/again")
    assert all(again[index]["rows"] == wanted[index]["rows"] for index in wanted if index >= first)
