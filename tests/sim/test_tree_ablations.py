"""Safeguards of the trees, switched off one at a time: the checks must notice each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.srt.coverage import PartialOverlap
from tests.sim.swarm.ablations import control, trees
from tests.sim.swarm.ablations.names import Patch, always
from tests.sim.world.grove import Grove
from tests.sim.world.network import Faults

Scenario = Callable[[int], None]
"""Raises AssertionError if anything is wrong; the number of seeds to try where one may not show it."""
ROUGH = Faults(loss=0.05, duplicate=0.1, reorder=0.2, reorder_delay=0.1)


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a safeguard."""


def rough_run(seeds: int) -> None:
    grove = Grove(20, 2, seed=4, faults=ROUGH, fanout=3)
    grove.form(60.0)
    grove.declare()
    grove.roll(4)
    grove.check_all(limit=20.0)


def crashes(seeds: int) -> None:
    grove = Grove(20, 2, seed=4, fanout=3)
    grove.form()
    grove.declare()
    grove.roll(3)
    for tree in grove.trees:
        grove.network.crash(grove.closest(tree).me.id)
    grove.roll(3)
    grove.check_all(limit=20.0)


def partitions(seeds: int) -> None:
    for seed in range(seeds):
        trees.partitions(seed)


def shape(seeds: int) -> None:
    grove = Grove(12, 1, seed=2, fanout=2)
    grove.form(2.0)
    grove.check_shape(fanout=2, depth=12)


def latecomers(seeds: int) -> None:
    trees.latecomers(2)


def lossy_multicast(seeds: int) -> None:
    grove = Grove(20, 1, seed=4, faults=Faults(loss=0.1), fanout=3)
    grove.form(60.0)
    answers = [len(grove.publish(grove.trees[0], b"%d" % number, 8.0).answers) for number in range(5)]
    assert answers == [20] * 5


ABLATIONS: dict[str, tuple[Scenario, Callable[[], list[Patch]]]] = {
    "duplicates": (rough_run, lambda: control.blind("duplicates", PartialOverlap.DUPLICATE)),
    "disjoint-merge:trees": (
        partitions,
        lambda: control.blind("disjoint-merge:trees", PartialOverlap.OVERLAP),
    ),
    "repair:trees": (partitions, always(("repair:trees", nothing))),
    "retransmit": (rough_run, control.sent_once),
    "shelf": (crashes, always(("shelf", lambda self: iter(())))),
    "outward": (shape, always(("outward", lambda self, contact, than: True))),
    "multicast-latecomers": (latecomers, always(("multicast-latecomers", nothing))),
    "multicast-retry": (lossy_multicast, always(("multicast-retry", lambda tries: 1e9))),
}
"""By the declared name; `outward`: children are strictly farther from the root than their parent."""


@pytest.mark.parametrize("scenario", [rough_run, crashes, partitions, shape, latecomers, lossy_multicast])
def test_the_scenarios_pass_with_all_safeguards(scenario: Scenario) -> None:
    scenario(2)


@pytest.mark.parametrize("safeguard", ABLATIONS)
def test_without_this_a_check_fails(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, patches = ABLATIONS[safeguard]
    for owner, attribute, value in patches():
        monkeypatch.setattr(owner, attribute, value)
    with pytest.raises(AssertionError):
        scenario(20)
