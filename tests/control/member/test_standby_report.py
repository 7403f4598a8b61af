"""What an agent reports of its own standbys and of what it holds for others."""

from __future__ import annotations

from typing import Any

from elfmesh.control.member.standby_report import REFUSED
from tests.control.requests.led import Led
from tests.sim.test_stories import traffic
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet

JOB = (
    "CREATE JOB sim.n STANDBY ALL AS SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL 1 HOUR), k"
)


def test_a_job_without_the_clause_has_no_standby_and_refused_deltas_are_counted() -> None:
    rig = Led()
    assert rig.agent.control.standbys() == {
        "held_bytes": 0,
        "limit_bytes": 64_000_000,
        "refused": 0,
        "jobs": {},
    }
    for name in REFUSED:
        rig.context.stats[name] += 2
    assert rig.agent.control.standbys()["refused"] == 4


async def reports() -> tuple[list[str], list[dict[str, Any]]]:
    fleet = SimFleet(7, 3)
    await fleet.start()
    await fleet.apply(JOB)
    await traffic(fleet, 20.0)
    fleet.check()
    found = [agent.local.control.standbys() for agent in fleet.agents if agent.local is not None]
    return [agent.name for agent in fleet.agents], found


def test_each_member_has_a_standby_with_its_lag_and_a_standby_what_it_holds() -> None:
    names, found = vloop.run(reports())
    assert len(found) == 3
    assert sum(each["held_bytes"] for each in found) > 0
    for each in found:
        own = each["jobs"]["sim/n"]
        assert own["standby"] in names
        assert 0 <= own["lag_seconds"] < 3, "LAG, and the time until the next delta is acknowledged"
        assert own["shipped_bytes"] > 0
