"""Dynamic programming over sets of MC-trees (PPA IV-A, Algorithm 1).

Theorem 1: no plan of the same or a greater fidelity uses fewer tasks. Proof, which the paper omits: a task
that belongs to no MC-tree inside a plan adds nothing, so that an optimal plan of least size is a union of
MC-trees. Order the trees of such a union so that each adds a task; the plan of the first k trees is extended
by the next tree when `usage` reaches the size of the union of both. By induction every union of at most R
tasks is found.

Deviation: a plan to which all expansions were applied remains a candidate for the result, and a plan that
contains all trees is closed, because the paper leaves its `u_i` undefined.
"""

from __future__ import annotations

from elfmesh.control.planning.fidelity import fidelities
from elfmesh.control.planning.mc_trees import Tree, alive_in, mc_trees, tasks_of
from elfmesh.control.planning.topology import Topology
from elfmesh.errors import RuntimeFailure

PLANS_MAX = 50_000
TIE = 12
"""Decimal places of fidelities that are compared; sums in another order differ behind them."""


def dp(topology: Topology, budget: int, most: int = PLANS_MAX) -> frozenset[int]:
    """Return the plan of greatest fidelity; of these the smallest, then the first by names.

    Raises:
        RuntimeFailure: there are more than `most` candidate plans, or too many MC-trees.
    """
    trees = sorted(mc_trees(topology))
    found: dict[Tree, None] = {0: None}
    open_plans = [(0, _expansions(0, trees))]
    for usage in range(1, min(budget, len(topology)) + 1):
        added: list[Tree] = []
        for plan, expansions in open_plans:
            for tree in expansions.pop(usage - plan.bit_count(), ()):
                if plan | tree not in found:
                    found[plan | tree] = None
                    added.append(plan | tree)
        if len(found) > most:
            raise RuntimeFailure(f"more than {most:,} candidate plans", hint="Use --algorithm auto.")
        open_plans = [each for each in open_plans if each[1]]
        open_plans += [(plan, _expansions(plan, trees)) for plan in added]
    plans = list(found)
    values = fidelities(topology, alive_in(plans, len(topology))).round(TIE).tolist()
    best = max(values)
    least = min(plan.bit_count() for plan, value in zip(plans, values, strict=True) if value == best)
    ties = [
        tasks_of(plan)
        for plan, value in zip(plans, values, strict=True)
        if value == best and plan.bit_count() == least
    ]
    return frozenset(min(ties, key=topology.named))


def _expansions(plan: Tree, trees: list[Tree]) -> dict[int, list[Tree]]:
    """Return the trees that are not inside a plan, by the number of tasks that each adds."""
    found: dict[int, list[Tree]] = {}
    for tree in trees:
        if missing := (tree & ~plan).bit_count():
            found.setdefault(missing, []).append(tree)
    return found
