"""Each benchmark runs in its small size: its checks of equality are tests too. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES
from tests.exhaustive import nightly

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[1]


QUICK = {
    "cbt": "unique",
    "ingest": "clicks",
    "merge": "count",
    "update": "simulated",
    "planners": "skew",
    "replication": "accuracy",
    "startup": "commands",
    "wide_area": "legs",
}
"""A part that takes a few seconds, of one benchmark of each kind; `make test-nightly` runs all parts."""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_part_of_a_benchmark_runs(name: str) -> None:
    check(name, "--part", QUICK[name])


@nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_and_reports_where_its_figures_come_from(name: str) -> None:
    check(name)


def check(name: str, *options: str) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--small", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["benchmark"] == name
    assert "cores" in report["machine"]
    assert report["figures"]
    for figure in report["figures"]:
        assert figure["skipped"] or (figure["value"] > 0 and figure["unit"]), figure
    assert not all(figure["skipped"] for figure in report["figures"])
