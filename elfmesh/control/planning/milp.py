"""The optimal plan by mixed-integer programming, with the solver of the extra `planner`.

Without joins, x_t is whether task t is replicated and f_t what leaves it: f_t <= x_t, f_t <= what arrives,
the costs of x within the budget, and the greatest result. With joins, each MC-tree has a variable that no
task of it exceeds, times its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from elfmesh.control.planning.fidelity import weighted_inputs
from elfmesh.control.planning.mc_trees import mc_trees, tasks_of
from elfmesh.control.planning.topology import Topology
from elfmesh.errors import NotInstalled, RuntimeFailure

TIME_LIMIT_S = 60.0
GAP = 1e-6
"""Relative gap below which a plan counts as optimal."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A plan, whether the solver proved it optimal, and the fidelity that no plan exceeds."""

    tasks: frozenset[int]
    optimal: bool
    bound: float


def milp(topology: Topology, budget: float, time_limit_s: float = TIME_LIMIT_S) -> Solved:
    """Return the plan of the solver.

    Raises:
        NotInstalled: the extra `planner` is not installed.
        RuntimeFailure: the solver found no plan, or a topology with joins has too many MC-trees.
    """
    try:
        import highspy
    except ImportError:
        raise NotInstalled(
            "--algorithm milp needs highspy", hint="pip install 'elfmesh[planner]', or use --algorithm auto."
        ) from None
    model = _Model(topology)
    model.add_row(dict(enumerate(topology.costs.tolist())), budget)
    solver = highspy.highs._Highs()  # Highs() prints a banner to standard output
    for name, value in (("output_flag", False), ("time_limit", time_limit_s), ("random_seed", 0),
                        ("threads", 1), ("mip_rel_gap", GAP / 10)):  # fmt: skip
        solver.setOptionValue(name, value)
    solver.passModel(model.program(highspy))
    solver.run()
    status = solver.getModelStatus()
    solved = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit)
    values = list(solver.getSolution().col_value)
    if status not in solved or not values:
        raise RuntimeFailure(f"the solver found no plan: {status.name[1:]}", hint="Use --algorithm auto.")
    tasks = frozenset(task for task in range(len(topology)) if values[task] > 0.5)
    optimal = bool(status == highspy.HighsModelStatus.kOptimal)
    return Solved(tasks, optimal, min(-float(solver.getInfo().mip_dual_bound), 1.0))


class _Model:
    """Columns between 0 and 1, of which the first are the tasks and whole; rows of at most a bound."""

    def __init__(self, topology: Topology) -> None:
        self._tasks = len(topology)
        self._gains = [0.0] * len(topology)
        self._rows: list[tuple[dict[int, float], float]] = []
        if any(operator.correlated and len(operator.inputs) > 1 for operator in topology.operators):
            self._add_trees(topology)
        else:
            self._add_flow(topology)

    def add_row(self, factors: dict[int, float], most: float) -> None:
        self._rows.append((factors, most))

    def _add_column(self, gain: float) -> int:
        self._gains.append(gain)
        return len(self._gains) - 1

    def _add_flow(self, topology: Topology) -> None:
        """Add what leaves each task."""
        leaving = [self._add_column(float(gain)) for gain in topology.sink_weights]
        for task, column in enumerate(leaving):
            self.add_row({column: 1.0, task: -1.0}, 0.0)
        for operator in topology.operators:
            for each in weighted_inputs(topology, operator):
                stops = [*each.starts.tolist()[1:], len(each.senders)]
                for receiver, start, stop in zip(
                    each.receivers.tolist(), each.starts.tolist(), stops, strict=True
                ):
                    senders, weights = each.senders[start:stop].tolist(), each.weights[start:stop].tolist()
                    factors = {
                        leaving[sender]: -weight for sender, weight in zip(senders, weights, strict=True)
                    }
                    self.add_row({leaving[operator.first + receiver]: 1.0, **factors}, 0.0)

    def _add_trees(self, topology: Topology) -> None:
        """Add whether each MC-tree lives."""
        for tree, weight in mc_trees(topology).items():
            column = self._add_column(weight)
            for task in tasks_of(tree):
                self.add_row({column: 1.0, task: -1.0}, 0.0)

    def program(self, highspy: Any) -> Any:
        """Return the model as a program that the solver minimises."""
        found = highspy.HighsLp()
        found.num_col_, found.num_row_ = len(self._gains), len(self._rows)
        found.col_cost_ = [-gain for gain in self._gains]
        found.col_lower_, found.col_upper_ = [0.0] * len(self._gains), [1.0] * len(self._gains)
        kinds = highspy.HighsVarType
        found.integrality_ = [
            kinds.kInteger if at < self._tasks else kinds.kContinuous for at in range(len(self._gains))
        ]
        found.row_lower_ = [-highspy.kHighsInf] * len(self._rows)
        found.row_upper_ = [most for _, most in self._rows]
        matrix = found.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        starts = [0]
        for factors, _ in self._rows:
            starts.append(starts[-1] + len(factors))
        matrix.start_ = starts
        matrix.index_ = [column for factors, _ in self._rows for column in factors]
        matrix.value_ = [factor for factors, _ in self._rows for factor in factors.values()]
        return found
