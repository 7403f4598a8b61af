"""Real logs, split by line over eight real agents: every interval equals what one process says."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh import ids
from elfmesh.local.embedded import answers
from elfmesh.ql.values.row_json import rows_to_json
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import PATIENT
from tests.tooling.shared_data import DATA

AGENTS = 8
CLOSING = b'1.1.1.1 - - [20/Jun/2015:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
"""A record far behind all others closes what was before it: no pause of a busy machine does."""
TOP = """SELECT path, count(*) AS hits, count(DISTINCT host) AS hosts, sum(bytes) AS bytes, avg(bytes) AS mean
FROM access GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), path ORDER BY hits DESC, path LIMIT 3"""
HOPPING = """SELECT status, count(*) AS n FROM access WHERE method <> 'HEAD'
GROUP BY HOP(ts, INTERVAL '30' MINUTES, INTERVAL '60' MINUTES), status ORDER BY status"""
WORD_COUNT = """SELECT agent, count(*) AS n, max(status) AS worst FROM access
GROUP BY TUMBLE(ts, INTERVAL '12' HOURS), agent ORDER BY n DESC, agent"""
EVENTS = """SELECT type, count(*) AS n, sum(payload.size) AS commits FROM events
GROUP BY TUMBLE(created_at, INTERVAL '5' MINUTES), type ORDER BY n DESC, type"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def wait_tree_size(fleet: Fleet, stream: str, count: int) -> None:
    """Until agents that have just started are one tree: a job is founded by those who are there."""

    def tree_size() -> int:
        tree = ids.stream_id(stream).hex()
        found = [each for each in fleet[7].get("/v1/trees")["trees"] if each["tree"] == tree]
        return max((each["size"] for each in found if each["root"]), default=0)

    eventually(lambda: tree_size() == count, what=f"{count} agents in the tree of the stream")


def lines_of(name: str) -> list[bytes]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.splitlines(keepends=True)


def oracle(query: str, name: str, form: str) -> dict[int, tuple[list[dict[str, Any]], int]]:
    results = answers(query, [str(DATA / name)], format=form)
    return {r.record.index: (rows_to_json(r.table), r.record.counts["contributed"]) for r in results}


def check(fleet: Fleet, job: str, expected: dict[int, Any]) -> None:
    def closed() -> Any:
        results = fleet[3].results(job)
        return len(results) >= len(expected) and results

    results = eventually(closed, what=f"{len(expected)} intervals of {job}")
    assert [result["interval"]["index"] for result in results] == sorted(expected)
    for result in results:
        rows, contributed = expected[result["interval"]["index"]]
        assert result["rows"] == rows
        assert result["counts"]["contributed"] == contributed
        assert (result["state"], result["completeness"]) == ("FINAL", 1.0)
        assert result["agents"] == {"in": AGENTS, "expected": AGENTS, "missing": []}


def test_an_access_log_replayed_at_speed_under_three_jobs_at_once(fleet: Fleet) -> None:
    name = "access_logs/apache_logs"
    lines = lines_of(name)
    fleet.start(AGENTS, stream="access", options=",format=combined,idle=1 h")
    jobs = {
        "real/top": f"CREATE JOB real.top {PATIENT} LATENESS '1 day' AS {TOP}",
        "real/hop": f"CREATE JOB real.hop {PATIENT} LATENESS '1 day' AS {HOPPING}",
        "real/words": f"CREATE JOB real.words {PATIENT} LATENESS '1 day' PARTITIONS 4 AS {WORD_COUNT}",
    }
    for number, text in enumerate(jobs.values()):
        fleet.apply(text, number)
    for begin in range(0, len(lines), 400):
        for number in range(AGENTS):
            with fleet.log(number, "access").open("ab") as file:
                file.writelines(lines[begin + number : begin + 400 : AGENTS])
        time.sleep(0.05)
    for number in range(AGENTS):
        with fleet.log(number, "access").open("ab") as file:
            file.write(CLOSING)
    for job, query in zip(jobs, (TOP, HOPPING, WORD_COUNT), strict=True):
        check(fleet, job, oracle(query, name, "combined"))


def test_logs_that_were_there_before_are_read_from_their_beginning(fleet: Fleet, tmp_path: Path) -> None:
    name = "json_streams/gharchive_2015-01-01-0.ndjson.gz"
    lines = lines_of(name)
    fleet.start(AGENTS, stream="events")
    for number in range(AGENTS):
        fleet.log(number, "events").write_bytes(b"".join(lines[number::AGENTS]))
    wait_tree_size(fleet, "events", AGENTS)
    fleet.apply(f"CREATE JOB real.events {PATIENT} LATENESS '10 s' AS {EVENTS}", 7)
    check(fleet, "real/events", oracle(EVENTS, name, "json"))
