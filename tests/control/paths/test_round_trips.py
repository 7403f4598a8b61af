"""Latencies follow from what members report, whatever they report."""

from __future__ import annotations

import pytest

from elfmesh.control.paths.round_trips import FRESH_S, TRIP_US_MAX, RoundTrips

A, B, C, D = (bytes([number]) * 20 for number in range(4))
GROUPS = {A: "eu", B: "eu", C: "us", D: "us"}


def test_a_latency_is_half_of_the_shortest_round_trip_that_either_end_reports() -> None:
    trips = RoundTrips()
    trips.report(A, [(B, 4000), (C, 90_000)], 0.0)
    trips.report(C, [(A, 80_000)], 0.0)
    assert (trips.between(A, B), trips.between(B, A), trips.between(A, C)) == (0.002, 0.002, 0.04)
    assert (trips.between(A, A), trips.between(B, C)) == (0.0, None)
    assert (trips.has_reported(A), trips.has_reported(B)) == (True, False)


@pytest.mark.parametrize("us", [0, TRIP_US_MAX + 1, (1 << 63) - 1])
def test_values_that_no_link_has_change_nothing(us: int) -> None:
    trips = RoundTrips()
    trips.report(A, [(B, 4000)], 0.0)
    trips.report(A, [(B, us), (A, 5)], 1.0)
    assert trips.between(A, B) == 0.002
    trips.report(B, [(A, us)], 1.0)
    assert (trips.between(A, B), trips.has_reported(B)) == (0.002, False)


def test_reports_of_former_members_and_old_ones_are_forgotten() -> None:
    trips = RoundTrips()
    for at, agent in ((0.0, A), (10.0, B), (10.0, C)):
        trips.report(agent, [(D, 1000)], at)
    trips.retain({A, B, D}, FRESH_S + 5)
    assert [trips.has_reported(each) for each in (A, B, C)] == [False, True, False]


def test_an_unmeasured_pair_has_the_median_of_its_groups_or_of_all() -> None:
    trips = RoundTrips()
    assert trips.latencies(GROUPS) is None
    trips.report(A, [(C, 80_000), (D, 60_000), (B, 2000)], 0.0)
    found = trips.latencies(GROUPS)
    assert found is not None
    assert (found.between(B, C), found.between(D, B)) == (0.035, 0.035)
    assert found.between(C, D) == 0.03, "no pair of the group is measured"
    assert found.between(C, C) == 0.0
    assert (found.is_measured(D, A), found.is_measured(B, C), found.is_measured(B, B)) == (True, False, True)
