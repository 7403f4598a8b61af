"""A job reads another on real agents: `elf run` says the same of both in one file, whichever agent dies."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import by_index
from tests.e2e.test_agents import verify
from tests.e2e.zygote import elf

PER_USER = """CREATE JOB shop.per_user EVERY '5 s' HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT id, sum(v) AS v, avg(v) AS mean, max(k) AS k, CAST(sum(v) AS DECIMAL(12, 2)) / 3 AS third
FROM clicks GROUP BY id HAVING sum(v) > 20"""
READER = """CREATE JOB shop.busiest EVERY '20 s' AS
WITH users AS (SELECT id, k, sum(v) AS v, max(mean) AS mean, sum(third) AS third, count(*) AS n
               FROM shop.per_user WHERE v <> 25 GROUP BY id, k)
SELECT k, id, v, mean, third, n, place FROM (
  SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS place FROM users) ranked
WHERE place <= 3 ORDER BY k, place"""
BESIDE = """CREATE JOB shop.change EVERY '5 s' HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT c.id, sum(c.v) AS v, max(u.v) AS before, max(u.third) AS third
FROM clicks c LEFT JOIN LATEST shop.per_user u ON c.id = u.id GROUP BY c.id ORDER BY c.id"""

SAME = """CREATE JOB shop.shares EVERY '5 s' HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT c.k, count(*) AS n, round(sum(c.v) / max(u.v), 3) AS share, max(u.mean) AS mean
FROM clicks c JOIN SAME shop.per_user u ON c.id = u.id WHERE c.v > 2 GROUP BY c.k ORDER BY c.k"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def write(fleet: Fleet, rng: random.Random, begin: int, end: int, count: int) -> None:
    """Records of every log over some seconds of event time, in order."""
    for number in range(3):
        with fleet.log(number, "clicks").open("a") as file:
            for at in range(count):
                minutes, seconds = divmod(begin + (end - begin) * at / count, 60)
                line = {"ts": f"2015-05-17T10:{int(minutes):02}:{seconds:06.3f}Z", "id": rng.randrange(12)}
                line |= {"k": rng.choice("abc"), "v": rng.randrange(30)}
                file.write(json.dumps(line) + "\n")


def oracle(root: Path, job: str, column: str) -> dict[int, dict[str, Any]]:
    """What one process says of the second job of a file with both, but for the end of the logs."""
    (root / "jobs.elfql").write_text(f"{PER_USER};\n{job};\n")
    streams = ["--stream", f"clicks={root}/agent-*/clicks.log,format=json"]
    done = elf("run", "-f", root / "jobs.elfql", "-o", "json", *streams)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    second = by_index([each for each in results if column in (each["rows"] or [{}])[0]])
    return {index: result for index, result in second.items() if index < max(second)}


def test_agents_give_the_rows_of_one_process_for_both_jobs(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(3, stream="clicks", options=",format=json,idle=1 h")
    rng = random.Random(5)
    fleet.apply(PER_USER)
    applied = fleet[1].apply(READER)
    assert (applied["state"], applied["expected"]) == ("new", 0)
    fleet.apply(BESIDE, 2)
    fleet.apply(SAME)
    write(fleet, rng, 0, 45, 600)
    eventually(lambda: fleet[1].results("shop/busiest"), what="the first interval of the reader")
    master = fleet[1].get("/v1/jobs/shop/busiest")["master"]
    dead = next(agent for agent in fleet if agent.name == master)
    other = next(agent for agent in fleet if agent is not dead)
    dead.kill()
    write(fleet, rng, 45, 100, 600)
    dead.start([other.overlay])
    dead.wait_ready()
    write(fleet, rng, 900, 960, 60)
    expected = oracle(tmp_path, READER, "place")
    assert len(expected) >= 5
    assert any(result["rows"] for result in expected.values())
    check(expected, other, "shop/busiest")
    expected = oracle(tmp_path, BESIDE, "before")
    assert any(row["before"] for result in expected.values() for row in result["rows"])
    check(expected, other, "shop/change")
    interval = max(
        index for index, result in expected.items() if any(row["before"] for row in result["rows"])
    )
    assert verify(other, "shop/change", interval) == (0, "equal")
    expected = oracle(tmp_path, SAME, "share")
    assert len([result for result in expected.values() if result["rows"]]) >= 10
    check(expected, other, "shop/shares")
    assert verify(other, "shop/shares", max(expected)) == (0, "equal")
    end = expected[max(expected)]["interval"]["end"]
    query = ("query", "SELECT * FROM shop.shares", "--at", end, "-o", "jsonl", "--api")
    answers = [elf(*query, agent.api) for agent in fleet]
    assert [each.returncode for each in answers] == [0, 0, 0], answers[0].stderr
    assert len({each.stdout for each in answers}) == 1, "all agents answer with the same rows"
    again = other.apply(BESIDE.replace("GROUP BY", "WHERE c.v > 5 GROUP BY"))
    assert (again["state"], again["version"], again["acknowledged"]) == ("warm up", 2, 3)


def check(expected: dict[int, dict[str, Any]], agent: Agent, job: str) -> None:
    """The agents' results are those, each once, with at most one more."""

    def there() -> Any:
        found = agent.results(job)
        return found and found[-1]["interval"]["index"] >= max(expected) and found

    found = by_index(eventually(there, what=f"the last interval of {job}"))
    for index, result in expected.items():
        assert found[index]["rows"] == result["rows"], index
        assert found[index]["counts"] == result["counts"]
        assert found[index]["interval"] == result["interval"]
        assert (found[index]["state"], found[index]["completeness"]) == ("FINAL", 1.0)
    assert set(found) - set(expected) <= {max(expected) + 1}
