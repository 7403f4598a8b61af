"""The plan of standbys of one term: which members ship their open panes (STANDBY with a budget).

Owns when the plan changes. `jobs.standby_choice` chooses the members, and each member chooses its standby.

Invariants: a plan names members of the roster, and no more than the budget permits. A plan that breaks this
is replaced at once. Any other plan is replaced after most members have reported their rates, so that a new
master does not move chains, and only if no member loses its standby, the least fidelity after the loss of a
domain rises by `GAIN`, or the plan does not reach KEEPS or has needless members. A plan for a gain waits
until the load has moved, so that each chain moves once. A new plan uses `ROOM` of a rate, so that noise of
the costs ends no chain. A change is a change of the
roster's version, so that members and successors receive it as any other.

Paper: PPA V-C, plan adaptation, which the paper leaves open.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.standby_choice import DomainLosses, choose, domains_of, room_of
from elfmesh.control.replicas.shipping_costs import ShippingCosts
from elfmesh.safeguards import safeguard

GAIN = 0.01
PLAN_S = 20.0
"""How often the plan follows the rates."""

ROOM = 0.9
"""Share of a budget in bytes per second that a new plan may use."""


class PlannedRoster(Protocol):
    """The term whose members are planned for."""

    @property
    def context(self) -> Context: ...

    @property
    def book(self) -> RosterBook: ...


class StandbyState(Protocol):
    """The terms have the plan; None: all members ship, if the job has STANDBY."""

    standbys: tuple[int, ...] | None


class StandbyPlans:
    """Keeps the plan of a job with a budget of standbys.

    Args:
        term: of the master.
        state: has the plan that is in force.
        rates: usual records of the members.
        costs: of their standbys.
    """

    def __init__(
        self, term: PlannedRoster, state: StandbyState, plan: JobPlan, rates: Rates, costs: ShippingCosts
    ) -> None:
        self._term, self._state, self._plan, self._rates, self._costs = term, state, plan, rates, costs
        self._planned_at = float("-inf")
        self._found: tuple[int, ...] = ()

    @property
    def standbys(self) -> tuple[int, ...] | None:
        return self._state.standbys

    def scenarios(self) -> DomainLosses:
        """Return the losses of single domains, with the members and rates as they are now."""
        domains = domains_of(self._term.book.active, self._plan.standby_across)
        return DomainLosses(domains, self._rates, self._plan.shape)

    def follow_roster(self) -> None:
        """Plan for the members as they are now."""
        if self._plan.standby_s is None or self._plan.standbys.unit == "all":
            self._state.standbys = None
            return
        before, scenarios = self._state.standbys, self.scenarios()
        self._planned_at = self._term.context.now
        found = self._chosen(scenarios)
        if before is None or self._must_change(scenarios, before, found):
            self._state.standbys = found
        self._found = found

    def _chosen(self, scenarios: DomainLosses) -> tuple[int, ...]:
        budget = self._plan.standbys
        if budget.unit != "rate":
            return choose(scenarios, budget)
        room = ROOM * budget.amount
        return choose(
            scenarios, budget, self._costs.estimates(_members(scenarios), self._plan.slide_us, room), room
        )

    @safeguard("standbys-within-their-rate")
    def _exceeds_rate(self, standbys: tuple[int, ...]) -> bool:
        """Whether the standbys cost more than the budget in bytes per second, as far as costs are known."""
        budget = self._plan.standbys
        costs = (self._costs.known(each, self._plan.slide_us) or 0.0 for each in standbys)
        return budget.unit == "rate" and sum(costs) > budget.amount

    def _must_change(self, scenarios: DomainLosses, before: tuple[int, ...], found: tuple[int, ...]) -> bool:
        members = _members(scenarios)
        budget, fewer = self._plan.standbys, 10 * len(found) < 9 * len(before)
        if not {*before} <= {*members} or len(before) > room_of(budget, len(members)):
            return True
        if self._exceeds_rate(before) or (budget.unit == "rate" and {*before} < {*found}):
            return True  # costs become known one after the other
        if not self._knows_rates(members):
            return False
        has, would_have = _least(scenarios, before), _least(scenarios, found)
        if budget.unit == "keeps" and (has < budget.amount <= would_have or fewer):
            return True
        is_gain = self._is_gain(has, would_have) and self._is_settled(scenarios, would_have)
        return {*before} < {*found} or is_gain

    def _knows_rates(self, members: list[int]) -> bool:
        return 2 * sum(bool(self._rates.known(each)) for each in members) >= len(members)

    @staticmethod
    @safeguard("plan-changes-for-a-gain")
    def _is_gain(has: float, would_have: float) -> bool:
        return would_have >= has + GAIN

    @safeguard("plan-of-settled-rates")
    def _is_settled(self, scenarios: DomainLosses, would_have: float) -> bool:
        """Whether the choice of the time before is still as good; usual rates follow a load slowly."""
        return would_have < _least(scenarios, self._found) + GAIN

    @safeguard("plan-with-a-new-roster")
    def upkeep(self) -> bool:
        """Plan again from time to time; return whether the plan changes. Then the roster is another one."""
        if self._term.context.now - self._planned_at < PLAN_S:
            return False
        before = self._state.standbys
        self.follow_roster()
        if self._state.standbys == before:
            return False
        self._term.book.version += 1
        return True


def _members(scenarios: DomainLosses) -> list[int]:
    return [each for numbers in scenarios.members.values() for each in numbers]


def _least(scenarios: DomainLosses, standbys: tuple[int, ...]) -> float:
    return min(scenarios.kept(standbys).values(), default=1.0)
