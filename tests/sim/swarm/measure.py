"""How many seeds it takes to notice that a safeguard is gone.

Owns the counting. Seeds are asked in order, each with what the safeguard is there for (`Ablation.shape`). A
seed tells only if it breaks an invariant that it holds with all safeguards; then also one that is not
enforced for every seed yet counts, since the same seed holds it.
"""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.sim.swarm.ablations.catalog import REGISTRY, without
from tests.sim.swarm.ablations.trees import Trees
from tests.sim.swarm.judging import invariants
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.soak import quiet

SEEDS_MAX = 300
TREES = "the trees alone"
"""Instead of an invariant of jobs: see `ablations_trees`."""


def entries(journal: Path) -> list[dict[str, Any]]:
    """The lines of a journal."""
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def measure(journal: Path, names: Iterable[str], most: int = SEEDS_MAX, cpu_s: float = 600.0) -> None:
    """Run each of these without its safeguard until a seed tells; a line of JSON each into the journal.

    Args:
        journal: what is there already is gone on with, or not run again if it was caught.
        names: of safeguards.
        most: only seeds below this number.
        cpu_s: processor time for one safeguard, at most; it is gone on with the next time.
    """
    known = {entry["safeguard"]: entry for entry in entries(journal)}
    sound: dict[Scenario, set[str]] = {}
    for name in names:
        entry = known.get(name, {"safeguard": name, "seeds": 0, "next": 0, "invariant": ""})
        if not entry["invariant"]:
            entry = _go_on(entry, most, cpu_s, sound)
            with journal.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            print(entry, flush=True)


def _go_on(entry: dict[str, Any], most: int, cpu_s: float, sound: dict[Scenario, set[str]]) -> dict[str, Any]:
    name, tried, following = entry["safeguard"], entry["seeds"], entry["next"]
    began = time.process_time()
    for seed in range(following, most):
        ablation = REGISTRY[name]
        if time.process_time() - began > cpu_s:
            break
        tried, following = tried + 1, seed + 1
        if ablation.trees is not None:
            if _felled(ablation.trees, seed, name) and not _felled(ablation.trees, seed, None):
                return {**entry, "seeds": tried, "next": following, "seed": seed, "invariant": TREES}
            continue
        scenario = ablation.asked(seed)
        found = broken(scenario, name)
        if found and scenario not in sound:
            sound[scenario] = set(broken(scenario, None))
        notified = [invariant for invariant in found if invariant not in sound.get(scenario, ())]
        if notified:
            return {**entry, "seeds": tried, "next": following, "seed": seed, "invariant": notified[0]}
    else:
        following = most
    return {**entry, "seeds": tried, "next": following}


def _felled(trees: Trees, seed: int, name: str | None) -> bool:
    """Whether the trees alone break their promise without a safeguard."""
    try:
        with without(name):
            trees(seed)
    except AssertionError:
        return True
    return False


def broken(scenario: Scenario, name: str | None) -> list[str]:
    """The invariants that a scenario breaks without a safeguard."""
    quiet()
    gc.collect()
    with without(name):
        return _judged(scenario, name)


def _judged(scenario: Scenario, name: str | None) -> list[str]:
    try:
        return [*check(run(scenario), tuple(invariants.ALL))]
    except Exception:  # a seed that breaks the simulation is a finding like any other
        if name is None:
            traceback.print_exc()
        return ["no bugs"]
