"""Which members of a job are worth a standby: the objective is the loss of one failure domain.

Scenario `d`: all members of domain `d` are lost, except those with a standby outside it. Their value is the
output fidelity by usual rates, of what the members had read. The choice always helps the domain whose loss
leaves the least, with the member that raises this most per cost. If no single member does, as in a join that
has lost one input whole, it takes one member for each input that has nothing left. Pure functions.

Invariants: a choice never exceeds its budget, names no member twice, and depends on rates, costs, domains and
numbers only. Where costs are equal, the least fidelity is not smaller with a greater budget.

Paper: PPA III-B, Definition 2. Deviation: tasks of one domain fail together, not all tasks of the topology;
for one input and equal costs the choice is optimal, because the gains of a domain fall and the heaviest come
first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor

from elfmesh.control.jobs.failure_domains import domain
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.ql.expressions.standby_budget import StandbyBudget
from elfmesh.ql.plan.fidelity_shape import FidelityShape

TIE = 12
"""Decimal places at which values are compared, so that a choice does not depend on rounding."""

Domain = tuple[str, ...]
Costs = Mapping[int, float]


def domains_of(members: Sequence[RosterEntry], label: str) -> dict[int, Domain]:
    """Return the failure domain of each member; hosts of their own if one domain has all members."""
    known = {each.number: domain(each.contact, label) for each in members}
    hosts: dict[int, Domain] = {each.number: ("", each.contact.id.hex()) for each in members}
    found = {number: value if value[-1] else hosts[number] for number, value in known.items()}
    return found if len({*found.values()}) > 1 else hosts


class DomainLosses:
    """The losses of single domains, by usual rates.

    Args:
        domains: by the numbers of the members.
        rates: their usual records.
        shape: of the statement.
    """

    def __init__(self, domains: Mapping[int, Domain], rates: Rates, shape: FidelityShape) -> None:
        self._shape = shape
        numbers = sorted(domains)
        self.members = {each: [at for at in numbers if domains[at] == each] for each in {*domains.values()}}
        self._weights = [rates.weights(numbers, at) for at in range(max(shape.inputs, default=0) + 1)]
        for weights in self._weights:
            if not any(weights.values()):
                weights.update(dict.fromkeys(numbers, 1.0))
        self._totals = [sum(weights.values()) for weights in self._weights]

    def lost(self, lost: Domain, standbys: Collection[int]) -> list[float]:
        """Return by input what the loss of a domain takes along."""
        gone = [each for each in self.members[lost] if each not in standbys]
        return [sum(weights[each] for each in gone) for weights in self._weights]

    def value(self, lost: Sequence[float]) -> float:
        """Return the fidelity after a loss, given by input."""
        pairs = zip(self._totals, lost, strict=True)
        shares = [min(1.0, max(0.0, 1 - out / total)) for total, out in pairs]
        return round(self._shape.share(shares, self._totals), TIE)

    def kept(self, standbys: Collection[int]) -> dict[Domain, float]:
        """Return what the loss of each domain leaves, if these members have standbys outside it."""
        return {each: self.value(self.lost(each, standbys)) for each in sorted(self.members)}

    def step(self, lost: Domain, standbys: Collection[int], room: float, costs: Costs) -> tuple[int, ...]:
        """Return the members of a domain whose standbys raise its value most per cost.

        Args:
            lost: the domain.
            standbys: members that have one.
            room: what further standbys may cost.
            costs: of the standby of each member; positive.

        Returns:
            Their numbers; empty: none fit or raise the value.
        """
        fit = [each for each in self.members[lost] if each not in standbys and costs[each] <= room]
        out = self.lost(lost, standbys)
        base = self.value(out)
        gains = {each: self._with(out, (each,)) - base for each in fit}
        best = max(fit, key=lambda each: (gains[each] / costs[each], -each), default=None)
        if best is not None and gains[best] > 0:
            return (best,)
        empty = [at for at, total in enumerate(self._totals) if round(total - out[at], TIE) <= 0]
        densest = (self._densest(fit, at, costs) for at in empty if fit)
        several = tuple(sorted({*densest}))
        fits = sum(costs[each] for each in several) <= room
        return several if fits and self._with(out, several) > base else ()

    def _densest(self, members: Sequence[int], at: int, costs: Costs) -> int:
        return max(members, key=lambda each: (self._weights[at][each] / costs[each], -each))

    def _with(self, out: Sequence[float], members: Sequence[int]) -> float:
        pairs = zip(out, self._weights, strict=True)
        return self.value([lost - sum(weights[each] for each in members) for lost, weights in pairs])


def room_of(budget: StandbyBudget, members: int) -> int:
    """Return how many of the members may have a standby, whatever each costs."""
    limits = {"members": budget.amount, "share": budget.amount * members}
    return min(members, floor(limits.get(budget.unit, members) + 10.0**-TIE))


def choose(
    scenarios: DomainLosses, budget: StandbyBudget, costs: Costs | None = None, room: float | None = None
) -> tuple[int, ...]:
    """Return the numbers of the members that are to have a standby, in ascending order.

    Args:
        scenarios: of the members.
        budget: how many of them, or what they keep.
        costs: of the standby of each member; positive. None: each costs 1.
        room: what all of them may cost; None: the number that the budget permits.
    """
    members = [number for each in scenarios.members.values() for number in each]
    if costs is None or room is None:
        costs, room = dict.fromkeys(members, 1.0), room_of(budget, len(members))
    least = budget.amount if budget.unit == "keeps" else 1.0
    chosen: set[int] = set()
    values, settled = scenarios.kept(chosen), set[Domain]()
    while left := [each for each in values if each not in settled]:
        worst = min(left, key=lambda each: (values[each], each))
        if values[worst] >= least:
            break
        spent = sum(costs[each] for each in sorted(chosen))
        step = scenarios.step(worst, chosen, room - spent, costs)
        if not step:
            settled.add(worst)
            continue
        chosen.update(step)
        values[worst] = scenarios.value(scenarios.lost(worst, chosen))
    return tuple(sorted(chosen))
