"""Labels are checked by running dataflows: no schedule shows an anomaly above its label.

A rule that is taken away is noticed within the budget. `python -m tests.control.coordination.explore`
explores more and prints the precision: the share of labels above Async for which a schedule shows the
anomaly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.labels import Severity
from elfmesh.control.coordination.rules import SOUND
from tests.control.coordination.explore.machines import MACHINES, WINDOWED, Machine
from tests.control.coordination.explore.precision import precision
from tests.control.coordination.explore.worlds import KEYS, WATERMARK, explore, random_world
from tests.exhaustive import few

SEEDS = 300
SCHEDULES = 8
BUDGET = 600
"""Dataflows within which a missing rule is noticed."""


LATE = [each for each in MACHINES if each.name in ("late", "count and read", "anti join")]
"""Machines among which S4 matters: a record that a punctuation may overtake, and reads that wait for one."""


def unsound(seed: int, rules: str = "", schedules: int = SCHEDULES) -> list[tuple[str, str]]:
    chosen = SOUND.without(rules) if rules else SOUND
    world = random_world(random.Random(seed), LATE if rules == "S4" else MACHINES)
    found = explore(world, schedules, seed, chosen)
    return [each.interface for each in found if each.is_unsound]


@pytest.mark.parametrize("block", few(range(20), 1))
def test_no_label_is_unsound(block: int) -> None:
    seeds = range(block * SEEDS, (block + 1) * SEEDS)
    assert {seed: found for seed in seeds if (found := unsound(seed))} == {}


@pytest.mark.parametrize("rule", ["S1", "S2", "S3", "S4", "S7", "S8", "S10", "S11", "lineage"])
def test_a_missing_rule_is_noticed(rule: str) -> None:
    seed = next((seed for seed in range(BUDGET) if unsound(seed, rule)), None)
    assert seed is not None
    assert unsound(seed, rule) == unsound(seed, rule), "the seed of a failure replays exactly"


@pytest.mark.parametrize(
    ("rule", "machines", "keys"),
    [
        ("S6", WINDOWED, ("", WATERMARK, WATERMARK)),
        pytest.param("S9", MACHINES, KEYS, marks=pytest.mark.exhaustive),
    ],
)
def test_without_a_rule_that_lowers_labels_they_are_above_all_that_is_seen(
    rule: str, machines: Sequence[Machine], keys: Sequence[str]
) -> None:
    missed = 0
    for seed in range(SEEDS):
        world = random_world(random.Random(seed), machines, keys)
        coarse = analyse(world.graph, SOUND.without(rule))
        for each in explore(world, SCHEDULES, seed):
            assert not each.is_unsound
            missed += coarse.labels["out", *each.interface].severity > each.label
    assert missed


def test_labels_above_async_are_seen() -> None:
    """A labelling that calls everything Diverge would be sound too."""
    shares = precision(range(SEEDS), SCHEDULES)
    assert shares[Severity.RUN] > 0.85
    assert shares[Severity.INST] > 0.7
    assert shares[Severity.DIVERGE] > 0.5
