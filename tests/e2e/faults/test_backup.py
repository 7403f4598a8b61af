"""An agent's disk is lost while a job runs; another one comes from a backup that was taken before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import zygote
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import by_index, oracle
from tests.e2e.test_agents import append, close, records

AGENTS = 4
JOB = """CREATE JOB e2e.kept DEADLINE '1 s' AS SELECT k, count(*) AS n, sum(v) AS s
FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY k"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def elf(*words: object) -> str:
    done = zygote.elf(*words)
    assert done.returncode == 0, done.stderr
    return done.stderr


def latest(fleet: Fleet) -> dict[int, dict[str, Any]]:
    return by_index(fleet[0].results("e2e/kept"))


def reached(fleet: Fleet, last: int) -> dict[int, dict[str, Any]]:
    """All results once the last one is there."""
    found = latest(fleet)
    return found if found and max(found) >= last else {}


def test_an_agent_from_a_backup_is_another_one_and_no_record_counts_twice(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.start(AGENTS, options=",format=json,idle=1 h")
    fleet.apply(JOB)
    lines = records(3000, 300)
    old = fleet[3]
    data = old.directory / "data"

    def write(first: int, stop: int) -> None:
        for number in range(AGENTS):
            append(fleet.log(number), lines[first + number : stop : AGENTS])

    write(0, 1000)
    eventually(lambda: len(latest(fleet)) >= 6, what="some intervals")
    reported = elf("backup", data, "-o", tmp_path / "b.tar.zst")  # of an agent that runs
    assert f"of agent {old.id}" in reported
    assert "not included:" in reported
    write(1000, 2000)
    eventually(lambda: len(latest(fleet)) >= 16, what="intervals after the backup")
    before, was = latest(fleet), old.id
    old.kill()
    shutil.rmtree(data)
    elf("restore", tmp_path / "b.tar.zst", data)
    old.start([fleet[0].overlay])
    old.wait_ready()
    assert old.id != was
    write(2000, 3000)
    close(fleet, 900)
    paths = [fleet.log(number) for number in range(AGENTS)]
    expected = oracle(paths, JOB)
    last = sorted(expected)[-2]  # the closing records themselves are in an interval that nothing closes
    found = eventually(lambda: reached(fleet, last), what="all intervals")
    assert all(found[index] == result for index, result in before.items())
    whole = 0
    for index, result in expected.items():
        got = found.get(index)
        if index > last or got is None:
            assert index > last, f"nothing is said of interval {index}"
            continue
        whole += got["rows"] == result["rows"]
        if got["rows"] != result["rows"]:
            assert got["agents"]["missing"], f"interval {index} lacks records, and names no agent"
            there = {row["k"]: row["n"] for row in result["rows"]}
            assert all(row["n"] <= there[row["k"]] for row in got["rows"]), index
    assert whole >= len(before)
