"""A layout moves away from an agent whose links are slow, as the members have measured them.

Whole agents on virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.paths import layouts
from elfmesh.control.paths.layout import SITES_MIN
from tests.control.paths.test_groups import REGIONS, settled
from tests.control.paths.test_site import begun, has_grant
from tests.control.paths.test_sites import AGENTS, SITES, Wan, _term
from tests.sim.test_agents import closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, until

SLOW_S = 0.3
"""One way to and from the slow agent, beside the usual delay."""

DEGRADED_S = 11.0
PLAN_S = 40.0
WITHIN_S = 400.0


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


def slowed(fleet: SimFleet, agent: bytes, by_s: float = SLOW_S) -> None:
    deliveries = fleet.network.link.deliveries

    def slow(source: bytes, target: bytes, now: float, rng: random.Random) -> list[float]:
        more = by_s if agent in (source, target) and source != target else 0.0
        return [delay + more for delay in deliveries(source, target, now, rng)]

    mock.patch.object(fleet.network.link, "deliveries", slow).start()


async def shown(fleet: SimFleet) -> dict[str, Any]:
    reply = await masters(fleet)[0].ask("plan", {"job": "sim/sums"})
    assert reply.status == 200, reply.body
    return reply.body


def test_a_gateway_and_site_with_slow_links_is_replaced_and_the_rows_are_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        mock.patch.object(layouts, "PLAN_S", PLAN_S).start()
        fleet = SimFleet(5, AGENTS, regions=REGIONS)
        await fleet.start()
        Wan(fleet)
        await settled(fleet, SITES)
        led = masters(fleet)[0]
        layout = _term(led).layouts.layout
        slow = next(each.contact for each in layout.gateways if each.contact.region != led.region)
        slowed(fleet, slow.id)
        writing = asyncio.create_task(write(fleet, 900, random.Random(1)))

        async def moved() -> bool:
            now = _term(led).layouts.layout
            named = {each.contact.id for each in now.gateways} | {each.id for each in now.sites}
            return slow.id not in named and len(now.sites) == SITES_MIN

        await until(moved, WITHIN_S)
        assert led.local is not None
        assert led.local.control.stats()["control.placements"] >= 1

        async def granted() -> bool:
            return has_grant(fleet)

        await until(granted, 120)
        found = await shown(fleet)
        expected = found["expected"]
        assert 0 < expected["measured"] <= expected["of"]
        assert 0 < expected["by_votes_seconds"] < expected["by_master_seconds"]
        why = (await led.ask("why", {"job": "sim/sums"})).body["because"]
        assert "by the latencies of its layout, a record takes" in why
        writing.cancel()
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), AGENTS)

    vloop.run(main())


@pytest.mark.exhaustive
def test_a_site_from_which_everything_is_late_is_replaced_without_a_measured_placement() -> None:
    """V-C: a degraded replica counts as gone. Its heartbeats are as late as its votes."""

    async def main() -> None:
        fleet, _, writing = await begun(SITES, 6)
        led = masters(fleet)[0]
        site = next(each for each in _term(led).layouts.layout.sites if each.id != led.id)
        slowed(fleet, site.id, DEGRADED_S)

        async def replaced() -> bool:
            sites = _term(masters(fleet)[0]).layouts.layout.sites
            return len(sites) == SITES_MIN and site.id not in {each.id for each in sites}

        await until(replaced, 120)
        assert led.local is not None
        assert led.local.control.stats().get("control.placements", 0) == 0
        mock.patch.stopall()
        writing.cancel()

    vloop.run(main())
