"""`elf plan`: text and JSON, planners, objectives, and bad topologies."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from elfmesh.cli.entry import run
from elfmesh.cli.local import plan as command
from elfmesh.control.planning import planner
from elfmesh.control.planning.topology_text import topology_values
from elfmesh.control.protocol.events import Reply
from tests.api.test_what_if import AGENTS, SKEWED, TOP, job
from tests.control.fakes import FakeBackend, served
from tests.control.planning.topologies import figure_1, figure_2, operator


@pytest.fixture
def tree(tmp_path: Path) -> str:
    """Fig. 2, a tree, with racks."""
    values = topology_values(figure_2(join=True))
    for each, racks in zip(values["operators"], (("r1", "r2"), ("r1", "r2"), ("r3",)), strict=True):
        for task, rack in zip(each["tasks"], racks, strict=True):
            task["domains"] = [f"rack={rack}"]
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(values, indent=1))
    return str(file)


@pytest.fixture
def dag(tmp_path: Path) -> str:
    file = tmp_path / "dag.json"
    file.write_text(json.dumps(topology_values(figure_1(join=False))))
    return str(file)


def test_the_names_of_planners_are_those_of_the_library() -> None:
    assert set(command.ALGORITHMS) == set(planner.ALGORITHMS)
    assert command.OBJECTIVES == planner.OBJECTIVES


def test_a_plan_is_printed(tree: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--topology", tree, "--budget", "3"]) == 0
    assert capsys.readouterr().out == (
        "fidelity 0.400, 3 of 3 used (optimal, exact-forest)\n  O1.00, O2.00, O3.00\n"
    )


def test_the_optimum_stands_beside_a_plan_that_misses_it(
    tree: str, dag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--topology", tree, "--budget", "2", "--algorithm", "structure-aware"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("fidelity 0.000, 0 of 2 used (structure-aware; optimum 0.000, exact-forest:")
    assert "no replicas" in shown
    assert run(["plan", "--topology", dag, "--budget", "4", "--algorithm", "greedy"]) == 0
    assert "greedy; optimum 0.167, exact-small:" in capsys.readouterr().out


def test_an_optimum_that_is_not_known_has_a_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "crossed.json"
    senders, receivers = ([f"{kind}{at}" for at in range(8)] for kind in "ab")
    operators = [
        {"name": "a", "tasks": [{"name": each, "rate": 1} for each in senders]},
        {"name": "b", "tasks": [{"name": each} for each in receivers], "inputs": [{"from": "a"}]},
    ]
    edges = [[f"a{at}", f"b{to}", 1] for at in range(8) for to in (at, (at + 1) % 8)]
    file.write_text(json.dumps({"operators": operators, "edges": edges}))
    assert run(["plan", "--topology", str(file), "--budget", "4", "--algorithm", "greedy"]) == 0
    assert "greedy; the optimum is at most 1.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("objective", "fidelity"), [("all", 0.0), ("worst", pytest.approx(0.4)), ("expected", None)]
)
def test_json_has_all_that_is_known(
    objective: str, fidelity: object, tree: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--topology", tree, "--budget", "2", "--objective", objective, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"replicate", "fidelity", "used", "optimal", "bound", "curve", "algorithm"}
    assert found["used"] <= 2
    if objective == "all":
        assert found["fidelity"] == fidelity


def test_a_topology_comes_from_standard_input(
    tree: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(tree).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run(["plan", "--topology", "-", "--budget", "9"]) == 0
    assert "fidelity 1.000, 5 of 9 used (optimal" in capsys.readouterr().out


def test_a_bad_topology_is_exit_code_65_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.json"
    values = {"operators": [operator("A", 2), operator("B", 3, ("A", "split"))]}
    file.write_text(json.dumps(values, indent=1))
    assert run(["plan", "--topology", str(file), "--budget", "1"]) == 65
    error = capsys.readouterr().err
    place = next(at for at, line in enumerate(file.read_text().splitlines(), 1) if '"split"' in line)
    assert f"bad.json:{place}: operators[1].inputs[0].partitioning: 2 tasks to 3 is no split" in error


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--budget", "-1"], 2, "-1"),
        (["--budget", "nan"], 2, "nan is no number"),
        (["--budget", "inf"], 2, "inf is no number"),
        (["--budget", "2", "--algorithm", "best"], 2, "best"),
        (["--budget", "2", "--objective", "worst"], 2, "need failure domains"),
        (["--budget", "2", "--algorithm", "exact-full"], 2, "all streams are full"),
        ([], 2, "--budget"),
    ],
)
def test_bad_options_are_refused(
    options: list[str], code: int, message: str, dag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--topology", dag, *options]) == code
    assert message in capsys.readouterr().err


def test_without_the_solver_milp_names_the_extra(
    dag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    assert run(["plan", "--topology", dag, "--budget", "4", "--algorithm", "milp"]) == 1
    assert "pip install 'elfmesh[planner]'" in capsys.readouterr().err


def test_a_missing_file_is_no_bad_topology(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--topology", "no.json", "--budget", "4"]) == 1
    assert "no.json: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["shop/top", "--topology", "t.json"], ["--budget", "3"], ["--write-topology", "-"]],
)
def test_a_plan_is_of_a_job_or_of_a_topology(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *options]) == 2
    assert "--topology" in capsys.readouterr().err


def test_what_is_written_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backend = FakeBackend()
    backend.lists("agents", AGENTS)
    backend.replies["describe"] = Reply(0, 200, job("shop/top", TOP, SKEWED))
    file = tmp_path / "top.json"
    with served(backend) as api:
        assert run(["plan", "shop/top", "--write-topology", str(file), "--api", api]) == 0
        assert run(["plan", "shop/top", "--write-topology", "-", "--across", "row", "--api", api]) == 65
        assert run(["plan", "shop/top", "--write-topology", str(tmp_path), "--api", api]) == 1
    capsys.readouterr()
    assert run(["plan", "--topology", str(file), "--budget", "1", "--objective", "worst"]) == 0
    assert "web1" in capsys.readouterr().out
