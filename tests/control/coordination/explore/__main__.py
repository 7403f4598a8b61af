"""Explores more dataflows than the tests, and prints unsound labels and the precision."""

from __future__ import annotations

import random
import sys

from tests.control.coordination.explore.worlds import explore, precision, random_world

if __name__ == "__main__":
    count, schedules = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(count):
        for each in explore(random_world(random.Random(seed)), schedules, seed):
            if each.is_unsound:
                print(f"seed {seed}: {each}")
    for label, share in precision(range(count), schedules).items():
        print(f"{label}: {share:.0%} seen")
