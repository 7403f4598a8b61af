"""What a standby keeps is worth its records in every kind of query: whole agents on virtual time.

A host is killed for good in the middle of a window. The rows of the window are compared bit for bit with
those of `elfmesh.run` over the whole logs of the other agents, and over as many lines of the lost one as the
record states.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import elfmesh
from elfmesh.control.jobs.records import ResultRecord
from tests.sim.test_stories import master
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, line, until, wall_us
from tests.sim.world.functions import OpenGate
from tests.sim.world.wall import stamp

Judge = Callable[[int, list[dict[str, Any]], list[bytes]], str]
"""What is wrong with the rows of an interval, given the lines that its record states; "" if nothing is."""

AGENTS, LINES_S = 4, 4
LOST_MAX = 3
"""Lines of LAG, one poll and one round trip."""

TUMBLE, HOUR = "TUMBLE(ts, INTERVAL '10' SECOND)", "TUMBLE(ts, INTERVAL '1' HOUR)"
HOP = "HOP(ts, INTERVAL '5' SECOND, INTERVAL '60' SECOND)"
COUNT = "SELECT k, count(*) AS n, sum(v) AS s FROM log GROUP BY {}, k ORDER BY k"
DISTINCT = "SELECT k, count(DISTINCT v) AS d, median(v) AS m, avg(v) AS a FROM log GROUP BY {}, k ORDER BY k"
SKETCHES = "SELECT approx_count_distinct(v) AS d, approx_percentile(v, 0.5) AS m FROM log GROUP BY {}"
FUNCTION = (
    "WITH FUNCTION tens(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$\ndef tens(x):\n    return x // 10\n$$ "
    "SELECT tens(v) AS t, count(*) AS n, sum(tens(v)) AS s FROM log GROUP BY {}, tens(v) ORDER BY t"
)
DIV = "SELECT v div 10 AS t, count(*) AS n, sum(v div 10) AS s FROM log GROUP BY {}, v div 10 ORDER BY t"
ACCURACY, COUNTERS = 20, 16
BOUNDED = (
    f"SELECT approx_percentile(v, 0.5, {ACCURACY}) AS m,"
    f" approx_top_k(CASE WHEN v < 100 THEN 0 WHEN v < 150 THEN 1 ELSE v END, 2, {COUNTERS}) AS top"
    " FROM log GROUP BY {}"
)
"""Both drop values: a window has more of them than the sketches keep."""

JOIN = (
    "SELECT a.k AS k, count(*) AS n FROM log a JOIN log b ON a.v = b.v AND a.k < b.k"
    " GROUP BY TUMBLE(a.ts, INTERVAL '10' SECOND), a.k ORDER BY k"
)


async def write(fleet: SimFleet, seconds: float, rng: random.Random) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for agent in fleet.agents:
            if agent.local is not None:
                agent.log.write(line(wall_us(), rng.choice("abc"), rng.randrange(200)))
        await asyncio.sleep(1 / LINES_S)


def first_lines(agent: SimAgent, record: ResultRecord, most: int | None = None) -> list[bytes]:
    """The lines of an interval in a log; the first ones that the agent has read, if `most` is given."""
    first, end = stamp(record.start_us or 0), stamp(record.end_us or 0)
    lines = [each for each in bytes(agent.log.data).splitlines() if first <= json.loads(each)["ts"] < end]
    return lines[:most]


def equal(text: str) -> Judge:
    """What is wrong with the rows of a record: they are not those of a query over the lines."""

    def judged(index: int, rows: list[dict[str, Any]], lines: list[bytes]) -> str:
        tables = elfmesh.run(text, io.BytesIO(b"\n".join(lines) + b"\n"), "json")
        expected = {table.schema.metadata[b"elf"]: table for table in tables}
        by_index = {
            json.loads(meta)["interval"]["index"]: each.to_pylist() for meta, each in expected.items()
        }
        return "" if by_index.get(index, []) == rows else f"{by_index.get(index)} != {rows}"

    return judged


def bounded(index: int, rows: list[dict[str, Any]], lines: list[bytes]) -> str:
    """What is wrong with the sketches of a record: they are further from the lines than they promise."""
    (row,) = rows
    values = sorted(json.loads(each)["v"] for each in lines)
    ranks = [sum(value < row["m"] for value in values), sum(value <= row["m"] for value in values)]
    assert len(values) > 3.3 * ACCURACY
    if not ranks[0] / len(values) - 1 / ACCURACY <= 0.5 <= ranks[1] / len(values) + 1 / ACCURACY:
        return f"{row['m']} has the ranks {ranks} of {len(values)}"
    counts = Counter(0 if value < 100 else 1 if value < 150 else value for value in values)
    assert len(counts) > COUNTERS
    wrong = [
        each for each in row["top"] if not 0 <= counts[each["item"]] - each["count"] < len(values) / COUNTERS
    ]
    named = [each["item"] for each in row["top"]] == [0, 1]
    return "" if named and not wrong else f"{row['top']}, and there are {counts}"


async def lost_host(
    query: str, window: str, clause: str, at_s: float, seed: int, judge: Judge | None = None
) -> list[str]:
    """Kill a host `at_s` after a window has begun, and judge all records that miss it; what is wrong."""
    fleet, rng = SimFleet(seed, AGENTS), random.Random(seed)
    for agent in fleet.agents:
        agent.gate = partial(OpenGate, agent.storage, agent.wall_us)  # type: ignore[method-assign]  # with functions
    await fleet.start()
    slide_s, size_s = (5, 60) if window == HOP else (10, 10) if window == TUMBLE else (3600, 3600)
    text = query.format(window)
    await fleet.apply(f"CREATE JOB sim.n DEADLINE '1 s' HORIZON '1 s' {clause} AS {text}")
    await write(fleet, 3.0, rng)
    period_s = slide_s if window == HOP else size_s if window == TUMBLE else 10
    await write(fleet, period_s - wall_us() / 1e6 % period_s + (size_s if window == HOP else period_s), rng)
    await write(fleet, at_s, rng)
    leader = master(fleet)
    assert leader.local is not None
    (leading,) = leader.local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {leader.id}
    down = next(agent for agent in fleet.agents if agent.id not in spared)
    at_us = wall_us()
    down.crash()
    last_us = at_us // (slide_s * 1_000_000) * slide_s * 1_000_000
    end_us = last_us + size_s * 1_000_000
    await write(fleet, min((end_us - at_us) / 1e6, 65), rng)
    for agent in fleet.agents:
        if agent.local is not None:  # nothing more is said in the hour
            agent.log.write(line(max(end_us + 30_000_000, wall_us()), "z", 1))
    await asyncio.sleep(max(0.0, (end_us - wall_us()) / 1e6) + 8)

    async def closed() -> list[tuple[ResultRecord, list[dict[str, Any]]]]:
        found = await fleet.results("sim/n", master(fleet).number)
        return found if found and (found[-1][0].start_us or 0) >= last_us else []

    records = [each for each in await until(closed, 60) if each[0].missing == [down.name]]
    fleet.check()
    wrong = [] if len(records) >= size_s // slide_s else [f"{len(records)} records miss the host"]
    for record, rows in records:
        (partly,) = record.partly if record.partly else (None,)
        count = partly.contributed + partly.filtered if partly else 0
        written = len(first_lines(down, record))
        where = f"interval {record.index}: {count} of {written} lines"
        if "STANDBY" in clause and written - count > LOST_MAX:
            wrong.append(f"{where} are in the prefix")
        if "STANDBY" not in clause and count:
            wrong.append(f"{where} are in a record without standbys")
        lines = first_lines(down, record, count)
        lines += [each for agent in fleet.agents if agent is not down for each in first_lines(agent, record)]
        if problem := (judge or equal(text))(record.index, rows, lines):
            wrong.append(f"{where}: {problem}")
    return wrong


@pytest.mark.parametrize(
    ("query", "window", "clause"),
    [
        (COUNT, HOP, "STANDBY ALL LAG '100 ms'"),
        (DISTINCT, TUMBLE, "STANDBY ALL LAG '100 ms'"),
        (SKETCHES, TUMBLE, "STANDBY ALL LAG '100 ms'"),
        (JOIN, TUMBLE, "STANDBY ALL LAG '100 ms'"),
        (COUNT, TUMBLE, "PARTITIONS 3 STANDBY ALL LAG '100 ms'"),
        (COUNT, TUMBLE, "REPLICAS 1"),
    ],
    ids=["hop", "distinct", "sketches", "join", "partitions", "none"],
)
def test_the_rows_of_a_window_equal_those_of_the_lines_that_the_record_states(
    query: str, window: str, clause: str
) -> None:
    at_s = random.Random(query + clause).uniform(1.0, 9.0 if window == TUMBLE else 4.0)
    assert vloop.run(lost_host(query, window, clause, at_s, 5)) == []


def test_sketches_that_drop_values_stay_within_their_error() -> None:
    clause = "STANDBY ALL LAG '100 ms'"
    assert vloop.run(lost_host(BOUNDED, TUMBLE, clause, 7.0, 5, bounded)) == []


def test_results_of_a_python_function_are_in_the_prefix() -> None:
    """The function runs in this process; what confines it elsewhere has nothing to do with panes."""
    clause, text = "STANDBY ALL LAG '100 ms'", f"CREATE JOB sim.n AS {DIV.format(TUMBLE)}"
    assert vloop.run(lost_host(FUNCTION, TUMBLE, clause, 6.0, 5, equal(text))) == []


@pytest.mark.exhaustive  # an hour of ticks; windows of 10 s lose as little above
def test_a_host_that_is_lost_in_an_hour_costs_its_last_second_and_not_the_hour() -> None:
    assert vloop.run(lost_host(COUNT, HOUR, "STANDBY ALL LAG '100 ms'", 40.0, 5)) == []
