"""Checks labels for as long as it takes: python -m tests.control.coordination.explore DIRECTORY [--graphs N]
[--statements N] [--workloads N].

Random dataflows under 24 schedules each, random statements under 8, and random workloads of a simulated fleet
under 6. What was done is in the directory, a line of JSON for each round; a run that was ended goes on where
it was. Prints the figures, and returns 1 if a label is unsound, or too few anomalies were seen.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from elfmesh.control.coordination.labels import Severity
from tests.control.coordination.explore.precision import Found
from tests.local.test_explore import SAMPLE, explored, label, random_statement
from tests.sim.swarm import schedules

GOALS = {Severity.RUN: 0.85, Severity.INST: 0.7, Severity.DIVERGE: 0.5}
"""Least share of the causes of a label of which a schedule shows the anomaly."""

SCHEDULES = 24
LINES = 60
"""Schedules of a dataflow; lines of the sample of a statement."""

Round = dict[str, Any]


def graphs(seeds: Iterable[int]) -> Round:
    found = Found()
    for seed in seeds:
        found.add(seed, SCHEDULES)
    return {
        "unsound": [f"seed {seed}: {each}" for seed, each in found.unsound],
        "causes": {each.name: number for each, number in found.causes.items()},
        "seen": {each.name: number for each, number in found.seen.items()},
    }


def statements(seeds: Iterable[int]) -> Round:
    unsound = []
    for seed in seeds:
        text = random_statement(random.Random(seed))
        if label(text) is not Severity.ASYNC or explored(text, SAMPLE[:LINES]):
            unsound.append(f"seed {seed}: {text}")
    return {"unsound": unsound}


def workloads(seeds: Iterable[int]) -> Round:
    total = schedules.Comparison()
    for seed in seeds:
        total.add(schedules.explore(seed)[0])
    return {"unsound": total.unsound, "clean": total.clean, "open": total.open, "differ": total.seen}


LEVELS: dict[str, tuple[Callable[[Iterable[int]], Round], int]] = {
    "graphs": (graphs, 500),
    "statements": (statements, 50),
    "workloads": (workloads, 1),
}
"""How each level is explored, and seeds of a round."""


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.control.coordination.explore")
    arguments.add_argument("directory", type=Path)
    for name in LEVELS:
        arguments.add_argument(f"--{name}", type=int, default=0, help="so many seeds, with those before")
    options = arguments.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    path = options.directory / "rounds.ndjson"
    done: list[Round] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for name, (explore, size) in LEVELS.items():
        wanted = getattr(options, name)
        while (start := count(done, name)) < wanted:
            seeds = range(start, min(wanted, start + size))
            done.append({"level": name, "seeds": len(seeds), **explore(seeds)})
            with path.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
            for each in done[-1]["unsound"]:
                print(f"{name}: {each}", flush=True)
    return report(done)


def count(done: list[Round], name: str) -> int:
    """Return how many seeds of a level were explored; the next one has this number."""
    return sum(each["seeds"] for each in done if each["level"] == name)


def report(done: list[Round]) -> int:
    """Print the figures of all rounds; returns 1 if a label is unsound, or too few anomalies were seen."""
    failed = False
    for name in LEVELS:
        rounds = [each for each in done if each["level"] == name]
        unsound = sum(len(each["unsound"]) for each in rounds)
        failed |= unsound > 0
        if rounds:
            print(f"{count(done, name)} {name}, {unsound} unsound")
        if rounds and name == "workloads":
            clean, open_, differ = (sum(each[of] for each in rounds) for of in ("clean", "open", "differ"))
            others = f"{differ / open_:.0%} of {open_}" if open_ else "none"
            print(f"{clean} clean intervals equal; of the others, {others} differ")
    causes, seen = Counter[str](), Counter[str]()
    for each in done:
        causes.update(each.get("causes", {}))
        seen.update(each.get("seen", {}))
    for severity, goal in GOALS.items():
        if causes[severity.name]:
            share = seen[severity.name] / causes[severity.name]
            failed |= share < goal
            print(f"{severity}: {share:.1%} of {causes[severity.name]} causes seen, {goal:.0%} wanted")
    return int(failed)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # agents of a fleet whose disks fail
    sys.exit(main())
