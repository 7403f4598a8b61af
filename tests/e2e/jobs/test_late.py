"""Records that come late for an interval that still waits for an agent, on real agents (D-9, D-12)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.spark_bridge.joblog import JobLog
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import by_index, oracle
from tests.e2e.zygote import elf

JOB = "e2e/late"
TEXT = """CREATE JOB e2e.late DEADLINE '1 s' HORIZON '300 s' ON STRAGGLER CORRECT AS SELECT k,
       count(*) AS n, sum(v) AS s FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY k"""
START = "2015-05-17T10:05:00Z"
"""Of the interval that is revised: it has records at all agents."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        fleet.start(3, options=",format=json,idle=1 h")
        yield fleet


def write(fleet: Fleet, number: int, minute: int, second: float, key: str = "a", value: int = 1) -> None:
    stamp = f"2015-05-17T10:{minute:02}:{second:06.3f}Z"
    with fleet.log(number).open("a") as file:
        file.write(json.dumps({"ts": stamp, "k": key, "v": value}) + "\n")


def shown(agent: Agent) -> dict[str, Any] | None:
    """The interval as it looks while it is open."""
    lines = agent.ask("GET", f"/v1/jobs/{JOB}/results?state=all&limit=1000").splitlines()
    results = [json.loads(line) for line in lines if line.strip()]
    mine = [each for each in results if each["interval"]["start"] == START]
    return mine[-1] if mine else None


def notified(agent: Agent, state: str) -> list[dict[str, Any]]:
    """What `elf results` says of the interval."""
    done = elf("results", JOB, "--state", state, "-o", "json", "--api", agent.api)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return [each for each in results if each["interval"]["start"] == START]


def contributed(agent: Agent, number: int) -> dict[str, Any]:
    """The interval, open, with so many records in it."""

    def there() -> Any:
        found = shown(agent)
        return found and found["counts"]["contributed"] == number and found

    found: dict[str, Any] = eventually(there, what=f"a revision with {number} records")
    assert found["state"] == "TENTATIVE"
    return found


def in_all(agent: Agent) -> Counter[str]:
    """What has become of the records of all closed intervals."""
    found: Counter[str] = Counter()
    for each in by_index(agent.results(JOB)).values():
        found.update(each["counts"])
    return found


def finals(fleet: Fleet) -> dict[int, dict[str, Any]]:
    """What a reader with a stored position gets, as Spark is one."""
    log = JobLog.of(JOB, ",".join(agent.api for agent in fleet))
    held = log.offsets()
    rows = [row for batch in log.batches(held.earliest - 1, held.latest) for row in batch.to_pylist()]
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        head = {name: row[name] for name in ("state", "rev", "completeness")}
        each = found.setdefault(row["interval_index"], {**head, "rows": []})
        assert {name: each[name] for name in head} == head, "one revision of an interval"
        each["rows"].append({name: row[name] for name in ("k", "n", "s")})
    return found


def test_what_comes_late_is_in_the_last_revision_and_in_spark_once(fleet: Fleet) -> None:
    fleet.apply(TEXT, 1)
    for number in range(3):
        write(fleet, number, 4, 55)
        write(fleet, number, 5, 2, "ab"[number % 2], 10)  # 10:04:50 is over, everywhere
    for number in (0, 1):
        write(fleet, number, 5, 25)  # 10:05:00 is over at two agents, and waits for the third
    first = contributed(fleet[0], 2)
    index = first["interval"]["index"]

    write(fleet, 0, 5, 3, "late", 100)
    second = contributed(fleet[0], 3)
    assert second["rev"] > first["rev"]
    assert {"k": "late", "n": 1, "s": 100} in second["rows"]
    assert notified(fleet[1], "final") == []
    assert notified(fleet[1], "all")[-1]["counts"]["contributed"] == 3
    assert index not in finals(fleet), "Spark sees what is final"

    fleet[0].kill()  # what it has said is on its disk; what it has read is not read into it again
    fleet[0].start([agent.overlay for agent in fleet if agent is not fleet[0]])
    fleet[0].wait_ready()
    write(fleet, 0, 5, 4, "late", 1000)
    third = contributed(fleet[1], 4)
    assert {"k": "late", "n": 2, "s": 1100} in third["rows"]

    write(fleet, 2, 5, 25)
    eventually(lambda: notified(fleet[2], "final"), what="the final result")
    logs = [fleet.log(number) for number in range(3)]
    expected = oracle(logs, TEXT)[index]["rows"]
    (final,) = notified(fleet[0], "final")
    assert (final["state"], final["completeness"], final["rows"]) == ("FINAL", 1.0, expected)
    assert final["rev"] > third["rev"]
    assert final["counts"]["contributed"] == 5
    assert finals(fleet)[index] == {
        "state": "FINAL",
        "rev": final["rev"],
        "completeness": 1.0,
        "rows": expected,
    }

    write(fleet, 0, 5, 5, "late", 10_000)  # no interval waits for any agent any more
    for number in range(3):
        write(fleet, number, 9, 0)
    results = eventually(
        lambda: (found := by_index(fleet[1].results(JOB))) and max(found) > index and found, what="the rest"
    )
    for number in range(3):
        write(fleet, number, 15, 0)  # it counts in what its agent seals next, which may be 10:09:00
    lines = sum(len(log.read_text().splitlines()) for log in logs) - 3  # all but those of the open interval
    buckets = eventually(
        lambda: (found := in_all(fleet[1])) and sum(found.values()) >= lines and found, what="all records"
    )
    assert sum(buckets.values()) == lines, "each once"
    assert buckets["late_dropped"] == 1
    assert results[index] == final
