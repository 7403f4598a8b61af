"""Planners of replicas: fidelity by budget on random topologies and on two queries (PPA Fig. 14, 13), speed.

Parts: `skew`, `tasks`, `shape` and `joins` are Fig. 14 a-d; `queries` is Fig. 13; `speed` has 1,000 tasks.
The peers are the paper's algorithms as printed, and the optima that HiGHS and CP-SAT prove. A plan that
exceeds its budget, or a proven optimum, fails the run.
"""

from __future__ import annotations

import importlib.util
import json
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import contest
from benchmarks.harness import Figure
from elfmesh.control.planning.combining import scaled
from elfmesh.control.planning.exact_forest import exact_forest
from elfmesh.control.planning.mc_trees import mc_trees, tasks_of
from elfmesh.control.planning.milp import milp
from elfmesh.control.planning.planner import Planned, plan
from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of
from elfmesh.errors import RuntimeFailure
from tests.control.planning.topologies import operator, random_topology

COUNT = {False: 10, True: 2}
"""Random topologies of each setting; the paper has 100."""

SHARES = (0.1, 0.2, 0.4)
"""Budgets, as shares of the tasks."""

OURS, PEERS = "auto", ("structure-aware", "greedy")
SOLVER_S = 2.0
SOLVED = 5
"""Topologies of a setting of which HiGHS looks for the optimum."""

TREES_MAX = 2_000
"""MC-trees of the topologies that CP-SAT gets."""

TOLERANCE = 1e-5
HAS_SOLVER = importlib.util.find_spec("highspy") is not None
SMALL_RANGE = (2, 5)
SETTINGS: dict[str, dict[str, dict[str, object]]] = {
    "skew": {"uniform": {"zipf": 0.0}, "Zipf 0.1": {"zipf": 0.1}},
    "tasks": {"2-10": {}, "10-20": {"tasks": (10, 20)}, "20-50": {"tasks": (20, 50)}},
    "shape": {"structured": {}, "full": {"shape": "full"}},
    "joins": {"0 %": {"joins": 0.0}, "50 %": {"joins": 0.5}},
}


def topologies(setting: dict[str, object], *, small: bool) -> list[Topology]:
    given: dict[str, Any] = {
        "operators": (5, 10),
        "tasks": (2, 10),
        "shape": "structured",
        "joins": 0.0,
        "zipf": 0.1,
        **setting,
    }
    if small:
        given["tasks"] = SMALL_RANGE
    return [random_topology(random.Random(seed), **given) for seed in range(COUNT[small])]


def figure_14(part: str, *, small: bool) -> list[Figure]:
    figures = []
    for name, setting in SETTINGS[part].items():
        drawn = topologies(setting, small=small)
        for share in SHARES:
            figures += compared(f"{part} {name}, budget {share:.0%}", drawn, share)
    return figures


def compared(title: str, drawn: list[Topology], share: float) -> list[Figure]:
    """Mean fidelity of ours with the peers, and the gap to the optimum where HiGHS proves it."""
    budgets = [round(share * len(each)) for each in drawn]
    found = {
        name: [
            checked(plan(each, budget, algorithm=name), budget)
            for each, budget in zip(drawn, budgets, strict=True)
        ]
        for name in (OURS, *PEERS)
    }
    for peer in PEERS:
        for ours, theirs in zip(found[OURS], found[peer], strict=True):
            if ours.fidelity < theirs.fidelity - 1e-9:
                raise RuntimeFailure(f"{title}: {peer} is better than {OURS}")
    mean = {name: statistics.fmean(each.fidelity for each in plans) for name, plans in found.items()}
    figures = [figure(f"{title}: {OURS}", mean[OURS], "OF")]
    for peer in PEERS:
        ratio = mean[OURS] / mean[peer] if mean[peer] else 0.0
        figures.append(figure(f"{title}: {peer}", mean[peer], "OF", "ours to it", ratio))
    figures.append(gap(title, drawn, budgets, found[OURS]))
    return [*figures, *solvers(title, drawn, budgets, found[OURS])]


def solvers(title: str, drawn: list[Topology], budgets: list[int], ours: list[Planned]) -> list[Figure]:
    """CPU seconds of HiGHS and CP-SAT on the same topologies; two proven optima that differ fail the run."""
    try:
        python = contest.python_with("ortools")
    except contest.Skipped as error:
        return [Figure(f"{title}: CP-SAT", 0.0, "", skipped=str(error))]
    times: dict[str, list[float]] = {"HiGHS": [], "CP-SAT": []}
    for topology, budget, found in [*zip(drawn, budgets, ours, strict=True)][:SOLVED]:
        try:
            trees = [(tasks_of(tree), weight) for tree, weight in mc_trees(topology, TREES_MAX).items()]
        except RuntimeFailure:
            continue
        problem = {"tasks": len(topology), "budget": budget, "trees": trees, "limit_s": SOLVER_S}
        command = [python, "-m", "benchmarks.peers.plan_cpsat"]
        said = subprocess.run(
            command, input=json.dumps(problem), env=contest.environment({}), capture_output=True,
            check=True, text=True,
        ).stdout  # fmt: skip
        theirs = json.loads(said)
        times["CP-SAT"].append(theirs["cpu_s"])
        if theirs["optimal"] and found.fidelity > theirs["fidelity"] + TOLERANCE:
            raise RuntimeFailure(f"{title}: {found.fidelity} exceeds what CP-SAT has proven")
        if HAS_SOLVER:
            began = time.process_time()
            solved = milp(topology, budget, SOLVER_S)
            times["HiGHS"].append(time.process_time() - began)
            if solved.optimal and theirs["optimal"] and abs(solved.bound - theirs["fidelity"]) > TOLERANCE:
                raise RuntimeFailure(f"{title}: HiGHS proves {solved.bound}, CP-SAT {theirs['fidelity']}")
    return [
        Figure(f"{title}: {name}, CPU", statistics.fmean(each), "s", f"of {len(each)}", 0.0)
        for name, each in times.items()
        if each
    ]


def checked(found: Planned, budget: float) -> Planned:
    if found.used > budget:
        raise RuntimeFailure(f"{found.algorithm} spent {found.used} of {budget}")
    return found


def gap(title: str, drawn: list[Topology], budgets: list[int], ours: list[Planned]) -> Figure:
    """How far ours is below the proven optimum, on average, and in the worst case as the spread."""
    name = f"{title}: missing to the optimum"
    if not HAS_SOLVER:
        return Figure(name, 0.0, "", skipped="highspy is not installed")
    gaps = []
    for topology, budget, found in [*zip(drawn, budgets, ours, strict=True)][:SOLVED]:
        try:
            solved = milp(topology, budget, SOLVER_S)
        except RuntimeFailure:  # too many MC-trees
            continue
        if solved.optimal and solved.bound > 0:
            if found.fidelity > solved.bound + 1e-5:
                raise RuntimeFailure(f"{title}: {found.fidelity} exceeds the proven optimum {solved.bound}")
            gaps.append(max(1 - found.fidelity / solved.bound, 0.0))
    if not gaps:
        return Figure(name, 0.0, "", skipped=f"HiGHS proved none within {SOLVER_S:g} s")
    worst = f"of {len(gaps)} proven; the worst {max(gaps):.1%}"
    return Figure(name, 100 * statistics.fmean(gaps), "%", worst) if any(gaps) else Figure(
        name, 0.0, "", skipped=f"0 % of {len(gaps)} proven"
    )  # fmt: skip


def figure(name: str, value: float, unit: str, peer: str = "", ratio: float = 0.0) -> Figure:
    if not value:
        return Figure(name, 0.0, "", skipped="0: no MC-tree is replicated")
    return Figure(name, value, unit, peer, ratio)


def q1() -> Topology:
    """Fig. 11 a: 29 servers in four regions, a merge for each region, one top 100."""
    dice = random.Random(98)
    sizes = (8, 7, 7, 7)
    values: dict[str, Any] = {
        "operators": [
            operator("O1", [float(dice.randint(20, 100)) for _ in range(sum(sizes))]),
            {**operator("O2", len(sizes)), "inputs": [{"from": "O1"}]},
            operator("O3", 1, ("O2", "merge")),
        ],
        "edges": [
            [f"O1.{at:02}", f"O2.{region:02}", 1.0]
            for region, size in enumerate(sizes)
            for at in range(sum(sizes[:region]), sum(sizes[: region + 1]))
        ],
    }
    for edge in values["edges"]:
        task = int(str(edge[0])[3:])
        edge[2] = values["operators"][0]["tasks"][task]["rate"]
    return topology_of(values)


def q2() -> Topology:
    """Fig. 11 b: locations by segment joined with distinct incidents, then aggregated; rates are Zipf 0.5."""
    rates = [1000 / (rank + 1) ** 0.5 for rank in range(8)]
    return topology_of(
        {
            "operators": [
                operator("O1", rates),
                operator("O2", [10.0, 7.0, 6.0, 5.0]),
                operator("O3", 4, ("O1", "merge"), ("O2", "one-to-one"), correlated=True),
                operator("O4", 1, ("O3", "merge")),
            ]
        }
    )


def figure_13(*, small: bool) -> list[Figure]:
    figures = []
    for name, topology in (("Q1", q1()), ("Q2", q2())):
        for share in (0.3, 0.6) if small else (0.1, 0.3, 0.5, 0.7, 0.9):
            title, budget = f"{name}, budget {share:.0%}", round(share * len(topology))
            best = checked(plan(topology, budget), budget)
            figures.append(figure(f"{title}: {best.algorithm}", best.fidelity, "OF"))
            for peer in ("dp", *PEERS):
                try:
                    found = checked(plan(topology, budget, algorithm=peer), budget)
                except RuntimeFailure as error:  # dp has a limit
                    figures.append(Figure(f"{title}: {peer}", 0.0, "", skipped=error.message))
                    continue
                if peer == "dp" and abs(found.fidelity - best.fidelity) > 1e-9:
                    raise RuntimeFailure(f"{title}: {best.algorithm} is not optimal")
                ratio = best.fidelity / found.fidelity if found.fidelity else 0.0
                figures.append(figure(f"{title}: {peer}", found.fidelity, "OF", "ours to it", ratio))
    return figures


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def tree(sources: int, fan_in: int) -> Topology:
    dice = random.Random(1)
    levels = [operator("L0", [float(dice.randint(1, 99)) for _ in range(sources)])]
    while (size := len(levels[-1]["tasks"])) > 1:
        size = max(size // fan_in, 1)
        levels.append(operator(f"L{len(levels)}", size, (levels[-1]["name"], "merge")))
    return topology_of({"operators": levels})


def speed(*, small: bool) -> list[Figure]:
    """CPU seconds with about 1,000 tasks and a budget of 300."""
    sizes = (40, 12) if small else (800, 300)
    whole = tree(sizes[0], 5)
    cost = timed(lambda: exact_forest(whole, scaled(whole, sizes[1])))
    figures = [Figure(f"exact-forest, {len(whole):,} tasks", cost, "CPU s")]
    dice, wide = random.Random(5), ((4, 6), (5, 9)) if small else ((18, 22), (30, 70))
    for joins in (0.0, 0.3):
        topology = random_topology(dice, *wide, "structured", joins=joins, zipf=0.1)
        for name in ("structure-aware", "paths", OURS):
            cost = timed(partial(plan, topology, sizes[1], algorithm=name))
            figures.append(Figure(f"{name}, {len(topology):,} tasks, joins {joins:.0%}", cost, "CPU s"))
    return figures


PARTS: dict[str, Callable[..., list[Figure]]] = {
    **{part: partial(figure_14, part) for part in SETTINGS},
    "queries": figure_13,
    "speed": speed,
}
