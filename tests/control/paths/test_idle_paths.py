"""Algorithm 6 makes paths of a layout idle: an example computed by hand, and the paths that stay live.

Three regions in a row, 10 ms apart one way, with two gateways each and a site in each; the master is in the
middle. The second gateway of each region is 1 ms farther from everything, and a third one 2 ms.
"""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.paths.idle_paths import (
    PART_BYTES,
    REVIVED_S,
    IdlePaths,
    cost_of_one,
    discarded,
    path_costs,
)
from elfmesh.control.paths.layout import by_group
from elfmesh.control.paths.round_trips import RoundTrips
from elfmesh.machine import Contact
from tests.control.contexts import new_context

TEXT = "CREATE JOB shop.top EVERY '5 s' PATHS 3, 2 COST {} AS SELECT k, count(*) AS n FROM s GROUP BY k"
REGIONS = ("ap", "eu", "us")
GATEWAYS = {
    region: [Contact(bytes([100 + 10 * at + copy]) * 20, "host", 1, region=region) for copy in (0, 1, 2)]
    for at, region in enumerate(REGIONS)
}
SITES = [Contact(bytes([105 + 10 * at]) * 20, "host", 1, region=region) for at, region in enumerate(REGIONS)]
MASTER = replace(new_context(1).me, region="eu")
SITES_OF = (MASTER, SITES[0], SITES[2])
AGENTS = [*(each for agents in GATEWAYS.values() for each in agents), *SITES_OF]
PLACE = {each.id: REGIONS.index(each.region) for each in AGENTS}
COPY = {each.id: copy for agents in GATEWAYS.values() for copy, each in enumerate(agents)}


def layout_of(copies: int) -> PathLayout:
    gateways = tuple(Gateway(region, each) for region in REGIONS for each in GATEWAYS[region][:copies])
    return PathLayout("region", gateways, SITES_OF)


LAYOUT = layout_of(2)


def latency_ms(one: bytes, other: bytes) -> int:
    return 10 * abs(PLACE[one] - PLACE[other]) + 1 + COPY.get(one, 0) + COPY.get(other, 0)


def measured() -> RoundTrips:
    trips = RoundTrips()
    for each in AGENTS:
        trips.report(each.id, [(one.id, 2000 * latency_ms(each.id, one.id)) for one in AGENTS], 0.0)
    return trips


class Rig:
    def __init__(self, cost: str = "6", layout: PathLayout = LAYOUT) -> None:
        self.context = new_context(1)
        self.layout: PathLayout | None = layout
        plan: JobPlan = read_plan(TEXT.format(cost))
        self.paths = IdlePaths(self.context, plan, measured(), lambda: self.layout)

    def look(self) -> frozenset[tuple[bytes, bytes]]:
        self.paths.look(MASTER, AGENTS)
        return self.paths.idle

    @property
    def ratio(self) -> float:
        found = self.paths.cost(MASTER, AGENTS)
        assert found is not None
        assert found.ratio is not None
        return found.ratio


def test_the_cost_is_that_of_all_streams_in_units_of_one_path_from_each_group() -> None:
    """By hand: to the master 11, 1 and 11 ms with PATHS 1. First gateways: 11 + 1 + 11 to the master, and
    1 + 11 + 21 to each other site, 89 ms; the second ones cost 9 ms more. 187 / 23.
    """
    rig = Rig()
    assert rig.ratio == pytest.approx((89 + 98) / 23)


def test_algorithm_6_discards_what_is_worth_least_for_its_cost() -> None:
    """By hand: each site has the share 1/3 of the readers' utility, and each copy 2/3 or 1/3 of a site's.
    The second copies of the far region cost 22 ms for a utility of 1/9, so they go first: 187 - 44 = 143
    <= 6.3 * 23 = 144.9.
    """
    rig = Rig("6.3")
    ap, us = GATEWAYS["ap"][1].id, GATEWAYS["us"][1].id
    assert rig.look() == {(ap, SITES[2].id), (us, SITES[0].id)}
    assert rig.ratio == pytest.approx(143 / 23)
    assert Rig("9").look() == frozenset()


@pytest.mark.parametrize("cost", ["1", "2", "3.5", "4", "5"])
def test_whatever_the_bound_the_master_has_each_group_and_two_sites_and_gateways_are_left(cost: str) -> None:
    rig = Rig(cost)
    idle = rig.look()
    found = rig.paths.cost(MASTER, AGENTS)
    assert found is not None
    assert found.ratio is not None
    assert found.is_kept == (found.ratio <= float(cost))
    assert (found.of, found.live) == (18, 18 - len(idle))
    live = [
        (gateway.id, site.id) for agents in GATEWAYS.values() for gateway in agents for site in LAYOUT.sites
    ]
    live = [each for each in live if each not in idle]
    for agents in by_group(LAYOUT).values():
        mine = [each for each in live if each[0] in {one.id for one in agents}]
        assert MASTER.id in {site for _, site in mine}
        assert len({gateway for gateway, _ in mine}) == 2
    complete = [
        site
        for site in LAYOUT.sites
        if all(any((each.id, site.id) in live for each in agents) for agents in GATEWAYS.values())
    ]
    assert len(complete) >= 2


def test_a_group_with_one_gateway_keeps_it_and_a_whole_site_may_be_idle() -> None:
    rig = Rig("3", layout_of(1))
    idle = rig.look()
    assert idle == {(agents[0].id, SITES[0].id) for agents in GATEWAYS.values()}
    assert rig.ratio == pytest.approx(56 / 23)


def test_no_discarded_set_is_worth_less_for_its_cost_than_the_first_one() -> None:
    """V-B against brute force: no path or pair of paths that may go has a smaller ratio."""
    latencies = measured().latencies({each.id: each.region for each in AGENTS})
    assert latencies is not None
    costs = path_costs(LAYOUT, MASTER, latencies, {})
    rng = random.Random(1)
    weights = {path: rng.choice((1.0, 0.5)) for path in costs}
    total = sum(costs.values())
    first = discarded(LAYOUT, MASTER, costs, weights, total - 1e-6)
    ratios = {}
    for size in (1, 2):
        for paths in combinations(costs, size):
            worth = 0.0
            for gateway, site in paths:
                (group,) = (
                    agents for agents in by_group(LAYOUT).values() if gateway in [each.id for each in agents]
                )
                share = weights[gateway, site] / sum(weights[each.id, site] for each in group)
                worth += share / 3 * (1 if site != MASTER.id else 4)
            ratios[paths] = worth / sum(costs[path] for path in paths)
    assert len(first) == 1
    assert ratios[first] == min(each for paths, each in ratios.items() if len(paths) == 1)


def test_copies_are_ranked_as_they_arrive_at_the_master() -> None:
    """The second copy of ap has delivered first in all intervals, so the first one is worth less."""
    rig = Rig("6")
    first, second, _ = GATEWAYS["ap"]
    for interval in range(20):
        assert rig.paths.arrived("ap", second.id, interval, 100)
        assert not rig.paths.arrived("ap", first.id, interval, 100)
        assert rig.paths.arrived("ap", second.id, interval, 100), "another part of the first copy"
    assert [rig.paths.first_share("ap", each.id) for each in (first, second)] == [0.0, 1.0]
    assert rig.paths.first_share("eu", first.id) is None
    slow = Rig("1")
    for interval in range(20):
        slow.paths.arrived("ap", second.id, interval, 100)
        slow.paths.arrived("ap", first.id, interval, 100)
    assert (first.id, MASTER.id) in slow.look()
    assert (second.id, MASTER.id) in Rig("1").look()


def test_a_requested_path_is_live_for_a_while_and_then_as_long_as_the_bound_permits() -> None:
    rig = Rig("6.3")
    path = next(iter(sorted(rig.look())))
    rig.paths.revive(*path)
    assert path not in rig.paths.idle
    assert rig.ratio > 6.3 - 1
    rig.context.now += REVIVED_S / 2
    assert path not in rig.look(), "it was requested in the last five minutes"
    rig.context.now += REVIVED_S
    assert path in rig.look()


def test_below_the_bound_the_path_with_the_most_requested_bytes_becomes_live() -> None:
    """V-C: third copies of the far groups cost 13 ms each to the master, and the bound has 18 ms left."""
    rig = Rig("4.7", layout_of(3))
    far = [(GATEWAYS[group][2].id, MASTER.id) for group in ("ap", "us")]
    assert set(far) < rig.look()
    for path in far:
        rig.paths.revive(*path)
    for group, most in (("ap", 500), ("us", 1000)):
        for agent, nbytes in zip(GATEWAYS[group], (10_000, 10_000, most), strict=True):
            rig.paths.arrived(group, agent.id, 1, nbytes)
    for agent in GATEWAYS["eu"]:
        rig.paths.arrived("eu", agent.id, 1, 10_000)
    assert not rig.look() & set(far), "both were requested in the last five minutes"
    rig.context.now += REVIVED_S
    assert rig.paths.idle & set(far) == {far[0]}
    found = rig.paths.cost(MASTER, AGENTS)
    assert found is not None
    assert found.is_kept


def test_without_a_bound_or_measurements_all_paths_are_live() -> None:
    rig = Rig()
    rig.paths = IdlePaths(rig.context, read_plan(TEXT.replace(" COST {}", "")), measured(), lambda: LAYOUT)
    assert rig.look() == frozenset()
    rig.paths = IdlePaths(rig.context, read_plan(TEXT.format("1")), RoundTrips(), lambda: LAYOUT)
    assert rig.look() == frozenset()
    found = rig.paths.cost(MASTER, AGENTS)
    assert found is not None
    assert (found.ratio, found.live, found.of) == (None, 18, 18)


def test_paths_of_another_layout_are_live() -> None:
    rig = Rig("1")
    assert rig.look()
    gateways = tuple(replace_id(each, 200 + at) for at, each in enumerate(LAYOUT.gateways))
    rig.layout = PathLayout("region", gateways, LAYOUT.sites)
    found = rig.paths.cost(MASTER, AGENTS)
    assert found is not None
    assert (found.live, found.of) == (18, 18)
    rig.layout = None
    assert rig.look() == frozenset()
    assert rig.paths.cost(MASTER, AGENTS) is None


def replace_id(gateway: Gateway, number: int) -> Gateway:
    return Gateway(gateway.group, Contact(bytes([number]) * 20, "host", 1, region=gateway.group))


def test_the_cheapest_path_of_each_group_counts_for_paths_1() -> None:
    latencies = measured().latencies({each.id: each.region for each in AGENTS})
    assert latencies is not None
    costs = path_costs(LAYOUT, MASTER, latencies, {"ap": 3.0})
    assert cost_of_one(LAYOUT, MASTER, costs) == pytest.approx(0.033 + 0.001 + 0.011)
    assert PART_BYTES > 0
