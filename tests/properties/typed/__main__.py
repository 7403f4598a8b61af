"""python -m tests.properties.typed [--seeds N] [--first S] [--minutes M] [--until N] [--keep FILE] ..."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from elfmesh import spark_bridge
from tests.properties.typed import kept
from tests.properties.typed.hunting import Hunt
from tests.spark_tests import SESSION

SETTINGS = SESSION | {
    "spark__sql__shuffle__partitions": "1",
    "spark__default__parallelism": "1",
    "spark__sql__codegen__factoryMode": "NO_CODEGEN",
}


def main() -> int:
    """Compare the statements of some seeds; print what fails and what was counted; 1 if anything fails."""
    arguments = argparse.ArgumentParser(prog="python -m tests.properties.typed", description=__doc__)
    arguments.add_argument("--seeds", type=int, default=10, help="so many, each some 60 statements")
    arguments.add_argument("--first", type=int, default=0, help="the first of them")
    arguments.add_argument("--until", type=int, default=10**9, help="end after so many comparisons")
    arguments.add_argument("--minutes", type=float, default=1e9, help="begin no seed after so long")
    arguments.add_argument("--as-found", action="store_true", help="do not make failing statements smaller")
    arguments.add_argument("--keep", type=Path, help="append findings there, as lines of kept.jsonl")
    arguments.add_argument("--answer", action="store_true", help="ask Spark again about the kept cases")
    options = arguments.parse_args()
    spark = spark_bridge.local_session("elfmesh random statements", cores=1, **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True  # what Spark refuses is counted
    if options.answer:
        kept.ask_again(spark)
        return 0
    hunt, began, reported = Hunt(spark, shrinking=not options.as_found), time.monotonic(), 0
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() - began > options.minutes * 60 or hunt.compared >= options.until:
            break
        hunt.seed(seed)
        for finding in hunt.findings[reported:]:
            print(finding, flush=True)
            if options.keep:
                with options.keep.open("a") as file:
                    file.write(finding.line() + "\n")
        reported = len(hunt.findings)
        if not seed % 10:
            print(f"seed {seed}: {hunt.compared} compared", flush=True)
    spark.stop()
    statements = sum(hunt.counts.values())
    print(f"{hunt.compared} comparisons of {statements} statements in {time.monotonic() - began:.0f} s")
    for (kind, state), count in sorted(hunt.counts.items()):
        print(f"{count:8} {kind}: {state}")
    print("equal, with " + ", ".join(f"{name} {count}" for name, count in hunt.features.most_common()))
    for why, count in hunt.refusals.most_common(60):
        print(f"{count:8} {why}\n           {hunt.examples[why][:300]}")
    return 1 if hunt.findings else 0


if __name__ == "__main__":
    sys.exit(main())
