"""The watch over data that stays in a rack notices what leaves it; seeds draw hosts that keep theirs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest

from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.master.master import Master
from tests.sim.swarm.drawing import wide
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.judging.spreading import crowding_of
from tests.sim.swarm.residing import watch
from tests.sim.swarm.residing.watch import d23_data_stays
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import Scenario, draw
from tests.sim.swarm.soak import quiet

SEED = 601
"""Hosts of one rack keep their data, copies of contributions are kept, and the master of a job is inside."""


def short() -> Scenario:
    return replace(draw(SEED), safety_s=20.0, faults=())


def lived(scenario: Scenario) -> Outcome:
    quiet()
    return run(scenario)


def test_seeds_from_a_number_on_draw_hosts_that_keep_their_data() -> None:
    before = [draw(seed).keeping for seed in range(wide.KEEPING_FROM)]
    assert set(before) == {""}
    drawn = [draw(seed) for seed in range(wide.KEEPING_FROM, wide.KEEPING_FROM + 100)]
    kept = [each for each in drawn if each.keeping]
    assert 30 < len(kept) < 70
    assert all(each.keeping in {f"r{number}" for number in range(each.racks)} for each in kept)


def test_data_of_hosts_is_sent_inside_their_rack_only_and_every_invariant_holds() -> None:
    outcome = lived(short())
    assert outcome.history.residence.sent > 0
    assert check(outcome) == {}


def test_the_watch_notices_hosts_whose_rule_is_not_obeyed() -> None:
    """The watch takes the hosts for keeping, and their agents know no rule."""
    with mock.patch.object(watch, "policy_of", return_value=OPEN):
        outcome = lived(short())
    assert any("went to" in line for line in d23_data_stays(outcome))


def contact(agent: str) -> SimpleNamespace:
    return SimpleNamespace(id=agent.encode())


@pytest.mark.parametrize(
    ("keeping", "paths", "crowded"),
    [("", 3, True), ("r0", 3, False), ("r0", 2, True), ("r1", 3, True)],
)
def test_voters_that_are_sites_may_be_crowded_where_data_has_to_stay(
    keeping: str, paths: int, crowded: bool
) -> None:
    """Sites hold the data of all members (D-23), so their rule precedes the spreading of the voters (D-4)."""
    racks = {b"a": "r0", b"b": "r0", b"c": "r1", b"d": "r2"}
    cell = SimpleNamespace(value=SimpleNamespace(acceptors=[*map(contact, "abc")], former=()))
    term = SimpleNamespace(
        cell=cell,
        stopping=False,
        plan=SimpleNamespace(paths=paths),
        context=SimpleNamespace(me=contact("a")),
        book=SimpleNamespace(active=[SimpleNamespace(contact=contact(each)) for each in "abcd"]),
        manifest=SimpleNamespace(qualified="sim/ids"),
    )
    master = cast("Master", SimpleNamespace(term=term, proposer=SimpleNamespace(lost={})))
    assert bool(crowding_of(master, racks, keeping)) is crowded
