"""A wrong clock of an agent without records decides about no record of the others (D-13)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from elfmesh.ingest.sources import BlockDelivery
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.stream import Stream
from elfmesh.ingest.stream_settings import StreamConfig
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, line, until, wall_us
from tests.sim.world.memlog import MemoryLog, MemoryReader

JOB = """CREATE JOB sim.sums DEADLINE '1 s' HORIZON '3 s' AS SELECT k, count(*) AS n, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k"""
AGENTS = 5
QUIET = 3
"""The agent that writes nothing. It is neither the first nor the last one."""


async def write(fleet: SimFleet, seconds: float, rng: random.Random, quiet: int | None = QUIET) -> None:
    """All agents but the quiet one write records with the right time."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for agent in fleet.agents:
            if agent.number != quiet:
                agent.log.write(line(wall_us(), rng.choice("abc"), rng.randrange(9)))
        await asyncio.sleep(0.25)


async def exact(fleet: SimFleet) -> None:
    """Every record that was written is in a final interval, and no agent is missing from one."""
    written = sum(bytes(agent.log.data).count(b"\n") for agent in fleet.agents)

    async def all_counted() -> Any:
        found = await fleet.results("sim/sums")
        return found if sum(row["n"] for _, rows in found for row in rows) >= written else None

    found = await until(all_counted, 120, 1.0)
    assert {(record.state, record.completeness, *record.missing) for record, _ in found} == {("FINAL", 1.0)}
    assert sum(row["n"] for _, rows in found for row in rows) == written
    for record, _ in found:
        assert record.counts["late_dropped"] == record.counts["expired"] == 0
    for agent in fleet.agents:
        assert agent.local is not None
        assert agent.local.dead_letters.describe()["files"] == 0
    fleet.check()


async def started(ahead_s: float) -> SimFleet:
    fleet = SimFleet(7, AGENTS)
    fleet.agents[QUIET].clock_s = ahead_s
    await fleet.start()
    await fleet.apply(JOB)
    return fleet


class SlowReader(MemoryReader):
    """A poll takes ten seconds."""

    clock_us = 0

    def poll(self, bytes_max: int = POLL_BYTES) -> list[BlockDelivery]:
        self.clock_us += 10_000_000
        return super().poll(bytes_max)


def test_the_peers_clocks_are_read_before_the_poll_like_our_own() -> None:
    reader = SlowReader(MemoryLog(1))
    stream = Stream("log", StreamConfig("1", "json"), reader, peers_us=lambda: reader.clock_us)
    polled = stream.poll(lambda: 5)
    assert (polled.now_us, polled.agreed_us) == (5, 0)


@pytest.mark.parametrize("ahead_s", [120.0, 3 * 3600.0])
def test_a_quiet_agent_whose_clock_is_ahead_closes_no_interval_of_the_future(ahead_s: float) -> None:
    async def main() -> None:
        fleet = await started(ahead_s)
        await write(fleet, 30.0, random.Random(1))
        await exact(fleet)
        quiet = fleet.agents[QUIET].local
        assert quiet is not None
        clock = quiet.facts("clock")
        assert clock["now_us"] - clock["agreed_us"] > (ahead_s - 5) * 1e6, "numbers of ordered records"

    vloop.run(main())


@pytest.mark.parametrize("horizon", ["", " HORIZON '3 s'"])
def test_records_with_the_right_time_count_where_the_clock_is_hours_behind(horizon: str) -> None:
    """They are in their intervals, also the last one, whose end no record shows."""

    async def main() -> None:
        fleet = SimFleet(7, AGENTS)
        fleet.agents[1].clock_s = -3 * 3600.0
        await fleet.start()
        await asyncio.sleep(10.0)  # the agents know each other's clocks
        await write(fleet, 2.0, random.Random(1), quiet=None)
        await fleet.apply(JOB.replace(" HORIZON '3 s'", horizon))
        await write(fleet, 30.0, random.Random(2), quiet=None)
        await exact(fleet)

    vloop.run(main())


@pytest.mark.parametrize("agents", [2, 3])
def test_a_right_clock_beside_one_that_is_hours_ahead_closes_nothing_too_early(agents: int) -> None:
    """With so few peers, the wrong clock is the later one of both, and the median of three."""

    async def main() -> None:
        fleet = SimFleet(7, agents)
        fleet.agents[1].clock_s = 3 * 3600.0
        await fleet.start()
        await asyncio.sleep(10.0)
        await write(fleet, 2.0, random.Random(1), quiet=None)
        await fleet.apply(JOB)
        await write(fleet, 30.0, random.Random(2), quiet=None)
        await exact(fleet)

    vloop.run(main())


def test_a_clock_that_is_set_forward_closes_no_interval_of_the_future() -> None:
    async def main() -> None:
        fleet = await started(0.0)
        await write(fleet, 20.0, random.Random(1))
        fleet.agents[QUIET].clock_s = 3600.0
        await write(fleet, 20.0, random.Random(2))
        await exact(fleet)

    vloop.run(main())


def test_a_quiet_agent_that_is_cut_off_goes_by_what_it_knew_of_its_peers() -> None:
    async def main() -> None:
        fleet = await started(600.0)
        await write(fleet, 20.0, random.Random(1))
        others = [agent.id for agent in fleet.agents if agent.number != QUIET]
        fleet.network.link.partition([fleet.agents[QUIET].id], others)
        await write(fleet, 2.0, random.Random(2))
        await asyncio.sleep(60.0)
        fleet.network.link.heal()
        await write(fleet, 20.0, random.Random(3))

        found = await fleet.results("sim/sums")
        newest = max(record.end_us or 0 for record, _ in found)
        assert newest <= wall_us()

    vloop.run(main())


def test_a_quiet_agent_whose_clock_is_right_is_not_held_back_by_one_that_is_behind() -> None:
    async def main() -> None:
        fleet = await started(0.0)
        fleet.agents[1].clock_s = -3600.0
        await write(fleet, 30.0, random.Random(1))
        quiet = fleet.agents[QUIET].local
        assert quiet is not None
        (job,) = quiet.host.describe_jobs().values()
        assert float(str(job["watermark_seconds"])) > wall_us() / 1e6 - 5

    vloop.run(main())
