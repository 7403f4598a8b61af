"""A job of three regions while the link between two of them is cut: no reader waits for the region behind it.

In the first interval behind the cut, a site does not know yet that it will lack a part: it asks for the
record after the vote of the site that has all parts, which costs `LACKS_S` and a round trip more. It asks for
later ones with its own vote.

Whole agents on virtual time, whose links have constant latencies.
"""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.wide_fleet import WideFleet
from benchmarks.wide_traces import constant
from elfmesh.control.master.grants import Grants
from elfmesh.control.register.votes import LACKS_S
from tests.sim.world import vloop

REGIONS = ("eu", "us", "ap") * 2
INSIDE_S, BETWEEN_S = 0.001, 0.05
"""One way between two agents of one region, and of two."""

ROUND_TRIP_S = 2 * BETWEEN_S

PATHS = "PATHS 3 ACROSS region"
CALM_S, SETTLED_S, CUT_S = 30.0, 5.0, 20.0
"""Votes begin; readers begin; some folds of the votes into the register's value while the link is cut."""


def around_a_cut(regions: tuple[int, int]) -> tuple[list[float], dict[str, list[float]]]:
    """Cut the link between the regions of two sites, whose numbers are given; that of the master is 0.

    Returns:
        Seconds from the last seal to the readers of all regions before, and of each region while it is cut.
    """
    one_way = [[INSIDE_S if one == other else BETWEEN_S for other in REGIONS] for one in REGIONS]

    async def main() -> tuple[list[float], dict[str, list[float]]]:
        fleet = WideFleet(constant(one_way, REGIONS), PATHS, width_s=1, deadline_s=1)
        with fleet.watched():
            await fleet.begin(CALM_S)
            layout, led = fleet.layout, fleet.master
            assert layout is not None
            readers = [REGIONS.index(region) for region in dict.fromkeys(REGIONS)]
            fleet.add_readers(readers)
            await asyncio.sleep(SETTLED_S)
            at = fleet.interval
            await fleet.wait_sealed(at)
            ends = {layout.sites[number].region for number in regions}
            agents = [each for each in fleet.fleet.agents if each.region in ends]
            fleet.link.cut |= {
                (one.id, two.id) for one in agents for two in agents if one.region != two.region
            }
            await asyncio.sleep(CUT_S)
            stop = fleet.interval - 2
            assert fleet.master is led
            await fleet.end()
        behind = range(at + 1, stop)
        assert {fleet.completeness[index] for index in behind} == {1.0}
        return fleet.latencies(at - 3, at), {
            fleet.fleet.agents[reader].region: [
                fleet.read[index].get(reader, float("inf")) - fleet.sealed[index] for index in behind
            ]
            for reader in readers
        }

    found: tuple[list[float], dict[str, list[float]]] = vloop.run(main())
    return found


@pytest.mark.parametrize("regions", [(0, 1), (0, 2), (1, 2)])
def test_a_cut_link_between_two_regions_adds_a_round_trip_at_most_and_another_one_to_the_first_interval(
    regions: tuple[int, int],
) -> None:
    before, behind = around_a_cut(regions)
    late_s = max(before) + ROUND_TRIP_S + 0.01
    for region, (first, *later) in behind.items():
        assert first <= late_s + LACKS_S + ROUND_TRIP_S, region
        assert max(later) <= late_s, region


def test_readers_behind_a_cut_link_get_what_the_master_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is closed by votes, so the site of the region behind the cut has no record by itself."""
    monkeypatch.setattr(Grants, "grant", lambda self, record, rows, closed: None)
    _, behind = around_a_cut((0, 1))
    assert max(max(seconds) for seconds in behind.values()) < 1.5, (
        "parts of the late region are requested once a second"
    )
