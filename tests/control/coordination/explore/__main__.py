"""Explores more dataflows than the tests, and prints unsound labels and the precision of labels."""

from __future__ import annotations

import random
import sys

from elfmesh.control.coordination.labels import Severity
from tests.control.coordination.explore.worlds import explore, precision, random_world

GOALS = {Severity.RUN: 0.85, Severity.INST: 0.7, Severity.DIVERGE: 0.5}
"""Least share of the causes of a label of which a schedule shows the anomaly."""


def main(count: int, schedules: int) -> int:
    """Return 1 if a label is unsound, or too few anomalies are seen."""
    unsound = 0
    for seed in range(count):
        for each in explore(random_world(random.Random(seed)), schedules, seed):
            if each.is_unsound:
                unsound += 1
                print(f"seed {seed}: {each}")
    shares = precision(range(count), schedules)
    print(f"{count} dataflows, {unsound} unsound labels")
    for label, share in shares.items():
        print(f"{label}: {share:.0%} seen, {GOALS[label]:.0%} wanted")
    return 1 if unsound or any(share < GOALS[label] for label, share in shares.items()) else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
