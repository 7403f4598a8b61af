"""Statements with a second stage, on real agents: exactly what one process says over all their logs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import by_index
from tests.e2e.test_agents import verify
from tests.e2e.zygote import elf

OPTIONS = ",format=json,idle=1 h"
STREAMS = {0: ("clicks", "paid"), 1: ("clicks",), 2: ("paid",)}

TOP = """CREATE JOB shop.top EVERY '10 s' HORIZON '300 s' ON STRAGGLER WAIT AS
WITH hits AS (SELECT shop, k, count(*) AS n FROM clicks GROUP BY shop, k)
SELECT shop, k, n, place FROM (
  SELECT shop, k, n, row_number() OVER (PARTITION BY shop ORDER BY n DESC) AS place FROM hits
  WHERE n > (SELECT avg(n) / 2 FROM hits)) ranked
WHERE place <= 2 ORDER BY shop, place"""

JOINED = """CREATE JOB shop.joined PARTITIONS 2 HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT c.shop, count(*) AS n, count(p.id) AS paid, sum(p.v) AS worth, count(DISTINCT c.id) AS ids
FROM clicks c LEFT JOIN paid p ON c.id = p.id AND p.v > 10
WHERE c.k <> 'z'
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), c.shop ORDER BY c.shop"""

UNION = """CREATE JOB shop.both HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT 'click' AS what, k, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, '10 s'), k
UNION ALL SELECT 'paid', k, count(*) FROM paid GROUP BY TUMBLE(ts, '10 s'), k
ORDER BY what, n DESC, k LIMIT 5"""

NESTED = """CREATE JOB shop.nested PARTITIONS 2 HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT c.shop, count(*) AS n, sum(c.v) AS v, sum((SELECT count(*) FROM paid p WHERE p.id = c.id)) AS paid
FROM clicks c
WHERE c.id IN (SELECT id FROM paid WHERE paid.v > 5) AND c.v > (SELECT avg(x.v) FROM clicks x WHERE x.k = c.k)
  AND NOT EXISTS (SELECT 1 FROM paid q WHERE q.id = c.id AND q.v > c.v + 20)
  AND c.k NOT IN (SELECT k FROM paid WHERE paid.k = 'z')
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), c.shop ORDER BY c.shop"""

LISTS = """CREATE JOB shop.lists EVERY '10 s' HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT w, n, sum(n) OVER (ORDER BY w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two,
       first_value(w) OVER (ORDER BY n DESC, w) AS top
FROM (SELECT x.e.id AS w, count(*) AS n
      FROM (SELECT explode(from_json(concat('[{"id": ', id, '}, {"id": ', v, '}]'),
                                     'ARRAY<STRUCT<id: BIGINT>>')) AS e
            FROM clicks) x
      GROUP BY x.e.id) y
ORDER BY w"""

NAMED = """CREATE JOB shop.named HORIZON '300 s' ON STRAGGLER WAIT AS
SELECT n.name, count(*) AS n, sum(c.v * n.price) AS worth FROM clicks c JOIN lookup.names n ON c.k = n.k
GROUP BY TUMBLE(ts, '10 s'), n.name ORDER BY n.name"""
NAMES = "k,name,price\na,Ant,2\nb,Bee,3\n"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def start(fleet: Fleet, root: Path) -> None:
    """Three agents: one with both streams, one with each."""
    (root / "names.csv").write_text(NAMES)
    for number, (first, *others) in STREAMS.items():
        extra = ["--lookup", f"names={root}/names.csv,format=csv"]
        for name in others:
            path = root / f"agent-{number}" / f"{name}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            extra += ["--stream", f"{name}={path}{OPTIONS}"]
        fleet.start(1, stream=first, options=OPTIONS, extra=extra)


def write(fleet: Fleet, rng: random.Random, begin: int, end: int, count: int) -> None:
    """Records of every log over some seconds of event time, in order."""
    for number, streams in STREAMS.items():
        for stream in streams:
            with fleet.log(number, stream).open("a") as file:
                for at in range(count):
                    minutes, seconds = divmod(begin + (end - begin) * at / count, 60)
                    line = {
                        "ts": f"2015-05-17T10:{int(minutes):02}:{seconds:06.3f}Z",
                        "id": rng.randrange(60),
                    }
                    line |= {"k": rng.choice("abcz"), "shop": rng.choice(["x", "y"]), "v": rng.randrange(30)}
                    file.write(json.dumps(line) + "\n")


def oracle(root: Path, text: str) -> dict[int, dict[str, Any]]:
    command = ["run", text, "-o", "json"]
    for stream in ("clicks", "paid"):
        command += ["--stream", f"{stream}={root}/agent-*/{stream}.log,format=json"]
    command += ["--lookup", f"names={root}/names.csv,format=csv"]
    done = elf(*command)
    assert done.returncode == 0, done.stderr
    results = by_index([json.loads(line) for line in done.stdout.splitlines()])
    newest = max(results)
    return {index: result for index, result in results.items() if index < newest - 10}


def complete(fleet: Fleet, job: str, expected: dict[int, Any]) -> dict[int, dict[str, Any]]:
    def there() -> Any:
        results = fleet[1].results(job)
        return results and results[-1]["interval"]["index"] >= max(expected) and results

    return by_index(eventually(there, what=f"the result of interval {max(expected)} of {job}"))


def test_two_stages_joins_and_unions_on_agents_give_what_one_process_gives(
    fleet: Fleet, tmp_path: Path
) -> None:
    start(fleet, tmp_path)
    rng = random.Random(3)
    jobs = {
        "shop/top": (TOP, 2),
        "shop/joined": (JOINED, 3),
        "shop/both": (UNION, 3),
        "shop/nested": (NESTED, 3),
        "shop/lists": (LISTS, 2),
        "shop/named": (NAMED, 2),
    }
    for text, expected_members in jobs.values():
        fleet.apply(text, 2, expected_members)
    write(fleet, rng, 0, 30, 300)
    for job in jobs:
        eventually(partial(fleet[1].results, job), what=f"the first result of {job}")
    fleet[0].kill()
    write(fleet, rng, 30, 60, 300)
    fleet[0].start([fleet[1].overlay])
    fleet[0].wait_ready()
    write(fleet, rng, 900, 901, 1)
    for job, (text, expected_members) in jobs.items():
        expected = oracle(tmp_path, text)
        assert len(expected) == 6
        assert any(result["rows"] for result in expected.values())
        results = complete(fleet, job, expected)
        for index, result in expected.items():
            assert results[index]["rows"] == result["rows"], (job, index)
            assert results[index]["counts"] == result["counts"]
            assert results[index]["state"] == "FINAL"
            assert results[index]["agents"]["expected"] == expected_members
        assert verify(fleet[2], job, max(expected)) == (0, "equal")
