"""Many seeds on all cores: resumable, a line of JSON per seed, failing seeds with what replays them."""

from __future__ import annotations

import gc
import json
import logging
import os
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.sim.swarm.regressions import OPEN_SEEDS

REPLAY = "python -m tests.sim.swarm --seed {seed}"
KEPT_REPLAY = "python -m tests.sim.swarm --kept {name}"


def replay_of(seed: int | str) -> str:
    """What runs a seed, or a kept scenario, with its trace."""
    return REPLAY.format(seed=seed) if isinstance(seed, int) else KEPT_REPLAY.format(name=seed)


def quiet() -> None:
    """The agents' own log says what the trace of a seed says better."""
    logging.getLogger("elf").setLevel(logging.CRITICAL + 1)


def one(seed: int | str) -> dict[str, Any]:
    """Run a seed or a kept scenario; plain values, for another process or a file."""
    from tests.sim.swarm.regressions import scenario
    from tests.sim.swarm.run import check, run

    quiet()
    gc.collect()
    gc.freeze()  # what is left is the program, and what the seeds before hold in its caches
    began = time.process_time()
    try:
        outcome = run(scenario(seed))
        wrong = check(outcome)
    except Exception as error:  # a seed that breaks the simulation is a finding like any other
        return {
            "seed": seed,
            "wrong": {
                "no bugs": [f"{type(error).__name__}: {error}", *traceback.format_exc().splitlines()[-6:]]
            },
            "cpu_s": time.process_time() - began,
        }
    return {
        "seed": seed,
        "wrong": {name: lines[:5] for name, lines in wrong.items()},
        "cpu_s": round(time.process_time() - began, 3),
        "simulated_s": round(outcome.seconds, 3),
        "hosts": outcome.scenario.hosts,
        "faults": outcome.faults,
        "crashes": outcome.crashes,
        "messages": outcome.messages,
        "intervals": sum(len(published) for published in outcome.final.values()),
        "frames": sum(len(sealed) for sealed in outcome.history.contributions.values()),
        "trace": outcome.trace,
    }


def many(seeds: Iterable[int], processes: int | None = None) -> Iterator[dict[str, Any]]:
    """Run seeds in parallel, as they come to an end; each process serves many, since imports cost more."""
    count = processes or os.cpu_count() or 1
    if count == 1:
        yield from (one(seed) for seed in seeds)
        return
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(one, seed) for seed in seeds]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def soak(seeds: range, journal: Path, processes: int | None = None) -> int:
    """Run what the journal does not have yet; the number of failing seeds, but for those that are open.

    Open is a seed of `regressions.OPEN_SEEDS`: why it fails stands there, and one that holds again is told.
    """
    done = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    had = {entry["seed"] for entry in done}
    failing = [entry for entry in done if entry["wrong"] and entry["seed"] in seeds]
    todo = [seed for seed in seeds if seed not in had]
    print(f"{len(todo)} seeds to run, {len(had)} in {journal}")
    for entry in failing:
        _tell(entry)
    with journal.open("a") as file:
        for number, entry in enumerate(many(todo, processes), 1):
            file.write(json.dumps(entry) + "\n")
            file.flush()
            done.append(entry)
            if entry["wrong"]:
                failing.append(entry)
                _tell(entry)
            if number % 100 == 0:
                print(f"{number} of {len(todo)} seeds, {len(failing)} fail", flush=True)
    mine = [entry for entry in done if entry["seed"] in seeds]
    hours = sum(entry.get("simulated_s", 0.0) for entry in mine) / 3600
    cpu_s = sum(entry["cpu_s"] for entry in mine)
    for entry in mine:
        if entry["seed"] in OPEN_SEEDS and not entry["wrong"]:
            print(f"HOLDS AGAIN, and is open in regressions.py: seed {entry['seed']}")
    new = [entry for entry in failing if entry["seed"] not in OPEN_SEEDS]
    notified = f"{len(new)} fail" + (
        f", {len(failing) - len(new)} more are open" if len(new) < len(failing) else ""
    )
    print(f"{len(mine)} seeds, {hours:.1f} cluster-hours, {cpu_s:.0f} s of processor; {notified}")
    return len(new)


def _tell(entry: dict[str, Any]) -> None:
    how = "OPEN" if entry["seed"] in OPEN_SEEDS else "FAILS"
    print(f"{how} {REPLAY.format(seed=entry['seed'])}", flush=True)
    for name, lines in entry["wrong"].items():
        print(f"  {name}: {lines[0]}")
