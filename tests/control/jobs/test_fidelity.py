"""Output fidelity: the share of the expected records inside a result, and when a member reports its rate."""

from __future__ import annotations

import math

import pytest

from elfmesh.control.jobs.fidelity import CHANGE, RATE_MAX, SAY_AGAIN_S, Rates, UsualRate
from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, EXPIRED, FILTERED, LATE, OVERFLOW, SHED


def counts(**records: int) -> list[int]:
    places = {
        "contributed": CONTRIBUTED,
        "filtered": FILTERED,
        "shed": SHED,
        "overflow": OVERFLOW,
        "late": LATE,
        "expired": EXPIRED,
    }
    found = [0] * len(BUCKETS)
    for name, number in records.items():
        found[places[name]] = number
    return found


def rates(**reported: float) -> Rates:
    known = Rates()
    for name, records in reported.items():
        known.reported(int(name.removeprefix("m")), records)
    return known


@pytest.mark.parametrize(
    ("known", "missing", "inside", "share"),
    [
        ({}, 0b0000, {}, 1.0),
        ({}, 0b0001, {}, 0.75),
        ({}, 0b1111, {}, 0.0),
        ({"m0": 70, "m1": 10, "m2": 10, "m3": 10}, 0b0001, {}, 0.3),
        ({"m0": 70, "m1": 10, "m2": 10, "m3": 10}, 0b1110, {}, 0.7),
        ({"m0": 30, "m1": 10}, 0b0100, {}, 0.75),  # members without a rate count as the mean of 20
        ({"m0": 0, "m1": 0, "m2": 0, "m3": 0}, 0b0001, {}, 0.75),
        ({"m0": 0, "m1": 5, "m2": 5, "m3": 0}, 0b1001, {}, 1.0),
        ({}, 0b0000, {"contributed": 60, "filtered": 20, "shed": 15, "overflow": 5}, 0.8),
        ({}, 0b0000, {"shed": 5}, 0.0),
        ({}, 0b0000, {"contributed": 10, "late": 90, "expired": 90}, 1.0),
        ({}, 0b0011, {"contributed": 50, "shed": 50}, 0.25),
    ],
)
def test_the_share_is_by_rate_and_by_what_was_dropped(
    known: dict[str, float], missing: int, inside: dict[str, int], share: float
) -> None:
    assert rates(**known).fidelity(0b1111, missing, counts(**inside)) == pytest.approx(share)


@pytest.mark.parametrize(("joined", "share"), [(1, 0.5), (2, 0.25), (3, 0.125)])
def test_every_joined_input_lacks_the_same_share(joined: int, share: float) -> None:
    assert rates().fidelity(0b11, 0b01, counts(), joined) == share


@pytest.mark.parametrize("nonsense", [-1.0, math.nan, math.inf, RATE_MAX * 2])
def test_a_rate_that_cannot_be_is_not_believed(nonsense: float) -> None:
    known = rates(m0=10, m1=10)
    known.reported(0, nonsense)
    assert known.fidelity(0b11, 0b01, counts()) == 0.5


def test_the_greatest_rates_keep_the_share_a_number() -> None:
    known = rates(m0=RATE_MAX, m1=RATE_MAX)
    assert known.fidelity(0b11, 0b01, counts()) == 0.5


def test_a_burst_of_one_interval_moves_the_usual_rate_by_a_fifth_of_it() -> None:
    usual = UsualRate()
    for records in (100, 100, 600):
        usual.add(records)
    assert usual.records == 200.0


def test_a_rate_is_reported_when_it_has_changed_and_not_too_often() -> None:
    usual = UsualRate()
    assert usual.news(1, 0.0) is None, "there is none yet"
    usual.add(100)
    assert usual.news(1, 0.0) == 100.0
    usual.add(1000)
    assert usual.news(1, SAY_AGAIN_S - 0.1) is None, "so soon after the last report"
    assert usual.news(1, SAY_AGAIN_S) == usual.records
    assert usual.news(1, 10 * SAY_AGAIN_S) is None, "it has not changed"


def test_a_small_change_is_not_reported_but_a_new_master_is_told() -> None:
    usual = UsualRate()
    usual.add(100)
    usual.news(1, 0.0)
    usual.records = 100 * (1 + CHANGE)
    assert usual.news(1, SAY_AGAIN_S) is None
    assert usual.news(2, SAY_AGAIN_S) == usual.records
    usual.records = 100 * (1 + CHANGE) * (1 + CHANGE) + 1
    assert usual.news(2, 2 * SAY_AGAIN_S) == usual.records
