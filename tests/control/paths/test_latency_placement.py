"""Gateways and sites by Algorithm 5 and its improvement, on an example that is computed by hand."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.paths.latency_placement import (
    CANDIDATES,
    LatencyPlacement,
    better_placement,
    expectation,
)
from elfmesh.control.paths.round_trips import RoundTrips
from elfmesh.machine import Contact


def agent(number: int, region: str) -> Contact:
    return Contact(bytes([number]) * 20, "h", 1, 1, "", region)


MASTER = agent(1, "eu")
EU, US, AP = (
    [MASTER, agent(2, "eu"), agent(3, "eu")],
    [agent(4, "us"), agent(5, "us")],
    [agent(6, "ap"), agent(7, "ap")],
)
ALL = [*EU, *US, *AP]
AT_MS = dict(zip((each.id for each in ALL), (0, 1, 5, 40, 90, 100, 180), strict=True))
"""Milliseconds on a line."""

BAD = PathLayout(
    "region",
    (Gateway("ap", AP[1]), Gateway("eu", EU[2]), Gateway("us", US[1])),
    (MASTER, US[1], AP[1]),
)
GOOD = {"ap": (AP[0].id,), "eu": (EU[1].id,), "us": (US[0].id,)}


def measured(*left_out: Contact) -> RoundTrips:
    trips = RoundTrips()
    for one in ALL:
        if one not in left_out:
            us = [
                (each.id, max(1, 2000 * abs(AT_MS[one.id] - AT_MS[each.id])))
                for each in ALL
                if each is not one
            ]
            trips.report(one.id, us, 0.0)
    return trips


def placed(layout: PathLayout = BAD, *, without: frozenset[bytes] = frozenset()) -> LatencyPlacement | None:
    everyone = {each.id for each in ALL} - without
    about = layout, MASTER, ALL, measured(), everyone - {MASTER.id}, everyone
    return better_placement(*about, random.Random(0))


def test_gateways_and_sites_move_to_the_agents_with_the_shortest_ways() -> None:
    """In us, agent 4 is 40 ms from the master and agent 5 is 90 ms; in ap, agent 6 is nearer than agent 7."""
    found = placed()
    assert found is not None
    assert found.gateways == GOOD
    assert set(found.sites) == {US[0].id, AP[0].id}
    assert found.cost < found.before
    sites = [0, 40, 100]
    gateways = {"eu": 1, "us": 40, "ap": 100}
    within = sum(abs(AT_MS[each.id] - gateways[each.region]) for each in ALL)
    between = sum(abs(gateway - site) for gateway in gateways.values() for site in sites)
    assert found.cost == pytest.approx((within + between) / 1000, abs=1e-5)


def test_an_agent_that_may_not_be_chosen_is_not_placed_however_near_it_is() -> None:
    found = placed(without=frozenset({US[0].id}))
    assert found is not None
    assert (found.gateways["us"], US[0].id in found.sites) == ((US[1].id,), False)


def test_a_group_without_a_candidate_or_a_job_without_measurements_keeps_its_layout() -> None:
    assert placed(without=frozenset(each.id for each in US)) is None
    everyone = {each.id for each in ALL}
    about = BAD, MASTER, ALL, RoundTrips(), everyone, everyone
    assert better_placement(*about, random.Random(0)) is None


def test_a_single_site_is_the_master_and_only_gateways_move() -> None:
    found = placed(PathLayout("region", BAD.gateways, ()))
    assert found is not None
    assert (found.gateways, found.sites) == (GOOD, ())


def test_of_large_groups_the_nearest_members_and_those_of_the_layout_are_considered() -> None:
    far = [agent(number, "us") for number in range(50, 50 + 3 * CANDIDATES)]
    trips = measured()
    for number, each in enumerate(far):
        trips.report(each.id, [(other.id, 2_000_000 + number) for other in ALL], 0.0)
    members = [*ALL, *far]
    everyone = {each.id for each in members}
    layout = PathLayout("region", (*BAD.gateways[:2], Gateway("us", far[-1])), BAD.sites)
    about = layout, MASTER, members, trips, everyone - {MASTER.id}, everyone
    found = better_placement(*about, random.Random(0))
    assert found is not None
    assert found.gateways["us"] == (US[0].id,)


def test_the_expectation_is_the_sum_of_the_legs_on_the_close_path() -> None:
    """Agent 7 is the last one: 80 ms to the gateway at 100, which is 100 from site 0 and 60 from site 1."""
    layout = PathLayout(
        "region", tuple(Gateway(group, _of(*GOOD[group])) for group in GOOD), (MASTER, US[0], AP[0])
    )
    found = expectation(layout, MASTER, ALL, measured())
    assert found is not None
    arrived = {0: 180, 40: 140, 100: 180}
    """At site 2 the last is agent 5 or the gateway's own group: 50 + 60 = 110 < 80 + 0; eu: 4 + 99 = 103."""
    arrived[100] = max(80, 50 + 60, 4 + 99)
    voted = [sorted(arrived[at] + abs(at - to) for at in arrived)[1] for to in arrived]
    assert found.by_votes == pytest.approx(max(voted) / 1000, abs=1e-5)
    assert found.by_master == pytest.approx((180 + 2 * 40 + 100) / 1000, abs=1e-5)
    assert found.measured == found.of
    assert expectation(layout, MASTER, ALL, RoundTrips()) is None
    few = RoundTrips()
    few.report(MASTER.id, [(US[0].id, 80_000)], 0.0)
    some = expectation(layout, MASTER, ALL, few)
    assert some is not None
    assert 0 < some.measured < some.of == found.of


def _of(agent_id: bytes) -> Contact:
    return next(each for each in ALL if each.id == agent_id)
