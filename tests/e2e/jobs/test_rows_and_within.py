"""Jobs with ROWS, WITHIN and RESAMPLE on agents, while a master dies: what one process says over all logs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.jobs.test_sessions import write
from tests.e2e.live import by_index
from tests.e2e.zygote import elf

OPTIONS = ",format=json,idle=1 h"
WAIT = "EVERY '5 s' HORIZON '300 s' ON STRAGGLER WAIT AS"
USERS = 30
TEXTS = {
    "rows": f"""CREATE JOB shop.rows {WAIT} SELECT k, window_start AS first, window_end AS last,
        count(*) AS n, sum(v) AS total FROM log GROUP BY ROWS(7, 3), k ORDER BY k""",
    "within": f"""CREATE JOB shop.within {WAIT} SELECT a.k AS k, a.ts AS at, b.ts AS other, b.v - a.v AS more
        FROM log a LEFT JOIN log b ON a.k = b.k AND a.ts < b.ts WITHIN INTERVAL '7' SECOND
        WHERE a.v > 5""",
    "gaps": f"""CREATE JOB shop.gaps {WAIT} SELECT k, date_bin(INTERVAL '1' SECOND, ts) AS at, avg(v) AS v,
        max(v) AS top FROM log GROUP BY k, at RESAMPLE at EVERY '500 ms' PARTITION BY k
        FILL (v LINEAR, top PREVIOUS) MAX GAP '7 s' ORDER BY k, at""",
}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def expected_of(fleet: Fleet, text: str) -> dict[int, dict[str, Any]]:
    """Return what `elf run` says over all logs, without the last interval and what is behind its gap."""
    done = elf("run", text, *(fleet.log(number) for number in range(3)), "-o", "json", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = by_index([json.loads(line) for line in done.stdout.splitlines()])
    return {index: result for index, result in found.items() if index < max(found) - 20}


def has_results(fleet: Fleet, name: str) -> bool:
    return len(fleet[0].results(f"shop/{name}")) > 4


def test_they_outlive_the_masters_of_their_jobs(fleet: Fleet) -> None:
    fleet.start(3, options=OPTIONS)
    for text in TEXTS.values():
        fleet.apply(text, 1)
    rng = random.Random(4)
    write(fleet, rng, 0, 40, 200, USERS)
    for name in TEXTS:
        eventually(partial(has_results, fleet, name), what=f"results of {name}")
    names = {fleet[0].get(f"/v1/jobs/shop/{name}")["master"] for name in TEXTS}
    dead = next(agent for agent in fleet if agent.name in names)
    dead.kill()
    write(fleet, rng, 40, 80, 200, USERS)
    dead.start([agent.overlay for agent in fleet if agent is not dead])
    dead.wait_ready()
    write(fleet, rng, 900, 901, 1, USERS)
    for name, text in TEXTS.items():
        expected = expected_of(fleet, text)

        def there(name: str = name, last: int = max(expected)) -> Any:
            results = fleet[1].results(f"shop/{name}")
            return results and results[-1]["interval"]["index"] >= last and results

        results = by_index(eventually(there, what=f"the last interval of {name}"))
        assert sorted(index for index in results if index <= max(expected)) == sorted(expected)
        for index, result in expected.items():
            assert results[index]["rows"] == result["rows"], (name, index)
            assert (results[index]["state"], results[index]["completeness"]) == ("FINAL", 1.0)
        assert sum(len(result["rows"]) for result in expected.values()) > 100
