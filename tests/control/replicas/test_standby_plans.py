"""The plan of standbys follows the roster and the rates, and noise does not move it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Participant, RosterEntry
from elfmesh.control.replicas.shipping_costs import ShippingCosts
from elfmesh.control.replicas.standby_plans import PLAN_S, StandbyPlans
from elfmesh.machine import Contact
from tests.control.master.stub_term import StubTerm, other
from tests.control.member.support import TEXT


def agent(number: int, rack: str) -> Contact:
    return replace(other(number), rack=rack)


@dataclass
class State:
    standbys: tuple[int, ...] | None = None


def planned(rig: Rig) -> set[int]:
    return {*(rig.state.standbys or ())}


class Rig:
    """A job of two members in each of two racks; member 0 has most records."""

    def __init__(self, clause: str = "STANDBY 1", standbys: tuple[int, ...] | None = None) -> None:
        contacts = [agent(10, "r1"), agent(11, "r1"), agent(12, "r2"), agent(13, "r2")]
        entries = tuple(RosterEntry(at, each, f"m{at}", 0) for at, each in enumerate(contacts))
        self.term = StubTerm(book=RosterBook(entries, 3))
        self.state, self.rates = State(standbys), Rates()
        plan = read_plan(TEXT.replace("DEADLINE", f"{clause} DEADLINE"))
        self.costs = ShippingCosts()
        self.plans = StandbyPlans(self.term, self.state, plan, self.rates, self.costs)

    def report(self, *records: float) -> None:
        for number, each in enumerate(records):
            self.rates.reported(number, [each])

    def later(self) -> bool:
        self.term.context.now += PLAN_S
        return self.plans.upkeep()


def test_a_plan_is_made_for_the_roster_and_improved_when_rates_are_known() -> None:
    rig = Rig()
    assert rig.plans.upkeep()
    assert (rig.state.standbys, rig.term.book.version) == ((0,), 4)
    rig.report(1, 1, 1, 9)
    assert not rig.plans.upkeep(), "it was planned a moment ago"
    assert not rig.later(), "the load may still move"
    assert rig.later()
    assert (rig.state.standbys, rig.term.book.version) == ((3,), 5)


def test_while_the_load_moves_the_plan_waits_and_then_changes_once() -> None:
    rig = Rig("STANDBY 2")
    rig.report(30, 20, 1, 1)
    rig.plans.upkeep()
    assert planned(rig) == {0, 1}
    changed = []
    for records in ((20, 14, 10, 8), (8, 6, 22, 18), (2, 2, 30, 20), (1, 1, 31, 21)):
        rig.report(*records)
        changed.append(rig.later())
    assert changed == [False, False, True, False]
    assert planned(rig) == {2, 3}


def test_noise_of_the_rates_moves_no_chain() -> None:
    rig = Rig()
    rig.report(100, 10, 99, 10)
    rig.plans.upkeep()
    assert rig.state.standbys == (0,)
    rig.report(99, 10, 100, 10)
    assert not rig.later()
    assert rig.state.standbys == (0,)


def test_a_new_master_keeps_the_plan_until_it_knows_the_rates() -> None:
    rig = Rig(standbys=(3,))
    rig.report(9)
    assert not rig.later()
    assert rig.state.standbys == (3,)
    rig.report(9, 1, 1, 1)
    assert rig.later()
    assert rig.state.standbys == (0,)


def test_a_plan_with_a_former_member_is_replaced_at_once() -> None:
    rig = Rig("STANDBY '50 %'")
    rig.report(9, 1, 9, 1)
    rig.plans.follow_roster()
    assert planned(rig) == {0, 2}
    rig.term.book.evict(0, 8)
    rig.plans.follow_roster()
    assert planned(rig) == {2}, "three members, and half of them is one"
    rig.term.book.add((Participant(agent(14, "r1"), "m4"),), 0)
    rig.plans.follow_roster()
    assert {2} < planned(rig), "a standby more moves no chain"


def test_keeps_is_reached_again_after_the_rates_have_changed() -> None:
    rig = Rig("STANDBY KEEPS 0.6")
    rig.report(5, 5, 5, 5)
    rig.plans.follow_roster()
    assert planned(rig) == {0, 2}
    rig.report(1, 9, 5, 5)
    assert rig.later()
    assert rig.plans.scenarios().kept(planned(rig))[("", "r1")] >= 0.6


def test_the_first_standby_measures_what_one_costs_and_the_budget_is_then_spent() -> None:
    rig = Rig("STANDBY '1 KB/s'")
    assert rig.plans.upkeep()
    assert rig.state.standbys == (0,), "no cost is known"
    rig.costs.shipped(0, 250)
    assert rig.later()
    assert planned(rig) == {0, 1, 2}, "each of the others counts as much, and a tenth of the rate is left"


def test_a_plan_above_its_rate_is_replaced_at_once_and_the_dear_member_stays_out() -> None:
    rig = Rig("STANDBY '1 KB/s'")
    for number in range(4):
        rig.costs.sealed(number, 1250)
    rig.report(9, 1, 9, 1)
    rig.plans.upkeep()
    assert len(planned(rig)) == 1, "four times 1,250 bytes in 10 s are 500 bytes per second"
    dear = next(iter(planned(rig)))
    rig.costs.shipped(dear, 980)
    assert not rig.later(), "it is within the rate"
    rig.costs.shipped(dear, 2000)
    rig.plans.follow_roster()
    assert planned(rig), "the others fit"
    assert dear not in planned(rig)
    assert not rig.later()


def test_all_members_ship_without_a_budget_and_none_without_the_clause() -> None:
    for clause in ("STANDBY ALL", ""):
        rig = Rig(clause, standbys=(1,))
        rig.plans.follow_roster()
        assert rig.state.standbys is None
