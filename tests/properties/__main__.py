"""python -m tests.properties [--seeds N] [--first S] [--seed S] [--fleets N] [--minutes M] [--keep FILE]."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.properties import fleets
from tests.properties.hunting import Hunt
from tests.properties.kept import as_case


def main() -> int:
    """Compare the statements of some seeds; print what fails and what was counted; 1 if anything fails."""
    arguments = argparse.ArgumentParser(prog="python -m tests.properties", description=__doc__)
    arguments.add_argument("--seeds", type=int, default=20, help="so many, each some 25 statements")
    arguments.add_argument("--first", type=int, default=0, help="the first of them")
    arguments.add_argument("--seed", type=int, help="this one only")
    arguments.add_argument("--fleets", type=int, default=0, help="as well so many fleets of random jobs")
    arguments.add_argument("--minutes", type=float, default=1e9, help="begin no seed after so long")
    arguments.add_argument("--as-found", action="store_true", help="do not make failing statements smaller")
    arguments.add_argument("--keep", type=Path, help="append findings there, as lines of kept.jsonl")
    options = arguments.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    hunt, began, reported = Hunt(shrinking=not options.as_found), time.monotonic(), 0
    for seed in seeds if options.seed is None else [options.seed]:
        if time.monotonic() - began > options.minutes * 60:
            break
        hunt.seed(seed)
        for finding in hunt.findings[reported:]:
            print(finding, flush=True)
            if options.keep:
                with options.keep.open("a") as file:
                    file.write(as_case(finding, None) + "\n")
        reported = len(hunt.findings)
    wrong = run_fleets(range(options.first, options.first + options.fleets), hunt.counts)
    print(f"{sum(hunt.counts.values())} statements in {time.monotonic() - began:.0f} s")
    for (kind, state), count in sorted(hunt.counts.items()):
        print(f"{count:8} {kind}: {state}")
    print("equal, with " + ", ".join(f"{name} {count}" for name, count in hunt.features.most_common()))
    for why, count in hunt.refusals.most_common(40):
        print(f"{count:8} {why}\n           {hunt.examples[why][:500]}")
    return 1 if hunt.findings or wrong else 0


def run_fleets(seeds: range, counts: Counter[tuple[str, str]]) -> int:
    """Random jobs on simulated agents; how many intervals differ."""
    wrong = 0
    for seed in seeds:
        with tempfile.TemporaryDirectory() as root:
            fleet = fleets.run(seed, Path(root))
        counts["agents", "equal"] += fleet.compared - len(fleet.wrong)
        counts["agents", "refused"] += fleet.refused
        wrong += len(fleet.wrong)
        for each in fleet.wrong:
            print(f"--- fleet {seed}: {each}", flush=True)
    if wrong:
        counts["agents", "different"] += wrong
    return wrong


if __name__ == "__main__":
    sys.exit(main())
