"""Output fidelity: the share of the expected records inside a result, and when a member reports its rate."""

from __future__ import annotations

import math

import pytest

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.fidelity import CHANGE, RATE_MAX, SAY_AGAIN_S, Rates, UsualRate
from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, EXPIRED, FILTERED, LATE, OVERFLOW, SHED
from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.topology_build import topology_of
from elfmesh.ql.plan.fidelity_shape import FidelityShape
from tests.control.planning.topologies import operator


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
        known.reported(int(name.removeprefix("m")), (records,))
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
        ({}, 0b0011, {"filtered": 50, "shed": 50}, 0.25),
    ],
)
def test_the_share_is_by_rate_and_by_what_was_dropped(
    known: dict[str, float], missing: int, inside: dict[str, int], share: float
) -> None:
    assert rates(**known).fidelity(0b1111, missing, counts(**inside)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("known", "contributed", "passed", "share"),
    [
        ({"m0": 100}, 50, 0.5, 0.5),
        ({"m0": 100}, 0, 0.0, 0.0),
        ({"m0": 100}, 90, 0.5, 90 / 140),
        ({"m0": 100}, 30, 1.5, 1.0),
        ({"m1": 60, "m2": 40}, 50, 0.5, 2 / 3),  # a member without a rate counts as the mean
        ({}, 0, 0.25, 0.25),
    ],
)
def test_the_share_of_a_member_that_its_prefix_contains(
    known: dict[str, float], contributed: int, passed: float, share: float
) -> None:
    assert rates(**known).of_prefix(0, 0b111, contributed, passed) == pytest.approx(share)


def test_a_prefix_raises_the_share_of_a_missing_member() -> None:
    known = rates(m0=70, m1=10, m2=10, m3=10)
    assert known.fidelity(0b1111, 0b0001, counts(), partly={0: 0.5}) == pytest.approx(0.65)
    assert known.fidelity(0b1111, 0b0001, counts(), partly={0: 1.0}) == pytest.approx(1.0)


JOIN = FidelityShape("join", sources=(FidelityShape("input", 0), FidelityShape("input", 1)))
UNION = FidelityShape("union", sources=JOIN.sources)


def by_input(**reported: tuple[float, ...]) -> Rates:
    known = Rates()
    for name, records in reported.items():
        known.reported(int(name.removeprefix("m")), records)
    return known


@pytest.mark.parametrize(
    ("known", "shape", "share"),
    [
        (by_input(m0=(90, 10), m1=(10, 90)), JOIN, 0.1 * 0.9),
        (by_input(m0=(90, 10), m1=(10, 190)), UNION, (10 + 190) / 300),
        (by_input(m0=(0, 10), m1=(50, 10)), JOIN, 1.0 * 0.5),  # the missing member has nothing of one input
        (by_input(m0=(10, 0), m1=(0, 10)), JOIN, 0.0),  # one input is lost whole
        (by_input(m0=(10, 0), m1=(0, 10)), UNION, 0.5),
        (by_input(m0=(5,), m1=(15,)), JOIN, 0.75**2),  # of an earlier release: one number for every input
        (by_input(m1=(30, 10)), JOIN, 0.5**2),  # a member without rates counts as the mean
    ],
)
def test_every_input_has_its_own_rates(known: Rates, shape: FidelityShape, share: float) -> None:
    assert known.fidelity(0b11, 0b01, counts(), shape) == pytest.approx(share)


def test_shedding_counts_once_however_many_inputs_a_statement_has() -> None:
    known = by_input(m0=(1, 1), m1=(1, 1))
    assert known.fidelity(0b11, 0, counts(contributed=50, shed=50), JOIN) == 0.5
    assert known.fidelity(0b11, 0b01, counts(contributed=50, shed=50), JOIN) == 0.5 * 0.25


def test_the_formula_is_that_of_the_planners() -> None:
    """A join whose inputs have a source task for each member: Eq. 2 with the members' rates."""
    members = {f"m{at}": (3.0 + at, 10.0 - at) for at in range(4)}
    topology = topology_of(
        {
            "operators": [
                operator("a", [a for a, _ in members.values()]),
                operator("b", [b for _, b in members.values()]),
                operator("j", 1, ("a", "merge"), ("b", "merge"), correlated=True),
            ]
        }
    )
    alive = [at for at, name in enumerate(topology.names) if not name.endswith(".02")]
    assert by_input(**members).fidelity(0b1111, 0b0100, counts(), JOIN) == pytest.approx(
        fidelity(topology, alive)
    )


def test_fidelity_is_monotone_in_members() -> None:
    known = by_input(m0=(1, 9), m1=(5, 0), m2=(4, 2), m3=(0, 0))
    for shape in (JOIN, UNION):
        for missing in range(16):
            for more in range(4):
                less = known.fidelity(0b1111, missing | 1 << more, counts(), shape)
                assert less <= known.fidelity(0b1111, missing, counts(), shape) + 1e-12


@pytest.mark.parametrize("nonsense", [-1.0, math.nan, math.inf, RATE_MAX * 2])
def test_a_rate_that_cannot_be_is_not_believed(nonsense: float) -> None:
    known = rates(m0=10, m1=10)
    known.reported(0, (10, nonsense))
    assert known.fidelity(0b11, 0b01, counts()) == 0.5


def test_the_greatest_rates_keep_the_share_a_number() -> None:
    known = rates(m0=RATE_MAX, m1=RATE_MAX)
    assert known.fidelity(0b11, 0b01, counts()) == 0.5


def test_a_burst_of_one_interval_moves_the_usual_rate_by_a_fifth_of_it() -> None:
    usual = UsualRate()
    for records in (100, 100, 600):
        usual.add((records,))
    assert usual.records == (200.0,)


def test_a_rate_is_reported_when_it_has_changed_and_not_too_often() -> None:
    usual = UsualRate()
    assert usual.news(1, 0.0) is None, "there is none yet"
    usual.add((100,))
    assert usual.news(1, 0.0) == (100.0,)
    usual.add((1000,))
    assert usual.news(1, SAY_AGAIN_S - 0.1) is None, "so soon after the last report"
    assert usual.news(1, SAY_AGAIN_S) == usual.records
    assert usual.news(1, 10 * SAY_AGAIN_S) is None, "it has not changed"


def test_a_small_change_is_reported_only_to_a_new_master() -> None:
    usual = UsualRate()
    usual.add((100,))
    usual.news(1, 0.0)
    usual.records = (100 * (1 + CHANGE),)
    assert usual.news(1, SAY_AGAIN_S) is None
    assert usual.news(2, SAY_AGAIN_S) == usual.records
    usual.records = (100 * (1 + CHANGE) * (1 + CHANGE) + 1,)
    assert usual.news(2, 2 * SAY_AGAIN_S) == usual.records


def test_another_number_of_inputs_begins_again() -> None:
    usual = UsualRate()
    usual.add((100,))
    assert usual.news(1, 0.0) == (100.0,)
    usual.add((40, 60))
    assert usual.news(1, 0.1) == (40.0, 60.0)


def test_the_usual_size_of_a_contribution_is_that_of_all_its_partitions() -> None:
    usual = UsualRate()
    first = tuple(Contribution(at, tuple(counts(contributed=10)), b"x" * 30) for at in (0, 1))
    usual.add_all((first, tuple(Contribution(at, tuple(counts()), b"x" * 70) for at in (0, 1))), {})
    assert (usual.records, usual.nbytes) == ((10.0,), 100.0)
    usual.add_all(((Contribution(2, tuple(counts(contributed=10)), b"x" * 600),),), {2: (10,)})
    assert usual.nbytes == 200.0
