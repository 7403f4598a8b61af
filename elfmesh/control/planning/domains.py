"""Plans against the loss of one failure domain, whichever it is.

Scenario `d`: all tasks of domain `d` fail, except those that the plan replicates. `worst` raises the least
fidelity of all scenarios, `expected` their mean. A step takes the task that raises it most per cost; if no
single task does, as in a join that has lost one input whole, it takes the densest completion.
"""

from __future__ import annotations

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.mc_trees import Tree, tasks_of, tree_of
from elfmesh.control.planning.paths import Paths
from elfmesh.control.planning.topology import Topology
from elfmesh.errors import UsageError

WORST, EXPECTED = "worst", "expected"


class Scenarios:
    """The losses of single domains of a topology.

    Raises:
        UsageError: no task names a domain.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        names = sorted({domain for each in topology.domains for domain in each})
        if not names:
            raise UsageError(
                "the objectives worst and expected need failure domains",
                hint='Give tasks domains: {"name": "t1", "domains": ["rack=r1"]}.',
            )
        everything = tree_of(range(len(topology)))
        self.lost = {
            name: tree_of(task for task, each in enumerate(topology.domains) if name in each)
            for name in names
        }
        self._paths = {name: Paths(topology, outside=everything & ~lost) for name, lost in self.lost.items()}

    def values(self, *plans: Tree) -> list[dict[str, float]]:
        """Return for each plan the fidelity after the loss of each domain."""
        by_name = {name: search.value(*plans) for name, search in self._paths.items()}
        return [{name: values[at] for name, values in by_name.items()} for at in range(len(plans))]

    def worst(self, budget: float) -> frozenset[int]:
        """Return a plan whose least fidelity is great: always help the domain whose loss leaves the least."""
        plan, settled = 0, set[str]()
        while True:
            (values,) = self.values(plan)
            left = [name for name in values if name not in settled]
            if not left:
                return frozenset(tasks_of(plan))
            name = min(left, key=lambda each: (values[each], each))
            step = self._step(name, plan, budget)
            if step is None:
                settled.add(name)
            else:
                plan |= step

    def _step(self, name: str, plan: Tree, budget: float) -> Tree | None:
        search = self._paths[name]
        single = [1 << task for task in tasks_of(self.lost[name] & ~plan)]
        return self._densest(single, [name], plan, budget) or self._densest(
            search.completions(plan), [name], plan, budget
        )

    def expected(self, budget: float) -> frozenset[int]:
        """Return a plan whose mean over all domains is great."""
        plan, every = 0, list(self.lost)
        while True:
            single = [1 << task for task in range(len(self.topology)) if not plan >> task & 1]
            several = {each for search in self._paths.values() for each in search.completions(plan)}
            step = self._densest(sorted({*single, *several}), every, plan, budget)
            if step is None:
                return frozenset(tasks_of(plan))
            plan |= step

    def _densest(self, steps: list[Tree], names: list[str], plan: Tree, budget: float) -> Tree | None:
        """Return the step that raises the sum over some domains most per cost, and fits; ties by name."""
        search = self._paths[names[0]]
        room = budget - search.cost(plan)
        fitting = [each for each in steps if each and search.cost(each) <= room + 1e-9]
        if not fitting:
            return None
        rows = [self._paths[name].value(plan, *(plan | each for each in fitting)) for name in names]
        totals = [sum(values) for values in zip(*rows, strict=True)]
        gains = {
            each: round((total - totals[0]) / search.cost(each), TIE)
            for each, total in zip(fitting, totals[1:], strict=True)
        }
        best = max(gains.values())
        if best <= 0:
            return None
        ties = [each for each, gain in gains.items() if gain == best]
        return min(ties, key=lambda each: self.topology.named(tasks_of(each)))
