"""`python -m tests.sim.swarm --seed N`: one seed with a readable trace; `--soak N`: many, in parallel.

`--seed N --keep NAME` keeps the scenario of a seed under a name, `--kept NAME` replays it. `--schedules N`
runs N workloads, each under several schedules, and compares their clean records.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.sim.swarm import report
from tests.sim.swarm.ablations.catalog import REGISTRY, without
from tests.sim.swarm.judging import invariants
from tests.sim.swarm.judging.invariants import NOT_YET
from tests.sim.swarm.measure import SEEDS_MAX, measure
from tests.sim.swarm.regressions import keep
from tests.sim.swarm.regressions import scenario as found
from tests.sim.swarm.run import check, run
from tests.sim.swarm.schedules import explored
from tests.sim.swarm.soak import quiet, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.swarm")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--keep", metavar="NAME", help="write what the seed means now, as a regression")
    parser.add_argument("--kept", metavar="NAME", help="replay a scenario that was kept")
    parser.add_argument("--ablate", help="without this safeguard")
    parser.add_argument("--quiet", action="store_true", help="no trace")
    parser.add_argument("--soak", type=int, metavar="N", help="run the seeds from --first on, in parallel")
    parser.add_argument("--schedules", type=int, metavar="N", help="explore N workloads, each under several")
    parser.add_argument("--ablations", nargs="*", metavar="NAME", help="how many seeds each safeguard costs")
    parser.add_argument("--most", type=int, default=SEEDS_MAX, help="no seed above, per safeguard")
    parser.add_argument("--cpu-s", type=float, default=600.0, help="processor time per safeguard")
    parser.add_argument("--report", action="store_true", help="write docs/reliability.md from the journals")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int)
    parser.add_argument(
        "--journal", type=Path, default=Path("build/soak-sim.jsonl"), help="what was run already"
    )
    parser.add_argument("--ablation-journal", type=Path, default=Path("build/ablations-sim.jsonl"))
    options = parser.parse_args()
    if options.soak is not None:
        options.journal.parent.mkdir(parents=True, exist_ok=True)
        seeds = range(options.first, options.first + options.soak)
        return min(1, soak(seeds, options.journal, options.processes))
    if options.schedules is not None:
        quiet()
        return explored(range(options.first, options.first + options.schedules))
    if options.ablations is not None:
        options.ablation_journal.parent.mkdir(parents=True, exist_ok=True)
        measure(options.ablation_journal, options.ablations or REGISTRY, options.most, options.cpu_s)
        return 0
    if options.report:
        report.put("simulator", report.simulator(options.journal))
        report.put("ablations", report.ablations(options.ablation_journal))
        return 0
    if options.seed is None and options.kept is None:
        parser.error("--seed N, --kept NAME, --soak N, --ablations or --report")
    if options.keep is not None:
        print(keep(options.seed, options.keep))
        return 0
    return replay(
        options.seed if options.kept is None else options.kept, options.ablate, trace=not options.quiet
    )


def replay(seed: int | str, ablation: str | None, *, trace: bool) -> int:
    """Run one seed or kept scenario and say what is wrong."""
    quiet()
    if ablation is not None and (trees := REGISTRY[ablation].trees) is not None:
        assert isinstance(seed, int), "the trees alone have seeds only"
        with without(ablation):
            trees(seed)
        return 0
    scenario = found(seed)
    if ablation is not None:
        scenario = REGISTRY[ablation].shape(scenario)
    print(scenario.describe())
    began = time.process_time()
    with without(ablation):
        outcome = run(scenario, print if trace else None)
    used = time.process_time() - began
    print(
        f"{outcome.seconds:.0f} s simulated in {used:.1f} s, {outcome.faults} faults,"
        f" {outcome.crashes} restarts, trace {outcome.trace}"
    )
    wrong = check(outcome, tuple(invariants.ALL))
    for name, lines in wrong.items():
        print(f"\n{name}: {len(lines)}" + (f" (not enforced: {NOT_YET[name]})" if name in NOT_YET else ""))
        for line in lines[:10]:
            print(f"  {line}")
    return 1 if set(wrong) - set(NOT_YET) else 0


if __name__ == "__main__":
    sys.exit(main())
