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

from elfmesh.control.paths import layouts, part_requests
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
TWO = COPIES.replace("PATHS 3", "PATHS 2")
BOUND = "3.2"
PLAN_S, LATE_S, CLAIMED_S = 60.0, 1.0, 8.0


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


async def begun(text: str, seed: int, *, votes: bool = True) -> tuple[SimFleet, Parts, asyncio.Task[None]]:
    """A job over three regions that closes by votes, or by its master."""
    fleet = SimFleet(seed, AGENTS, regions=REGIONS)
    await fleet.start()
    Wan(fleet)
    parts = Parts(fleet)
    await settled(fleet, text)
    writing = asyncio.create_task(write(fleet, 900, random.Random(seed)))

    async def ready() -> bool:
        spread = {each.region for each in _term(masters(fleet)[0]).cell.contacts}
        return has_grant(fleet) if votes else len(spread) == len(set(REGIONS))

    await until(ready, 200)
    return fleet, parts, writing


async def pruned(text: str, seed: int, *, votes: bool = True) -> tuple[SimFleet, Parts, asyncio.Task[None]]:
    """Such a job whose paths have been pruned; jitter alone requests nothing."""
    mock.patch.object(layouts, "PLAN_S", PLAN_S).start()
    mock.patch.object(part_requests, "LAG_S_MIN", LATE_S).start()
    fleet, parts, writing = await begun(text, seed, votes=votes)
    since = [asyncio.get_running_loop().time()]

    async def ready() -> bool:
        """Whether paths, also one to the master, were idle since the last claims."""
        led, now = masters(fleet)[0], asyncio.get_running_loop().time()
        idle = _term(led).layouts.idle_paths.idle
        if has_grant(fleet) != votes or all(site != led.id for _, site in idle):
            since[0] = now
        return now - since[0] > CLAIMED_S

    await until(ready, 400)
    return fleet, parts, writing


async def ask(fleet: SimFleet, verb: str) -> dict[str, Any]:
    reply = await masters(fleet)[0].ask(verb, {"job": "sim/sums"})
    assert reply.status == 200, reply.body
    return reply.body


async def as_without(fleet: SimFleet, directory: Path) -> None:
    """Compare all closed intervals with the rows of one process over the same lines."""
    upto = ended_us()
    results = await closed(fleet, upto, 0)
    fleet.check()
    compare(results, oracle(fleet.agents, directory, upto), AGENTS)


def test_pruned_paths_carry_nothing_and_votes_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        fleet, parts, writing = await pruned(COPIES.format(BOUND), 3)
        term = _term(masters(fleet)[0])
        layout = term.layouts.layout
        assert {len(each) for each in by_group(layout).values()} == {2}

        plan = await ask(fleet, "plan")
        cost, idle = plan["cost"], term.layouts.idle_paths.idle
        assert (cost["paths"], cost["live"], len(cost["idle"])) == (18, 18 - len(idle), len(idle))
        streams, led = plan["streams"], plan["layout"]["sites"][0]["agent"]
        assert (len(streams), sum(each["live"] for each in streams)) == (18, cost["live"])
        arriving = [each for each in streams if each["site"] == led and "first" in each]
        assert {each["group"] for each in arriving} == set(REGIONS)
        assert sum(each["first"] for each in arriving) == pytest.approx(len(REGIONS), abs=0.01)
        assert all(each["behind"] <= 1 and each["lag_seconds"] > 0 for each in arriving if each["live"])
        assert sum(each["first"] for each in plan["layout"]["sites"]) == pytest.approx(1)
        assert cost["is_kept"], cost
        assert cost["ratio"] <= float(BOUND)
        note = f"COST {BOUND} keeps {18 - len(idle)} of 18 paths; idle: "
        assert any(note in each for each in plan["notes"])
        assert "idle until they are requested: " in (await ask(fleet, "why"))["because"]

        parts.sent.clear()
        before = voted(fleet)
        await asyncio.sleep(10)
        assert voted(fleet) - before >= 3 * 4, "idle paths end no grant"
        assert has_grant(fleet)
        named = {(each.contact.id, site.id) for each in layout.gateways for site in layout.sites}
        carried = {path for path in parts.sent if path in named}
        assert idle == term.layouts.idle_paths.idle
        assert not carried & idle
        assert carried >= {path for path in named - idle if path[0] != path[1]}
        writing.cancel()
        await as_without(fleet, tmp_path)

    vloop.run(main())


@pytest.mark.exhaustive
def test_an_idle_path_is_revived_when_the_live_one_is_late(tmp_path: Path) -> None:
    """Two sites have no votes, so the master needs the parts. Point 25; V-C."""

    async def main() -> None:
        fleet, parts, writing = await pruned(TWO.format("1.5"), 4, votes=False)
        led = masters(fleet)[0]
        term = _term(led)
        layout, idle = term.layouts.layout, term.layouts.idle_paths.idle
        group, second = next(
            (each.group, each.contact) for each in layout.gateways if (each.contact.id, led.id) in idle
        )
        (live,) = (each for each in by_group(layout)[group] if each != second)
        assert led.local is not None
        overlaps = led.local.control.stats().get("control.overlaps", 0)
        parts.sent.clear()
        parts.cut = {(live.id, led.id)}
        latest = term.copy.latest
        await asyncio.sleep(20)
        assert (second.id, led.id) not in term.layouts.idle_paths.idle
        assert parts.sent[live.id, led.id] > 0
        assert parts.sent[second.id, led.id] > 0
        assert led.local.control.stats()["control.revived_paths"] >= 1
        assert led.local.control.stats().get("control.overlaps", 0) == overlaps, "copies are no conflict"
        assert term.copy.latest - latest >= 8, "an interval has two seconds"
        writing.cancel()
        await as_without(fleet, tmp_path)

    vloop.run(main())


def test_a_gateway_whose_parts_are_lost_delays_no_interval(tmp_path: Path) -> None:
    """4.10: the other copy is there, so nothing is requested and votes go on."""

    async def main() -> None:
        mock.patch.object(part_requests, "LAG_S_MIN", LATE_S).start()  # jitter alone requests nothing
        fleet, parts, writing = await begun(COPIES.replace(" COST {}", ""), 5)
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
        await as_without(fleet, tmp_path)

    vloop.run(main())
