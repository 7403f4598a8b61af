"""Safeguards of the trees, switched off one at a time: the checks must notice each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.srt import barrier, membership, multicast, parts, uplink
from elfmesh.srt.coverage import Verdict, judge
from tests.sim.swarm.ablations import trees
from tests.sim.world.grove import Grove
from tests.sim.world.network import Faults

Scenario = Callable[[int], None]
"""Raises AssertionError if anything is wrong; the number of seeds to try where one may not show it."""
ROUGH = Faults(loss=0.05, duplicate=0.1, reorder=0.2, reorder_delay=0.1)


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a safeguard."""


def once(original: Callable[..., None]) -> Callable[..., None]:
    """A message is sent, but never again."""

    def transmit(self: Any, parent: Any, waiting: Any) -> None:
        if waiting.tries:
            waiting.due = None
        else:
            original(self, parent, waiting)

    return transmit


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


def blind(verdict: Verdict) -> Callable[[int, int], Verdict]:
    return lambda coverage, known: Verdict.NEW if (v := judge(coverage, known)) is verdict else v


ABLATIONS: dict[str, tuple[Scenario, Any, str, Any]] = {
    "duplicates are dropped": (rough_run, barrier, "judge", blind(Verdict.DUPLICATE)),
    "overlaps are detected": (partitions, barrier, "judge", blind(Verdict.OVERLAP)),
    "an overlap is collected again": (partitions, uplink.Uplink, "overlap", nothing),
    "what is not acknowledged is sent again": (
        rough_run,
        uplink.Uplink,
        "_transmit",
        once(uplink.Uplink._transmit),
    ),
    "a new parent gets what the last one got": (crashes, parts.Shelf, "__iter__", lambda self: iter(())),
    "children are strictly farther than their parent": (
        shape,
        membership.Membership,
        "_closer",
        lambda self, contact, than: True,
    ),
    "latecomers get the log": (latecomers, multicast.Multicasts, "child_joined", nothing),
    "multicasts are sent again": (lossy_multicast, multicast, "RETRY_S", 1e9),
}


@pytest.mark.parametrize("scenario", [rough_run, crashes, partitions, shape, latecomers, lossy_multicast])
def test_the_scenarios_pass_with_all_safeguards(scenario: Scenario) -> None:
    scenario(2)


@pytest.mark.parametrize("safeguard", ABLATIONS)
def test_without_this_a_check_fails(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, owner, name, instead = ABLATIONS[safeguard]
    monkeypatch.setattr(owner, name, instead)
    if name == "RETRY_S":
        monkeypatch.setattr(owner, "RETRY_S_MAX", instead)
    with pytest.raises(AssertionError):
        scenario(20)
