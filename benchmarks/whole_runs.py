"""Whole commands, run alternately: the CPU and the elapsed time of each, and a checksum of what it prints."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks import contest
from benchmarks.harness import ROOT

ELF = (sys.executable, "-m", "elfmesh.cli")


def run(commands: Mapping[str, Sequence[str]], repeats: int) -> dict[str, list[dict[str, float | str]]]:
    """Run all commands round by round, after one round that compiles caches and pages files in.

    Raises:
        RuntimeError: a command fails.
    """
    found: dict[str, list[dict[str, float | str]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(repeats + 1):
            for name, command in commands.items():
                one = _run(name, command, Path(directory))
                if number:
                    found[name].append(one)
    return found


def middle(runs: Sequence[Mapping[str, float | str]], field: str) -> float:
    return median(float(each[field]) for each in runs)


def spread(runs: Sequence[Mapping[str, float | str]], field: str) -> float:
    values = [float(each[field]) for each in runs]
    return (max(values) - min(values)) / median(values)


def _run(name: str, command: Sequence[str], directory: Path) -> dict[str, float | str]:
    report = directory / "report"
    environment = contest.environment({"PYTHONPYCACHEPREFIX": str(directory / "caches")})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.process", str(report), *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
        timeout=contest.TIMEOUT_S,
    )
    measured: dict[str, float | str] = json.loads(report.read_text())
    if measured["code"]:
        raise RuntimeError(f"{name} failed:\n{done.stderr.decode(errors='replace')[-2000:]}")
    return measured | {"checksum": hashlib.blake2b(done.stdout, digest_size=8).hexdigest()}
