"""CP-SAT as a planner: reads MC-trees with their weights from standard input, prints what it has found.

    python -m benchmarks.peers.plan_cpsat < PROBLEM

Needs ortools only, which cannot be imported beside HiGHS. A tree lives if all of its tasks have a replica.
"""

from __future__ import annotations

import json
import sys
import time

from ortools.sat.python import cp_model

SCALE = 10**9
"""CP-SAT knows whole numbers only; weights are stated in billionths."""


def main() -> None:
    problem = json.load(sys.stdin)
    began = time.process_time()
    model = cp_model.CpModel()
    tasks = [model.new_bool_var(f"t{at}") for at in range(problem["tasks"])]
    model.add(sum(tasks) <= problem["budget"])
    gains = []
    for number, (tree, weight) in enumerate(problem["trees"]):
        lives = model.new_bool_var(f"m{number}")
        for task in tree:
            model.add_implication(lives, tasks[task])
        gains.append(round(SCALE * weight) * lives)
    model.maximize(sum(gains))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = problem["limit_s"]
    status = solver.solve(model)
    found = {
        "optimal": status == cp_model.OPTIMAL,
        "fidelity": solver.objective_value / SCALE if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else 0,
        "cpu_s": time.process_time() - began,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
