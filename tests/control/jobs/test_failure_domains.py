"""Labels that contain each other, and how agents are spread over them."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.jobs.failure_domains import (
    best_addition,
    best_exchange,
    crowding,
    domain,
    domain_text,
    share,
)
from elfmesh.machine import Contact


def agent(number: int, rack: str = "", region: str = "") -> Contact:
    return Contact(bytes([number]) * 20, "sim", number, rack=rack, region=region)


EU1, EU1B, EU2, US1, AP1 = (
    agent(number, rack, region)
    for number, (region, rack) in enumerate(
        [("eu", "r1"), ("eu", "r1"), ("eu", "r2"), ("us", "r1"), ("ap", "r1")], 1
    )
)
PLAIN = agent(9)


def test_a_rack_lies_within_its_region() -> None:
    assert domain(EU1, "region") == ("eu",)
    assert domain(EU1, "rack") == ("eu", "r1") != domain(US1, "rack")
    assert [domain_text(each) for each in (EU1, PLAIN, agent(8, "r1"))] == ["eu/r1", "", "r1"]


@pytest.mark.parametrize(
    ("one", "other", "label", "shared"),
    [
        (EU1, EU1B, "rack", True),
        (EU1, EU2, "rack", False),
        (EU1, EU2, "region", True),
        (EU1, US1, "rack", False),
        (EU1, US1, "region", False),
        (PLAIN, agent(8), "rack", False),
        (PLAIN, EU1, "region", False),
        (EU1, agent(8, "r1"), "rack", True),
        (agent(8, "r1"), EU1, "rack", True),
    ],
)
def test_two_agents_share_a_domain_only_where_both_name_it(
    one: Contact, other: Contact, label: str, shared: bool
) -> None:
    assert share(one, other, label) == shared


def test_regions_count_before_racks_and_the_nearest_before_the_others() -> None:
    assert best_addition([EU1], [EU1B, EU2, US1, AP1]) == [US1, AP1, EU2, EU1B]
    assert best_addition([], [EU1B, EU2]) == [EU1B, EU2]
    assert best_exchange([EU1, EU1B, EU2], [AP1, US1]) == (EU1B, AP1)
    assert best_exchange([EU1, US1, AP1], [EU2, EU1B]) is None


def test_agents_without_labels_stay_where_they_are() -> None:
    assert best_exchange([agent(1), agent(2), agent(3)], [agent(4), agent(5)]) is None


def test_five_agents_are_spread_evenly_over_three_racks() -> None:
    one, two, three = (agent(place, "a") for place in (1, 2, 3))
    voters = [one, two, three, agent(4, "b"), agent(5, "c")]
    assert best_exchange(voters, [agent(6, "c")]) == (three, agent(6, "c"))
    assert crowding([one, two, agent(4, "b"), agent(5, "c"), agent(6, "c")]) == (25, 9)


def test_repeated_exchanges_end_and_leave_no_rack_with_a_majority() -> None:
    rng = random.Random(1)
    for _ in range(200):
        fleet = [
            agent(place + 1, f"r{rng.randrange(3)}", rng.choice(("", "eu", "us"))) for place in range(12)
        ]
        voters, others = fleet[:3], fleet[3:]
        steps = 0
        while (found := best_exchange(voters, others)) is not None:
            goes, comes = found
            before = crowding(voters)
            voters = [each for each in voters if each != goes] + [comes]
            others = [each for each in others if each != comes] + [goes]
            assert crowding(voters) < before
            steps += 1
        assert steps <= 6
        domains = {domain(each, "rack") for each in fleet}
        if len(domains) >= 3:
            assert len({domain(each, "rack") for each in voters}) == 3
