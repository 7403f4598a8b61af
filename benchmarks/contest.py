"""Contestants side by side: each in its own process, pinned to one core, repeated, checked to agree.

Owns who runs where. A contestant's program prints one JSON object as its last line, with a `checksum` of its
whole result; those of one contest must be equal, else the run fails. A contestant whose program cannot be
had (no environment, no header, no Java) is not left out silently: it comes back as a skipped figure with the
reason.

Peers that are not the project's own dependencies run in environments below ELF_BENCH_VENVS, one per
requirements file of benchmarks/peers (`make bench-venvs` makes them); what the running Python has, it runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.harness import ROOT, Figure

THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS", "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
TIMEOUT_S = 1800
REPEAT_S_MAX = 15.0
"""CPU seconds from which a contestant of a contest runs only once."""


class Disagreement(Exception):
    """Two contestants gave different answers."""


class Skipped(Exception):
    """A contestant cannot run here; says why."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One program of a contest.

    Attributes:
        name: what the figures call it.
        module: `python -m` this.
        arguments: of the module.
        needs: package that must be importable, "" for none; see `python_with`.
        env: added to the environment.
        check: raises Skipped if it cannot run here; called before the first run.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    needs: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[], object] = lambda: None


@dataclass(slots=True)
class Outcome:
    """What a contestant's runs reported, or why there were none."""

    name: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    skipped: str = ""

    def median(self, key: str) -> float:
        """The median of a reported number."""
        return statistics.median(float(run[key]) for run in self.runs)

    def spread(self, key: str) -> float:
        """(max - min) / median of a reported number."""
        values = [float(run[key]) for run in self.runs]
        middle = statistics.median(values)
        return (max(values) - min(values)) / middle if middle else 0.0

    @property
    def checksum(self) -> str:
        """What all contestants agreed on."""
        return str(self.runs[0]["checksum"]) if self.runs else ""

    def figure(self, what: str) -> Figure:
        """Why it did not run."""
        return Figure(f"{what}: {self.name}", 0, "", skipped=self.skipped)


def venvs() -> Path:
    """Where the peers' environments are."""
    named = os.environ.get("ELF_BENCH_VENVS")
    return Path(named) if named else Path.home() / ".cache" / "elf-bench" / "venvs"


@cache
def python_with(packages: str) -> str:
    """A Python that has the packages (`a, b`): this one, or one of the peers' environments.

    Raises:
        Skipped: none has it.
    """
    for python in (sys.executable, *sorted(map(str, venvs().glob("*/bin/python")))):
        done = subprocess.run([python, "-c", f"import {packages}"], capture_output=True, check=False)
        if done.returncode == 0:
            return python
    raise Skipped(f"{packages} is not installed here or in {venvs()} (make bench-venvs)")


def core() -> int:
    """The core that contestants run on: the last one, since the system's own work tends to the first."""
    return max(os.sched_getaffinity(0))


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """One thread for every library that has a say in it; inputs where this process has them."""
    return {
        **os.environ,
        **dict.fromkeys(THREADS, "1"),
        "ELF_BENCH_DATA": str(data.directory()),
        "PYTHONPATH": str(ROOT),
        **extra,
    }


def run(contestants: Sequence[Contestant], *, repeats: int = 1) -> dict[str, Outcome]:
    """Run all, round by round, so that a noisy minute hits all alike.

    Raises:
        Disagreement: the checksums differ.
        RuntimeError: a program failed.
    """
    outcomes = {contestant.name: Outcome(contestant.name) for contestant in contestants}
    for _ in range(repeats):
        for contestant in contestants:
            outcome = outcomes[contestant.name]
            if outcome.skipped or (outcome.runs and outcome.runs[0].get("cpu_s", 0) > REPEAT_S_MAX):
                continue
            try:
                contestant.check()
                python = python_with(f"{contestant.needs}, pyarrow") if contestant.needs else sys.executable
            except Skipped as reason:
                outcome.skipped = str(reason)
                continue
            outcome.runs.append(_run_once(contestant, python))
    agree(outcomes.values())
    return outcomes


def agree(outcomes: Sequence[Outcome] | Any) -> None:
    """Raise Disagreement unless all runs have the same checksum."""
    sums: dict[str, list[str]] = {}
    for outcome in outcomes:
        for report in outcome.runs:
            sums.setdefault(str(report["checksum"]), []).append(outcome.name)
    if len(sums) > 1:
        raise Disagreement(f"results differ: {sums}")


def _run_once(contestant: Contestant, python: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-m", contestant.module, *contestant.arguments],
        cwd=ROOT,
        env=environment(contestant.env),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        preexec_fn=partial(os.sched_setaffinity, 0, {core()}),
    )
    if done.returncode:
        raise RuntimeError(f"{contestant.name} failed:\n{done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
