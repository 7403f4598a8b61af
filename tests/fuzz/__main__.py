"""python -m tests.fuzz [NAME ...] [--inputs N] [--seed S] [--measure-all] [--replay FILE] [--keep DIR]."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.fuzz.catalog import NAMES, build
from tests.fuzz.engine import Campaign, Harness, Outcome


def main() -> int:
    """Run what is asked for; a line of JSON for each harness; 1 if anything was found."""
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    arguments.add_argument("--inputs", type=int, help="per harness; by default those that it states")
    arguments.add_argument("--times", type=float, default=1, help="so many times the inputs it states")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--measure-all", action="store_true", help="the memory of every input")
    arguments.add_argument("--replay", type=Path, help="give one harness the bytes of a file")
    arguments.add_argument("--keep", type=Path, help="where inputs with findings are written")
    options = arguments.parse_args()
    found = 0
    for name in options.names or NAMES:
        harness = build(name)
        if options.replay:
            with harness.around():
                harness.run(options.replay.read_bytes())
            continue
        campaign = Campaign(harness, options.seed, measure_all=options.measure_all)
        outcome = campaign.run(options.inputs or int(harness.inputs * options.times))
        print(json.dumps(summary(harness, outcome)), flush=True)
        for number, (place, (text, data)) in enumerate(outcome.findings.items()):
            found += 1
            print(f"--- {name}: {place}\n{text}\ninput: {data[:2000]!r}", file=sys.stderr)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{name}-{options.seed}-{number}").write_bytes(data)
    return 1 if found else 0


def summary(harness: Harness, outcome: Outcome) -> dict[str, object]:
    """What is worth keeping of a run."""
    return {
        "name": harness.name,
        "about": harness.about,
        "inputs": outcome.inputs,
        "refused_share": round(outcome.refused / max(1, outcome.calls), 3),
        "slowest_ms": round(outcome.slowest_s * 1000, 1),
        "largest_mib": round(outcome.largest_bytes / 2**20, 1),
        "seconds": round(outcome.seconds, 1),
        "findings": sorted(outcome.findings),
    }


if __name__ == "__main__":
    sys.exit(main())
