"""What is known of seeds: those that showed a bug, those that are open, and how long they all are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sim.swarm import soak
from tests.sim.swarm.regressions import KEPT, OPEN, OPEN_SEEDS, REGRESSIONS, scenario
from tests.sim.swarm.scenario import draw


def test_every_kept_scenario_is_a_regression_or_open() -> None:
    assert {path.stem for path in KEPT.glob("*.json")} == {*REGRESSIONS, *OPEN}
    assert not {*REGRESSIONS} & {*OPEN}
    assert all(scenario(name).jobs for name in (*REGRESSIONS, *OPEN))
    assert {*OPEN_SEEDS} <= {scenario(name).seed for name in OPEN}


def test_an_open_seed_fails_no_soak_and_is_reported_when_it_holds_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {0: {}, 1: {"I1": ["lost"]}, 2: {"I2": ["twice"]}, 3: {}}
    lines = [json.dumps({"seed": seed, "wrong": reported, "cpu_s": 1.0}) for seed, reported in wrong.items()]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(soak, "OPEN_SEEDS", (2, 3))
    assert soak.soak(range(4), journal, 1) == 1
    notified = capsys.readouterr().out
    assert "FAILS python -m tests.sim.swarm --seed 1\n" in notified
    assert "OPEN python -m tests.sim.swarm --seed 2\n" in notified
    assert "HOLDS AGAIN, and is open in regressions.py: seed 3\n" in notified
    assert "1 fail, 1 more are open" in notified
    assert soak.soak(range(2, 4), journal, 1) == 0


def test_three_hundred_seeds_have_eighteen_hours_of_faults() -> None:
    """Of one cluster each, however many agents it has. The quiet before and after them makes it twenty."""
    assert sum(draw(seed).safety_s for seed in range(300)) > 18 * 3600
