"""Which members are worth a standby: against all choices, and cases counted by hand."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.standby_choice import DomainLosses, choose, domains_of, room_of
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.ql.expressions.standby_budget import StandbyBudget
from elfmesh.ql.plan.fidelity_shape import ONE_INPUT, FidelityShape
from tests.control.contexts import new_context

JOIN = FidelityShape("join", sources=(FidelityShape("input", 0), FidelityShape("input", 1)))


def scenarios(rows: list[tuple[str, list[float]]], shape: FidelityShape = ONE_INPUT) -> DomainLosses:
    rates = Rates()
    for number, (_, records) in enumerate(rows):
        rates.reported(number, records)
    return DomainLosses({number: (rack,) for number, (rack, _) in enumerate(rows)}, rates, shape)


def least(of: DomainLosses, chosen: tuple[int, ...]) -> float:
    return min(of.kept(chosen).values())


def members(count: float) -> StandbyBudget:
    return StandbyBudget("members", count)


@pytest.mark.parametrize("seed", range(40))
def test_a_choice_for_one_input_equals_the_best_of_all_choices(seed: int) -> None:
    dice = Random(seed)
    of = scenarios([(dice.choice("abc"), [dice.randint(0, 9)]) for _ in range(8)])
    before = 0.0
    for count in range(9):
        chosen = choose(of, members(count))
        assert len(chosen) <= count
        best = max(least(of, each) for each in combinations(range(8), count))
        assert least(of, chosen) == pytest.approx(best)
        assert before <= least(of, chosen)
        before = least(of, chosen)


def test_the_heaviest_member_of_the_heaviest_rack_comes_first() -> None:
    of = scenarios([("a", [10.0]), ("a", [30.0]), ("b", [20.0]), ("b", [5.0])])
    assert choose(of, members(1)) == (1,)
    assert of.kept(()) == {("a",): pytest.approx(25 / 65), ("b",): pytest.approx(40 / 65)}
    assert choose(of, members(2)) == (1, 2)


def test_a_join_that_has_lost_an_input_takes_a_member_of_each_lost_input_together() -> None:
    of = scenarios([("a", [8.0, 0.0]), ("a", [0.0, 8.0]), ("b", [1.0, 1.0])], JOIN)
    assert of.kept(())[("a",)] == pytest.approx(1 / 81)
    alone = scenarios([("a", [8.0, 0.0]), ("a", [0.0, 8.0]), ("b", [0.0, 0.0])], JOIN)
    assert choose(alone, members(1)) == (), "one member alone raises nothing"
    assert choose(alone, members(2)) == (0, 1)


def test_keeps_takes_no_more_members_than_it_needs() -> None:
    of = scenarios([("a", [1.0])] * 4 + [("b", [1.0])] * 4)
    assert len(choose(of, StandbyBudget("keeps", 0.75))) == 4
    assert choose(of, StandbyBudget("keeps", 0.5)) == ()
    assert len(choose(of, StandbyBudget("keeps", 1.0))) == 8


@pytest.mark.parametrize(
    ("budget", "room"),
    [
        (StandbyBudget("share", 0.25), 2),
        (StandbyBudget("share", 0.09), 0),
        (members(50), 10),
        (StandbyBudget("all"), 10),
        (StandbyBudget("keeps", 0.9), 10),
    ],
)
def test_a_share_is_rounded_down_and_no_budget_exceeds_the_roster(budget: StandbyBudget, room: int) -> None:
    assert room_of(budget, 10) == room


def test_members_without_records_have_the_same_weight_and_none_are_worth_nothing() -> None:
    assert len(choose(scenarios([("a", [0.0]), ("b", [0.0])]), members(1))) == 1
    assert choose(DomainLosses({}, Rates(), ONE_INPUT), members(3)) == ()


def test_hosts_are_the_domains_where_one_rack_has_all_members_or_a_member_has_none() -> None:
    def entry(number: int, rack: str, region: str = "") -> RosterEntry:
        contact = replace(new_context(number, rack).me, region=region)
        return RosterEntry(number, contact, f"m{number}")

    one = domains_of([entry(1, "r1"), entry(2, "r1")], "rack")
    assert len({*one.values()}) == 2
    some = domains_of([entry(1, "r1"), entry(2, "r1"), entry(3, "")], "rack")
    assert some[1] == some[2] != some[3]
    regions = domains_of([entry(1, "r1", "eu"), entry(2, "r2", "eu"), entry(3, "r1", "us")], "region")
    assert regions[1] == regions[2] != regions[3]


def test_costs_are_weighed_and_the_room_is_never_exceeded() -> None:
    of = scenarios([("a", [10.0]), ("a", [9.0]), ("a", [9.0]), ("b", [1.0])])
    costs = {0: 100.0, 1: 40.0, 2: 40.0, 3: 10.0}
    assert choose(of, StandbyBudget("rate", 100), costs, 100.0) == (1, 2, 3), "18 records for 80, then rack b"
    assert choose(of, StandbyBudget("rate", 100), costs, 39.0) == (3,), "none of rack a fits"


@pytest.mark.parametrize("seed", range(20))
def test_a_choice_by_cost_is_near_the_best_of_all_choices_within_its_room(seed: int) -> None:
    dice = Random(seed)
    of = scenarios([(dice.choice("abc"), [dice.randint(1, 9)]) for _ in range(8)])
    costs = {number: float(dice.randint(1, 9)) for number in range(8)}
    for room in (5.0, 12.0, 25.0, 99.0):
        chosen = choose(of, StandbyBudget("rate", room), costs, room)
        assert sum(costs[each] for each in chosen) <= room
        within = [
            each
            for count in range(9)
            for each in combinations(range(8), count)
            if sum(costs[number] for number in each) <= room
        ]
        assert least(of, chosen) >= 0.8 * max(least(of, each) for each in within)
