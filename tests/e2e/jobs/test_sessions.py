"""A job with session windows on real agents, while its master dies: what one process says over all logs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.live import by_index, oracle

OPTIONS = ",format=json,idle=1 h"
TEXT = """CREATE JOB shop.visits HORIZON '300 s' ON STRAGGLER WAIT AS SELECT k,
       window_start AS start, window_end AS end, count(*) AS n, sum(v) AS total,
       count(DISTINCT v) AS kinds
FROM log GROUP BY SESSION(ts, INTERVAL '5' SECOND), k ORDER BY k"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def write(fleet: Fleet, rng: random.Random, begin: int, end: int, count: int, users: int = 120) -> None:
    """Records of many users, each of them at all agents; every agent has something in every second."""
    for number in range(3):
        with fleet.log(number).open("a") as file:
            for at in range(count):
                minutes, seconds = divmod(begin + (end - begin) * at / count, 60)
                line: dict[str, str | int] = {"ts": f"2015-05-17T10:{int(minutes):02}:{seconds:06.3f}Z"}
                line |= {"k": f"user-{rng.randrange(users)}", "v": rng.randrange(9)}
                file.write(json.dumps(line) + "\n")


def master(fleet: Fleet) -> Agent:
    found = [agent for agent in fleet if agent.name == fleet[0].get("/v1/jobs/shop/visits")["master"]]
    assert len(found) == 1
    return found[0]


def test_sessions_outlive_the_master_of_their_job(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(3, options=OPTIONS)
    fleet.apply(TEXT, 1)
    rng = random.Random(4)
    write(fleet, rng, 0, 40, 300)
    eventually(lambda: len(fleet[0].results("shop/visits")) > 4, what="the first sessions")
    dead = master(fleet)
    dead.kill()
    write(fleet, rng, 40, 80, 300)
    dead.start([agent.overlay for agent in fleet if agent is not dead])
    dead.wait_ready()
    write(fleet, rng, 900, 901, 1)
    logs = [fleet.log(number) for number in range(3)]
    expected = oracle(logs, TEXT)
    newest = max(expected)
    expected = {index: result for index, result in expected.items() if index < newest - 20}

    def there() -> Any:
        results = fleet[1].results("shop/visits")
        return results and results[-1]["interval"]["index"] >= max(expected) and results

    results = by_index(eventually(there, what=f"the result of interval {max(expected)}"))
    rows = 0
    for index, result in expected.items():
        assert results[index]["rows"] == result["rows"], index
        assert results[index]["counts"] == result["counts"]
        assert (results[index]["state"], results[index]["completeness"]) == ("FINAL", 1.0)
        rows += len(result["rows"])
    assert rows > 100
    lengths = {
        row["end"] > row["start"] and row["n"] for result in expected.values() for row in result["rows"]
    }
    assert len(lengths) > 3
