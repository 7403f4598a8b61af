"""Chooses the algorithm, and returns a plan with what is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elfmesh.control.planning.combining import Budgeted, scaled, trace
from elfmesh.control.planning.domains import EXPECTED, WORST, Scenarios
from elfmesh.control.planning.dp import TIE, dp
from elfmesh.control.planning.exact_forest import exact_forest, is_forest
from elfmesh.control.planning.exact_full import exact_full, is_full
from elfmesh.control.planning.exact_small import SMALL_TASKS_MAX, exact_small, is_small
from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.greedy import greedy
from elfmesh.control.planning.mc_trees import tasks_of, tree_of
from elfmesh.control.planning.milp import milp
from elfmesh.control.planning.paths import Paths, paths, polished
from elfmesh.control.planning.structure_aware import structure_aware
from elfmesh.control.planning.topology import Topology
from elfmesh.errors import UsageError

OBJECTIVES = ("all", WORST, EXPECTED)
AUTO, DP, MILP = "auto", "dp", "milp"
FOREST, FULL_EXACT, SMALL = "exact-forest", "exact-full", "exact-small"
PATHS, AWARE, GREEDY = "paths", "structure-aware", "greedy"
ALGORITHMS = (AUTO, FOREST, FULL_EXACT, SMALL, PATHS, DP, GREEDY, AWARE, MILP)
SEVERAL_MAX = 600
"""Tasks up to which `auto` compares several planners; for more it uses `paths`, which is the fastest."""

CURVE_POINTS = 1_000
"""Points of a curve in the answer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Which tasks get a replica.

    Attributes:
        replicate: names of tasks, sorted.
        fidelity: value of the objective if all other tasks fail (`all`), or those of one domain.
        used: cost of the replicas, at most the budget.
        optimal: whether no plan within the budget has a greater fidelity, as proven.
        bound: fidelity that no plan within the budget exceeds.
        curve: budget and greatest fidelity, where the algorithm knows it.
        algorithm: the one that made the plan.
    """

    replicate: tuple[str, ...]
    fidelity: float
    used: float
    optimal: bool
    bound: float
    curve: tuple[tuple[float, float], ...]
    algorithm: str


def plan(topology: Topology, budget: float, objective: str = "all", algorithm: str = AUTO) -> Planned:
    """Choose tasks to replicate, within a budget.

    Raises:
        UsageError: the algorithm does not apply to the topology or the objective.
        NotInstalled: `milp` without the extra `planner`.
        RuntimeFailure: `dp` or `milp` reached a limit.
    """
    if objective != "all":
        return _against_domains(topology, budget, objective, algorithm)
    if algorithm == AUTO:
        return _auto(topology, budget)
    if algorithm in (FOREST, FULL_EXACT):
        applies = is_forest(topology) if algorithm == FOREST else is_full(topology)
        if not applies:
            shape = "every task sends to one task" if algorithm == FOREST else "all streams are full"
            raise UsageError(f"{algorithm} plans topologies where {shape}", hint="Use --algorithm auto.")
        return _exact(topology, budget, algorithm)
    if algorithm == SMALL:
        if not is_small(topology):
            text = f"{SMALL} plans topologies of at most {SMALL_TASKS_MAX} tasks"
            raise UsageError(text, hint="Use --algorithm auto.")
        return _small(topology, budget)
    if algorithm == MILP:
        solved = milp(topology, budget)
        return _planned(topology, solved.tasks, algorithm, solved.optimal, solved.bound)
    if algorithm == PATHS:
        return _planned(topology, paths(topology, budget), algorithm)
    if not topology.uniform_costs:
        raise UsageError(
            f"{algorithm} counts tasks, and these have costs", hint="Use auto, paths, milp or exact-forest."
        )
    printed: dict[str, Callable[[Topology, int], frozenset[int]]] = {
        DP: dp, GREEDY: greedy, AWARE: structure_aware,
    }  # fmt: skip
    return _planned(topology, printed[algorithm](topology, int(budget)), algorithm, optimal=algorithm == DP)


def _auto(topology: Topology, budget: float) -> Planned:
    if budget >= float(topology.costs.sum()):
        return _planned(topology, frozenset(range(len(topology))), AUTO, optimal=True)
    for algorithm, applies in ((FOREST, is_forest), (FULL_EXACT, is_full)):
        if applies(topology):
            return _exact(topology, budget, algorithm)
    if is_small(topology):
        return _small(topology, budget)
    search = Paths(topology)
    plans = {PATHS: search.best_start(budget)}
    if topology.uniform_costs and len(topology) <= SEVERAL_MAX:
        plans[AWARE] = tree_of(structure_aware(topology, int(budget)))
        plans[GREEDY] = tree_of(greedy(topology, int(budget)))
    values = dict(zip(plans, search.value(*plans.values()), strict=True))
    best = max(plans, key=lambda each: values[each])
    return _planned(topology, frozenset(tasks_of(polished(search, plans[best], budget))), best)


def _exact(topology: Topology, budget: float, algorithm: str) -> Planned:
    scale = scaled(topology, budget)
    found: Budgeted = (exact_forest if algorithm == FOREST else exact_full)(topology, scale)
    tasks = frozenset(trace(found, len(found.values) - 1))
    step = max(len(found.values) // CURVE_POINTS, 1)
    points = sorted({*range(0, len(found.values), step), len(found.values) - 1})
    curve = tuple((at * scale.unit, min(round(float(found.values[at]), TIE), 1.0)) for at in points)
    return _planned(topology, tasks, algorithm, scale.exact, curve=curve)


def _small(topology: Topology, budget: float) -> Planned:
    tasks, curve = exact_small(topology, budget)
    return _planned(topology, tasks, SMALL, optimal=True, curve=curve)


def _planned(
    topology: Topology,
    tasks: frozenset[int],
    algorithm: str,
    optimal: bool = False,
    bound: float = 1.0,
    curve: tuple[tuple[float, float], ...] = (),
) -> Planned:
    reached = min(round(fidelity(topology, tasks), TIE), 1.0)
    used = float(sum(topology.costs[task] for task in sorted(tasks)))
    known = optimal or reached >= 1
    return Planned(
        topology.named(tasks), reached, used, known, reached if known else max(bound, reached),
        curve or ((0.0, 0.0), (used, reached)) if used else ((0.0, 0.0),), algorithm,
    )  # fmt: skip


def _against_domains(topology: Topology, budget: float, objective: str, algorithm: str) -> Planned:
    if algorithm != AUTO:
        raise UsageError(f"the objective {objective} has one algorithm", hint="Leave --algorithm out.")
    scenarios = Scenarios(topology)
    tasks = scenarios.worst(budget) if objective == WORST else scenarios.expected(budget)
    none, some = ([*each.values()] for each in scenarios.values(0, tree_of(tasks)))
    least = objective == WORST
    before, reached = (min(each) if least else round(sum(each) / len(each), TIE) for each in (none, some))
    used = float(sum(topology.costs[task] for task in sorted(tasks)))
    curve = ((0.0, before), (used, reached)) if used else ((0.0, before),)
    done = reached >= 1
    return Planned(topology.named(tasks), reached, used, done, reached if done else 1.0, curve, objective)
