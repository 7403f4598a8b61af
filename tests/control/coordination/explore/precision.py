"""How precise labels are: of the causes of a label, the share of which a schedule shows the anomaly.

A cause is an output whose label is higher than those of its inputs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.labels import Severity
from tests.control.coordination.explore.worlds import Witness, explore, random_world


@dataclass
class Found:
    """What schedules of some dataflows have shown, by label; `unsound` has the anomalies above a label."""

    causes: Counter[Severity] = field(default_factory=Counter)
    seen: Counter[Severity] = field(default_factory=Counter)
    unsound: list[tuple[int, Witness]] = field(default_factory=list)

    def add(self, seed: int, schedules: int) -> None:
        """Explore one dataflow."""
        world = random_world(random.Random(seed))
        derivations = analyse(world.graph).derivations
        for each in explore(world, schedules, seed):
            if each.is_unsound:
                self.unsound.append((seed, each))
            steps = derivations[each.interface]
            if any(one.anomaly for one in steps) and each.label > max(one.input.severity for one in steps):
                self.causes[each.label] += 1
                self.seen[each.label] += each.seen >= each.label


def precision(seeds: Iterable[int], schedules: int) -> Mapping[Severity, float]:
    """Return for each label above Async the share of causes of which a schedule shows the anomaly."""
    found = Found()
    for seed in seeds:
        found.add(seed, schedules)
    labels = (label for label in Severity if label > Severity.ASYNC)
    return {label: found.seen[label] / found.causes[label] for label in labels}
