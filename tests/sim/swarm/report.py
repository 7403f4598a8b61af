"""Writes the simulator's sections of docs/reliability.md from the journals of what was run.

Owns the lines between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; all others are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.reliability import write_section
from tests.sim.swarm.ablations.catalog import REGISTRY
from tests.sim.swarm.judging.invariants import ALL, NOT_YET
from tests.sim.swarm.measure import SEEDS_MAX, entries


def simulator(journal: Path) -> list[str]:
    """What was simulated, and which invariants it is held against."""
    done = entries(journal)
    hours = sum(entry.get("simulated_s", 0.0) for entry in done) / 3600
    lines = [
        "| | |",
        "|---|---|",
        f"| seeds | {len(done):,}: {_runs(entry['seed'] for entry in done)} |",
        f"| cluster-hours: virtual time of a cluster of any size | {hours:.1f} |",
    ]
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


def _runs(numbers: Iterable[int]) -> str:
    """Numbers in words: 0 to 3, 7."""
    runs: list[tuple[int, int]] = []
    for number in sorted({*numbers}):
        joined = bool(runs) and runs[-1][1] == number - 1
        runs[-1:] = [(runs[-1][0], number)] if joined else [*runs[-1:], (number, number)]
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)


def ablations(journal: Path) -> list[str]:
    """What each safeguard's absence costs to find."""
    newest = {entry["safeguard"]: entry for entry in entries(journal)}
    caught = sum(bool(newest.get(name, {}).get("invariant")) for name in REGISTRY)
    lines = [
        "The product declares each safeguard by name (`elfmesh/safeguards.py`), and only tests take one out;",
        f"{caught} of {len(REGISTRY)} are",
        f"noticed by a seed. Asked are up to {SEEDS_MAX} seeds, each with the faults that it is there for",
        "and little else (`shape` in tests/sim/swarm/ablations/catalog.py); a seed tells if it breaks an "
        "invariant",
        "that it holds with all safeguards. `python -m tests.sim.swarm --seed SEED --ablate NAME` shows how.",
        "*The trees alone* are forests of agents without jobs (tests/sim/swarm/ablations/trees.py): the jobs",
        "above them survive the absence by safeguards of their own.",
        "",
        "| safeguard | promise | seeds to catch | the seed | by |",
        "|---|---|---|---|---|",
    ]
    for name, ablation in REGISTRY.items():
        entry = newest.get(name)
        if entry is None:
            by = f"`{ablation.elsewhere}` notices" if ablation.elsewhere else "not measured yet"
            notified = f"| | {by}"
        elif entry["invariant"]:
            notified = f"{entry['seeds']} | {entry['seed']} | {entry['invariant']}"
        else:
            by = f"no seed; `{ablation.elsewhere}` notices" if ablation.elsewhere else "nothing yet"
            notified = f"more than {entry['seeds']} | | {by}"
        lines.append(f"| {ablation.what} (`{name}`) | {ablation.promise} | {notified} |")
    return lines


def put(name: str, lines: list[str]) -> None:
    """Bring a generated section up to date."""
    write_section(name, "\n".join([f"## {name.capitalize()}", "", *lines]))
