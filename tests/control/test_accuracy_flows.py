"""What a master states of its tentative records is what a reader of all records computes: on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec

from elfmesh.control.jobs.pages import decode_page
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json
from tests.sim.test_stories import master
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, line, wall_us

JOB = """CREATE JOB sim.n DEADLINE '500 ms' HORIZON '60 s' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), k"""
TURNS, AWAY_S, LOOK_S = 3, 4.0, 0.05
Rows = dict[str, int]


async def read() -> tuple[list[dict[str, Any]], list[tuple[float, Rows, Rows]]]:
    """Return what the master states, and for each final record behind a tentative one: fidelity, and both."""
    fleet = SimFleet(7, 6)
    await fleet.start()
    await fleet.apply(JOB)
    leader = master(fleet)
    assert leader.local is not None
    (leading,) = leader.local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {leader.id}
    down = next(agent for agent in fleet.agents if agent.id not in spared)
    tentative: dict[int, tuple[float, Rows]] = {}
    found: dict[int, tuple[float, Rows, Rows]] = {}
    loop = asyncio.get_running_loop()
    wrote_at = 0.0

    async def look(seconds: float) -> None:
        nonlocal wrote_at
        end = loop.time() + seconds
        while loop.time() < end:
            if loop.time() - wrote_at >= 0.25:
                wrote_at = loop.time()
                for agent in fleet.agents:  # some groups are of one agent alone
                    agent.log.write(line(wall_us(), "all", 1), line(wall_us(), agent.name, 1))
            body = {"job": "sim/n", "from": None, "limit": 500, "state": "all", "revision": 0}
            for record, data in decode_page((await leader.ask("results", body)).payload):
                rows = {each["k"]: each["n"] for each in rows_to_json(ipc_to_table(data))}
                if record.state == "TENTATIVE":
                    tentative[record.index] = record.fidelity, rows
                elif record.index in tentative and record.index not in found:
                    found[record.index] = (*tentative[record.index], rows)
            await asyncio.sleep(LOOK_S)

    await look(12.0)
    for _ in range(TURNS):
        down.crash()
        await look(AWAY_S)
        await down.start(fleet.seeds(down))
        await look(11.0)
    await look(10.0)
    fleet.check()
    body = msgspec.to_builtins((await leader.ask("describe", {"job": "sim/n"})).body)
    return body["tentative"], [found[each] for each in sorted(found)]


def means(found: list[tuple[float, Rows, Rows]]) -> list[dict[str, Any]]:
    """Compute overlap and error by ranges of fidelity, the newest with a weight of at least 0.2."""
    stated: dict[int, list[float]] = {}
    records = Counter[int]()
    for fidelity, some, whole in found:
        at = min(int(fidelity / 0.05 + 1e-9), 19)
        overlap = len(some.keys() & whole.keys()) / len(whole)
        error = sum(abs(some.get(key, 0) - n) for key, n in whole.items()) / sum(whole.values())
        records[at] += 1
        weight, before = max(0.2, 1 / records[at]), stated.get(at, [0.0, 0.0])
        stated[at] = [old + weight * (new - old) for old, new in zip(before, (overlap, error), strict=True)]
    return [
        {
            "fidelity": round(at * 0.05, 2),
            "records": records[at],
            "overlap": round(overlap, 4),
            "error": round(error, 4),
        }
        for at, (overlap, error) in sorted(stated.items())
    ]


def test_overlap_and_error_are_those_that_a_reader_of_all_records_computes() -> None:
    described, found = vloop.run(read())
    assert len(found) >= TURNS
    assert any(some.keys() < whole.keys() for _, some, whole in found), "a group was missing"
    assert described == means(found)
