"""A job with two trees for each region and a bound of its cost: idle paths revive when they are needed.

Whole agents on virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.paths import layouts
from elfmesh.control.paths.layout import Path as GroupPath
from elfmesh.control.paths.layout import by_group
from elfmesh.control.protocol.messages_parts import Part
from elfmesh.machine import Contact
from tests.control.paths.test_groups import REGIONS, settled
from tests.control.paths.test_site import has_grant, voted
from tests.control.paths.test_sites import AGENTS, Wan, _term
from tests.sim.test_agents import JOB, closed, compare, ended_us, masters, oracle, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, until
from tests.sim.world.memnet import MemoryTransport

COPIES = JOB.replace("DEADLINE", "PATHS 3, 2 ACROSS region COST {} DEADLINE")
BOUND = "4.5"
PLAN_S = 40.0


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


class Parts:
    """Counts the parts by gateway and site, and drops those of some paths.

    Attributes:
        sent: by path.
        cut: the paths whose parts are lost.
    """

    def __init__(self, fleet: SimFleet) -> None:
        self.sent, self.cut = Counter[GroupPath](), set[GroupPath]()
        send, codec = fleet.network.send, fleet.network.codec

        def counted(source: MemoryTransport, to: Contact, frame: bytes) -> None:
            assert source.me is not None
            path = source.me.id, to.id
            if isinstance(codec.decode(frame)[0], Part):
                self.sent[path] += 1
                if path in self.cut:
                    return
            send(source, to, frame)

        mock.patch.object(fleet.network, "send", counted).start()


async def granted(text: str, seed: int) -> tuple[SimFleet, Parts, asyncio.Task[None]]:
    """A job that closes by votes."""
    fleet = SimFleet(seed, AGENTS, regions=REGIONS)
    await fleet.start()
    Wan(fleet)
    parts = Parts(fleet)
    await settled(fleet, text)
    writing = asyncio.create_task(write(fleet, 900, random.Random(seed)))

    async def ready() -> bool:
        return has_grant(fleet)

    await until(ready, 200)
    return fleet, parts, writing


async def pruned(bound: str, seed: int) -> tuple[SimFleet, Parts, asyncio.Task[None]]:
    """A job that closes by votes, and whose paths have been pruned."""
    mock.patch.object(layouts, "PLAN_S", PLAN_S).start()
    fleet, parts, writing = await granted(COPIES.format(bound), seed)

    async def ready() -> bool:
        return has_grant(fleet) and bool(_term(masters(fleet)[0]).layouts.idle_paths.idle)

    await until(ready, 400)
    await asyncio.sleep(10)  # the claims have arrived
    return fleet, parts, writing


async def ask(fleet: SimFleet, verb: str) -> dict[str, Any]:
    reply = await masters(fleet)[0].ask(verb, {"job": "sim/sums"})
    assert reply.status == 200, reply.body
    return reply.body


def test_pruned_paths_carry_nothing_and_revive_when_the_live_one_is_late(tmp_path: Path) -> None:
    async def main() -> None:
        fleet, parts, writing = await pruned(BOUND, 3)
        led = masters(fleet)[0]
        term = _term(led)
        idle, layout = term.layouts.idle_paths.idle, term.layouts.layout
        assert {len(each) for each in by_group(layout).values()} == {2}

        plan = await ask(fleet, "plan")
        cost = plan["cost"]
        assert (cost["paths"], cost["live"], len(cost["idle"])) == (18, 18 - len(idle), len(idle))
        assert cost["is_kept"]
        assert cost["ratio"] <= float(BOUND)
        note = f"COST {BOUND} keeps {18 - len(idle)} of 18 paths; idle: "
        assert any(note in each for each in plan["notes"])
        assert "idle until they are requested: " in (await ask(fleet, "why"))["because"]

        parts.sent.clear()
        before = voted(fleet)
        await asyncio.sleep(10)
        assert voted(fleet) > before, "idle paths end no grant"
        named = {(each.contact.id, site.id) for each in layout.gateways for site in layout.sites}
        carried = {path for path in parts.sent if path in named}
        assert not carried & idle
        assert carried >= {path for path in named - idle if path[0] != path[1]}

        group, second = next(
            (each.group, each.contact) for each in layout.gateways if (each.contact.id, led.id) in idle
        )
        (live,) = (each for each in by_group(layout)[group] if each != second)
        parts.cut = {(live.id, led.id)}
        await asyncio.sleep(10)
        assert (second.id, led.id) not in term.layouts.idle_paths.idle
        assert parts.sent[second.id, led.id] > 0
        assert led.local is not None
        assert led.local.control.stats()["control.revived_paths"] >= 1
        assert led.local.control.stats().get("control.overlaps", 0) == 0, "copies are no conflict"
        latest = term.copy.latest
        await asyncio.sleep(5)
        assert term.copy.latest > latest
        writing.cancel()
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), AGENTS)

    vloop.run(main())


def test_a_gateway_whose_parts_are_lost_delays_no_interval(tmp_path: Path) -> None:
    """4.10: the other copy is there, so nothing is requested and votes go on."""

    async def main() -> None:
        fleet, parts, writing = await granted(COPIES.replace(" COST {}", ""), 5)
        led = masters(fleet)[0]
        layout = _term(led).layouts.layout
        sites = {each.id for each in layout.sites}
        group = next(group for group in REGIONS if group != led.region)
        gateway = by_group(layout)[group][0]
        assert led.local is not None
        requests = led.local.control.stats().get("control.part_requests", 0)
        parts.cut = {(gateway.id, site) for site in sites}
        before = voted(fleet)
        await asyncio.sleep(20)
        assert voted(fleet) - before >= 3 * 8
        assert sum(parts.sent[path] for path in parts.cut) > 0
        assert led.local.control.stats().get("control.part_requests", 0) == requests
        writing.cancel()
        upto = ended_us()
        results = await closed(fleet, upto, 0)
        fleet.check()
        compare(results, oracle(fleet.agents, tmp_path, upto), AGENTS)

    vloop.run(main())
