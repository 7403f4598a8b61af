"""Rounds of exploring add up over runs, and fail on an unsound label or too few anomalies."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.control.coordination.explore.__main__ import count, main, report


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for graphs, statements in ((3, 1), (4, 1)):
        given = [str(tmp_path), "--graphs", str(graphs), "--statements", str(statements)]
        monkeypatch.setattr(sys, "argv", ["explore", *given])
        main()
    done = [json.loads(line) for line in (tmp_path / "rounds.ndjson").read_text().splitlines()]
    assert [(each["level"], each["seeds"]) for each in done] == [
        ("graphs", 3),
        ("statements", 1),
        ("graphs", 1),
    ]
    assert (count(done, "graphs"), count(done, "statements"), count(done, "workloads")) == (4, 1, 0)
    assert all(each["unsound"] == [] for each in done)


def test_unsound_labels_and_missing_anomalies_fail(capsys: pytest.CaptureFixture[str]) -> None:
    graphs = {"level": "graphs", "seeds": 9, "unsound": [], "causes": {"RUN": 20}, "seen": {"RUN": 17}}
    fleet = {"level": "workloads", "seeds": 1, "unsound": [], "clean": 7, "open": 4, "differ": 1}
    assert report([graphs, fleet]) == 0
    assert "25% of 4 differ" in capsys.readouterr().out
    assert report([graphs | {"seen": {"RUN": 16}}]) == 1
    assert report([graphs, fleet | {"unsound": ["a/b 3: clean records differ"]}]) == 1
