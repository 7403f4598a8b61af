"""What standbys cost: measured, estimated, and the mean where nothing is known."""

from __future__ import annotations

import pytest

from elfmesh.control.replicas.shipping_costs import LEAST, ShippingCosts

SLIDE_US = 10_000_000


def test_what_a_member_ships_takes_the_place_of_the_estimate_from_what_it_seals() -> None:
    costs = ShippingCosts()
    assert costs.known(3, SLIDE_US) is None
    costs.sealed(3, 1000.0)
    assert costs.known(3, SLIDE_US) == 400.0
    costs.shipped(3, 100.0)
    assert costs.known(3, SLIDE_US) == 100.0
    costs.shipped(3, 200.0)
    assert costs.known(3, SLIDE_US) == pytest.approx(120.0), "one report changes it by a fifth"
    costs.shipped(3, 0.0)
    costs.sealed(3, 9000.0)
    assert costs.known(3, SLIDE_US) == pytest.approx(120.0)


def test_a_member_without_a_known_cost_has_the_mean_of_the_others() -> None:
    costs = ShippingCosts()
    assert costs.estimates([1, 2], SLIDE_US, 900.0) == {1: 900.0, 2: 900.0}, "one measures it first"
    costs.shipped(1, 100.0)
    costs.sealed(2, 750.0)
    assert costs.estimates([1, 2, 3], SLIDE_US, 900.0) == {1: 100.0, 2: 300.0, 3: 200.0}


def test_a_cost_is_never_zero() -> None:
    costs = ShippingCosts()
    costs.sealed(1, 0.0)
    assert costs.known(1, SLIDE_US) is None, "an earlier release does not state it"
    costs.sealed(1, 0.001)
    assert costs.known(1, SLIDE_US) == LEAST
