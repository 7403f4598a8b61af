"""Partials that ended an inner agent twice as it merged them: the record names who is left out, and why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from elfmesh.srt.events import MergeRequest
from elfmesh.storage.crashes import CrashGuard
from tests.agent.runtime.test_compute_threads import die
from tests.sim.test_agents import JOB, closed, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, wall_us

AGENTS, AHEAD = 9, 3
SLIDE_US = 2_000_000


def test_partials_that_ended_inner_agents_twice_are_left_out_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        fleet = SimFleet(4, AGENTS, fanout=2)
        await fleet.start()
        await fleet.apply(JOB)
        master = masters(fleet)[0].local
        assert master is not None
        (job,) = master.control.leadership.masters
        deadly = wall_us() // SLIDE_US + AHEAD
        for _ in range(2):
            die(tmp_path, MergeRequest(1, (b"deadly",), job, deadly))
        guard = CrashGuard(tmp_path, lambda: 1e9)
        for agent in fleet.agents:
            agent.crash()
            agent.guard = guard
            await agent.start(fleet.seeds(agent))
        await write(fleet, 2.0 * (AHEAD + 4), random.Random(4))
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        expected = oracle(fleet.agents, tmp_path, upto)
        record, rows = results[deadly]
        assert record.state == "FINAL_PARTIAL"
        assert record.missing
        assert len(record.missing) == AGENTS - record.agents_in
        assert 0 < record.completeness < 1
        assert "killed 2 times while the partials of tree" in record.reason
        lost = sum(row["n"] for row in expected[deadly]) - sum(row["n"] for row in rows)
        assert lost > 0
        others = {index: each for index, each in expected.items() if index > deadly}
        assert len(others) >= 2
        assert {index: results[index][1] for index in others} == others
        assert {results[index][0].state for index in others} == {"FINAL"}
        assert sum(record.counts["expired"] for record, _ in results.values()) == lost
        assert f"interval {deadly} of sim/sums is not merged here" in caplog.text

    vloop.run(main())
