"""The solver's plans against brute force; the base install has no solver."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.milp import milp
from elfmesh.errors import NotInstalled
from tests.control.planning.brute import Brute, small_topologies
from tests.control.planning.topologies import figure_2

needs_solver = pytest.mark.skipif(
    importlib.util.find_spec("highspy") is None, reason="the extra `planner` is not installed"
)


@needs_solver
def test_the_plan_is_optimal(capfd: pytest.CaptureFixture[str]) -> None:
    for topology in small_topologies(20, costs=True):
        brute = Brute(topology)
        for budget in (2, 5, 9):
            solved = milp(topology, budget)
            assert solved.optimal
            assert fidelity(topology, solved.tasks) == pytest.approx(brute.optimum(budget), abs=1e-6)
            assert solved.bound == pytest.approx(brute.optimum(budget), abs=1e-6)
    assert capfd.readouterr().out == "", "the solver prints nothing into the answer of a command"


def test_without_the_solver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(NotInstalled, match=r"elfmesh\[planner\]"):
        milp(figure_2(join=True), 3)
