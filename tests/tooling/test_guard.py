"""The guard of instruction counts: what it compares, and when it checks nothing."""

from __future__ import annotations

import shutil

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks import guard
from benchmarks.guard import TOLERANCE, Recorded, differences, judged
from benchmarks.harness import ROOT

FIGURES = {"parse json": 1_000_000, "tree": 2_000_000}


def test_five_per_cent_more_work_fails_and_three_do_not() -> None:
    assert judged(FIGURES, FIGURES)[1]
    assert judged(FIGURES, {**FIGURES, "tree": round(2_000_000 * (1 + TOLERANCE))})[1]
    lines, good = judged(FIGURES, {**FIGURES, "tree": 2_100_000})
    assert not good
    assert lines == ["parse json: 1.0 M instructions, +0.0%: ok", "tree: 2.1 M instructions, +5.0%: TOO MANY"]


def test_fewer_instructions_pass_and_ask_for_a_new_figure() -> None:
    lines, good = judged(FIGURES, {**FIGURES, "tree": 1_800_000})
    assert good
    assert lines[1] == "tree: 1.8 M instructions, -10.0%: fewer: commit the new figure"


def test_a_figure_that_is_missing_fails() -> None:
    assert judged(FIGURES, {"tree": 2_000_000}) == (
        ["parse json: not measured", "tree: 2.0 M instructions, +0.0%: ok"],
        False,
    )
    assert judged({}, {"tree": 1}) == (["tree: has no committed figure"], False)


def test_every_work_has_a_committed_figure() -> None:
    recorded = msgspec.json.decode(guard.FIGURES.read_bytes(), type=Recorded)
    assert recorded.instructions.keys() == guard.ROUNDS.keys()
    assert all(figure > 1_000_000 for figure in recorded.instructions.values())
    assert {"python", "machine", "libc", "valgrind", *guard.LIBRARIES} == recorded.environment.keys()


def test_figures_of_another_environment_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences({"numpy": "1"}, {"numpy": "2", "libc": "3"}) == [
        "libc 3, not (none)",
        "numpy 2, not 1",
    ]
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/valgrind")
    monkeypatch.setattr(guard, "environment", lambda: {"python": "9"})
    done = CliRunner().invoke(guard.main)
    assert done.exit_code == 0
    assert done.output.startswith("guard: skipped, because the figures are of another environment: ")
    assert "python 9, not 3." in done.output


def test_without_valgrind_the_guard_reports_that_it_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    done = CliRunner().invoke(guard.main)
    assert (done.exit_code, done.output) == (0, "guard: skipped, because valgrind is not installed\n")


def test_more_work_is_more_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def counted(name: str, rounds: int, directory: object) -> int:
        asked.append((name, rounds))
        return 1_000 * rounds

    monkeypatch.setattr(guard, "_instructions", counted)
    assert guard.measured("tree", 0.0, ROOT) == 20_000
    assert guard.measured("tree", 0.05, ROOT) == 21_000
    assert asked == [("tree", 21), ("tree", 1), ("tree", 22), ("tree", 1)]
