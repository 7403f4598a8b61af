"""Writes the simulator's sections of docs/reliability.md from the journals of what was run.

Owns the lines between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; all others are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.reliability import write_section
from tests.sim.swarm.ablations import REGISTRY
from tests.sim.swarm.invariants import ALL, NOT_YET
from tests.sim.swarm.soak import many, one

SEEDS_MAX = 300
AT_ONCE = 4
"""Seeds of one safeguard in flight: more would be run in vain when the first of them tells."""


def entries(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def measure(journal: Path, seeds: range, processes: int | None, names: Iterable[str] = REGISTRY) -> None:
    """How many seeds each safeguard's absence survives; what the journal has is not run again.

    A seed that fails with all safeguards says nothing about one of them.
    """
    known = {entry["safeguard"]: entry for entry in entries(journal)}
    sound = {seed: not one(seed)["wrong"] for seed in seeds[:AT_ONCE]}
    with journal.open("a") as file:
        for name in names:
            tried = known.get(name, {}).get("seeds", 0)
            if known.get(name, {}).get("invariant"):
                continue
            for start in range(seeds.start + tried, seeds.stop, AT_ONCE):
                batch = range(start, min(start + AT_ONCE, seeds.stop))
                sound |= {seed: not one(seed)["wrong"] for seed in batch if seed not in sound}
                found = sorted(many(batch, processes, name), key=lambda entry: int(entry["seed"]))
                told = next((entry for entry in found if entry["wrong"] and sound[entry["seed"]]), None)
                tried = (told["seed"] if told else batch[-1]) - seeds.start + 1
                if told is not None:
                    break
            invariant = next(iter(told["wrong"])) if told else ""
            entry = {"safeguard": name, "seeds": tried, "invariant": invariant}
            file.write(json.dumps(entry) + "\n")
            file.flush()
            print(entry, flush=True)


def simulator(journal: Path) -> list[str]:
    """What was simulated, and which invariants it is held against."""
    done = entries(journal)
    hours = sum(entry.get("simulated_s", 0.0) for entry in done) / 3600
    lines = ["| | |", "|---|---|", f"| seeds | {len(done):,} |", f"| simulated cluster-hours | {hours:.1f} |"]
    fields = ("faults", "crashes", "messages", "frames", "intervals")
    lines += [f"| {field} | {sum(entry.get(field, 0) for entry in done):,} |" for field in fields]
    cpu_s = sum(entry["cpu_s"] for entry in done)
    lines.append(f"| processor seconds per seed | {cpu_s / max(1, len(done)):.2f} |")
    failing = [f"seed {entry['seed']}" for entry in done if entry["wrong"]]
    lines.append(f"| seeds that fail | {', '.join(failing) or 'none'} |")
    lines += ["", "| invariant | what it says | enforced |", "|---|---|---|"]
    for name, rule in ALL.items():
        says = (rule.__doc__ or "").splitlines()[0]
        lines.append(f"| {name} | {says} | {'no: ' + NOT_YET[name] if name in NOT_YET else 'yes'} |")
    return lines


def ablations(journal: Path) -> list[str]:
    """What each safeguard's absence costs to find."""
    newest = {entry["safeguard"]: entry for entry in entries(journal)}
    lines = ["| safeguard | promise | seeds to catch | by |", "|---|---|---|---|"]
    for name, ablation in REGISTRY.items():
        entry = newest.get(name)
        if entry is None:
            seeds, by = "not measured", ""
        elif entry["invariant"]:
            seeds, by = str(entry["seeds"]), entry["invariant"]
        else:
            seeds, by = f"more than {entry['seeds']}", "nothing yet"
        lines.append(f"| {ablation.what} (`{name}`) | {ablation.promise} | {seeds} | {by} |")
    return lines


def put(name: str, lines: list[str]) -> None:
    """Bring a generated section up to date."""
    write_section(name, "\n".join([f"## {name.capitalize()}", "", *lines]))
