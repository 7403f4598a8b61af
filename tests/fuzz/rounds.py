"""Fuzzing for as long as it takes: python -m tests.fuzz.rounds DIRECTORY [NAME ...] --inputs N [--docs].

Rounds of all harnesses, or of those named, each in a process of its own and with a seed of its own, until
every harness had N inputs. What was done is in the directory; a run that was ended goes on where it was.
`--docs` writes the figures into docs/reliability.md; harnesses that were not run keep their row there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.fuzz.catalog import NAMES
from tests.reliability import PAGE, write_section

ROUNDS_OF_CI = 10
"""A process runs so many times what CI runs, by default: each harness for about a minute."""

INTRODUCTION = """## Fuzzing

Hostile input for everything that reads what others write. Each input is taken, or refused by a declared
error, within 20,000 calls of functions and 20 for each of its bytes (1,000 for each byte of a query), 64
MiB, and 5 s of processor time; anything else is a finding. Inputs are mutations of valid examples, sealed
again where a checksum would stop them; `cores` are scripts of messages to a whole agent in the middle of a
job, and `votes` to one acceptor; `http` is a real agent. `make test` runs 150 inputs of each, and `make
test-all` runs 30,000 of each (tests/fuzz/test_fuzz.py) but of those that cost more: 6,000 `partials` and
texts of `elf-ql`, which cost 1 to 1.5 ms each, since what is taken is merged and finished too, and since
sqlglot reads each; 6,000 `checkpoints`, `results-logs` and `votes`, which cost 0.6 to 1 ms; 3,000 requests of
`http`, which cost two processes 1 ms and a wait.
`make test-nightly` runs 5 * 10^5 of each, `make fuzz-inputs` up to 10^8, `make fuzz-guided`
with coverage as guide, `make fuzz` the sanitized C modules. Inputs that found something
are tests in tests/fuzz/test_findings.py.

Written by `python -m tests.fuzz.rounds`.

| harness | what | inputs | refused | slowest | most memory measured | open findings |
|---|---|---|---|---|---|---|
"""


def main() -> int:
    """Rounds until there were enough; 1 if anything was found."""
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz.rounds", description=__doc__)
    arguments.add_argument("directory", type=Path)
    arguments.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME")
    arguments.add_argument("--inputs", type=int, default=10**8)
    arguments.add_argument("--times", type=int, default=ROUNDS_OF_CI, help="a round is so much of CI's")
    arguments.add_argument("--each", type=int, help="inputs of a round, instead of that")
    arguments.add_argument("--docs", action="store_true")
    options = arguments.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    path = options.directory / "rounds.ndjson"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    while short := [name for name in options.names or NAMES if total(done, name) < options.inputs]:
        for name in short:
            seed = 1 + sum(each["name"] == name for each in done)
            size = (
                ["--times", str(options.times)] if options.each is None else ["--inputs", str(options.each)]
            )
            done.append(round_(name, seed, size, options.directory))
            with path.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
            print(json.dumps(done[-1]), flush=True)
    if options.docs:
        write_section("fuzzing", INTRODUCTION + "\n".join(table(done, PAGE.read_text())))
    return 1 if any(each["findings"] for each in done) else 0


def total(done: list[dict[str, Any]], name: str) -> int:
    """Inputs that a harness had so far."""
    return sum(each["inputs"] for each in done if each["name"] == name)


def round_(name: str, seed: int, size: list[str], directory: Path) -> dict[str, Any]:
    """One harness in a process of its own; `size` is how the command line says how many inputs."""
    command = [sys.executable, "-m", "tests.fuzz", name, "--seed", str(seed), "--keep", str(directory)]
    ran = subprocess.run([*command, *size], capture_output=True, text=True, check=False)
    if not ran.stdout:  # the process itself has ended: a finding as well
        return {"name": name, "seed": seed, "inputs": 1, "findings": [ran.stderr[-2000:]]}
    found: dict[str, Any] = json.loads(ran.stdout)
    return {**found, "seed": seed}


def table(done: list[dict[str, Any]], page: str = "") -> list[str]:
    """The rows of the page; those of harnesses that were not run are the ones that it has."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in done:
        groups[each["name"]].append(each)
    rows = []
    kept = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for name in NAMES:
        if not groups[name]:
            rows += [kept[name]] if name in kept else []
            continue
        group = [each for each in groups[name] if "about" in each]
        inputs = sum(each["inputs"] for each in group)
        refused = sum(each["refused_share"] * each["inputs"] for each in group) / max(1, inputs)
        slowest = max((each["slowest_ms"] for each in group), default=0)
        largest = max((each["largest_mib"] for each in group), default=0)
        findings = len({place for each in groups[name] for place in each["findings"]})
        about = group[0]["about"] if group else ""
        figures = f"{inputs:,} | {refused:.0%} | {slowest:g} ms | {largest:g} MiB | {findings}"
        rows.append(f"| `{name}` | {about} | {figures} |")
    return rows


if __name__ == "__main__":
    sys.exit(main())
