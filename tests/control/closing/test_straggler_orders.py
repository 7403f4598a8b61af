"""An interval that lacks members: what is asked of the trees and of the peers of the dead while it waits."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.copy_recovery import GATHER_S
from elfmesh.control.closing.decisions import OVERFULL
from elfmesh.control.closing.flush_orders import HASTEN_S
from elfmesh.control.closing.revisions import REPAIR_S
from elfmesh.control.closing.stores.partial_store import HELD_BYTES_MAX
from elfmesh.control.closing.straggler_orders import Stragglers
from elfmesh.control.closing.straggler_policy import GONE_S, HORIZON_S
from elfmesh.control.jobs.records import State
from elfmesh.control.replicas.direct_requests import PULL_SHARE
from elfmesh.srt.events import Publish
from tests.control.closing.rig import START, ClosingRig
from tests.control.member.support import TEXT

DEADLINE_S = 1.0
BOTH = 0b11
DUE = 100.0
OVER = DUE + DEADLINE_S
SKIP = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER SKIP")
WITH_COPIES = TEXT.replace("DEADLINE", "REPLICAS 1 DEADLINE")
IN_TWO_TREES = TEXT.replace("DEADLINE", "PARTITIONS 2 DEADLINE")


class Rig(ClosingRig):
    """A job whose first open interval lacks the second of its two members since `DUE`."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__(text)
        self.wakes: list[float] = []
        self.stragglers = Stragglers(self.term, self.collection, self.wakes.append)
        self.context.now = DUE
        for tree in range(len(self.collection.trees)):
            self.contribute(0b01, b"x", tree=tree)

    def look(self, at: float, *dead: int) -> State | None:
        """What becomes of the interval at a moment; probes are answered."""
        self.context.now = at
        decision = self.stragglers.decide(START, BOTH, 0b10, DUE)
        self.answer_probes(*dead)
        self.problem = decision.problem
        return decision.state


def test_before_the_deadline_the_trees_of_a_job_that_waits_are_not_hastened() -> None:
    rig = Rig()
    assert rig.look(OVER - 0.01) is None
    assert rig.asked_now() == []
    assert rig.wakes == [OVER]


def test_from_the_deadline_on_the_trees_are_hastened_once_in_a_while() -> None:
    rig = Rig()
    for at, asked in ((OVER, 1), (OVER + HASTEN_S - 0.01, 0), (OVER + HASTEN_S, 1)):
        assert rig.look(at) is None
        assert rig.asked_now() == [("hasten", START + 1)] * asked


def test_an_order_to_hasten_covers_all_that_a_member_has_sealed() -> None:
    rig = Rig()
    rig.contribute(0b01, b"x", START + 5)
    rig.look(OVER)
    assert rig.asked_now() == [("hasten", START + 6)]


@pytest.mark.parametrize(("reported", "asked"), [(None, []), (START, []), (START + 1, [0, 1])])
def test_what_a_missing_member_reports_as_sealed_is_collected_again(
    reported: int | None, asked: list[int]
) -> None:
    rig = Rig(IN_TWO_TREES)
    if reported is not None:
        rig.collection.reported(1, reported)
    rig.look(OVER + REPAIR_S - 0.01)
    assert [each[0] for each in rig.asked_now()] == ["hasten"], "it may still be on its way"
    rig.look(OVER + REPAIR_S + HASTEN_S)
    repairs = [each for each in rig.asked_now() if each[0] == "recollect"]
    assert repairs == [("recollect", START, START + 1, tree, 1) for tree in asked]


def test_a_job_that_skips_hastens_the_trees_before_the_deadline_and_skips_at_it() -> None:
    rig = Rig(SKIP)
    lead_s = rig.collection.straggler_policy.lead_s
    assert rig.look(DUE) is None
    assert (rig.asked_now(), rig.wakes) == ([], [OVER - lead_s])
    assert rig.look(OVER - lead_s) is None
    assert rig.asked_now() == [("hasten", START + 1)]
    assert rig.look(OVER) == "SKIPPED"


def test_a_job_that_skips_gives_what_was_held_back_its_time() -> None:
    rig = Rig(SKIP)
    lead_s = rig.collection.straggler_policy.lead_s
    rig.look(OVER - 0.1)
    assert rig.asked_now() == [("hasten", START + 1)]
    assert rig.look(OVER) is None, "the order is fresh"
    assert rig.look(OVER - 0.1 + lead_s) == "SKIPPED"


@pytest.mark.parametrize("at", [DUE + HORIZON_S - 0.01, DUE + HORIZON_S])
def test_a_job_does_not_skip_what_its_missing_member_has_sealed_before_the_horizon(at: float) -> None:
    rig = Rig(SKIP)
    rig.collection.reported(1, START + 1)
    for moment in (OVER - 0.5, at - 1.0):
        rig.look(moment)
    assert rig.look(at) == (None if at < DUE + HORIZON_S else "SKIPPED")


def test_a_dead_member_is_given_up_after_the_time_that_a_restart_takes() -> None:
    rig = Rig()
    rig.kill(1)
    assert rig.look(OVER + GONE_S - 0.01) is None
    assert rig.wakes[-1] == OVER + GONE_S
    assert rig.look(OVER + GONE_S) == "FINAL_PARTIAL"
    assert rig.problem == ""


def test_what_standbys_hold_of_a_living_member_is_requested_a_moment_before_the_deadline() -> None:
    rig = Rig(TEXT.replace("DEADLINE", "STANDBY ALL DEADLINE"))
    rig.context.roots[rig.manifest.job_id] = None
    pull_at = OVER - PULL_SHARE * DEADLINE_S
    assert rig.look(pull_at - 0.01) is None
    assert rig.wakes[-1] == pull_at
    rig.wait(pull_at)
    assert not [effect for effect in rig.context.out if isinstance(effect, Publish)]
    assert rig.look(pull_at) is None
    rig.wait(pull_at + GATHER_S)
    assert [effect for effect in rig.context.out if isinstance(effect, Publish)]


def test_the_copies_of_a_dead_member_are_asked_for_and_waited_for() -> None:
    rig = Rig(WITH_COPIES)
    rig.context.roots[rig.manifest.job_id] = None
    rig.kill(1)
    asked_at = OVER + GONE_S
    assert rig.look(asked_at) is None
    rig.wait(asked_at + 0.1)
    assert [effect for effect in rig.context.out if isinstance(effect, Publish)]
    assert rig.look(asked_at + 1.0) is None
    assert rig.look(asked_at + 1.1) == "FINAL_PARTIAL"


def test_no_interval_ends_without_a_member_before_the_sites_have_answered() -> None:
    rig = Rig()
    rig.kill(1)
    asked_at = OVER - PULL_SHARE * DEADLINE_S
    assert (rig.look(asked_at - 0.01), rig.of_sites) == (None, [])
    assert (rig.look(asked_at), rig.of_sites) == (None, [(0b10, DUE)])
    rig.sites_at = OVER + GONE_S + 0.5
    assert rig.look(OVER + GONE_S) is None
    assert rig.wakes[-1] == rig.sites_at
    assert rig.look(rig.sites_at) == "FINAL_PARTIAL"


@pytest.mark.parametrize(("more", "state"), [(0, None), (1, "FINAL_PARTIAL")])
def test_no_member_is_waited_for_where_more_is_held_than_may_be(more: int, state: State | None) -> None:
    rig = Rig()
    rig.collection.trees[0].copies[0].nbytes = HELD_BYTES_MAX + more
    assert rig.look(OVER) == state
    assert rig.problem == (OVERFULL if more else "")


def test_a_member_that_only_the_newest_collection_lacks_is_judged_where_it_is_dead() -> None:
    """What it contributed is in an older collection than what the other member has contributed since."""
    rig = Rig()
    rig.contribute(0b10, b"y", attempt=1)
    rig.kill(0)
    assert rig.look(OVER + GONE_S, 0) == "FINAL_PARTIAL"
    rig = Rig()
    rig.contribute(0b10, b"y", attempt=1)
    assert rig.look(OVER + GONE_S) is None, "it lives, and may answer to the newer one"


def test_an_order_for_closed_intervals_does_not_count_for_later_ones() -> None:
    rig = Rig(SKIP)
    lead_s = rig.collection.straggler_policy.lead_s
    rig.look(OVER - lead_s)
    assert rig.look(OVER) == "SKIPPED"
    rig.stragglers.drop_below(START + 1)
    rig.contribute(0b01, b"x", START + 1)
    due = rig.context.now
    rig.asked_now()
    rig.context.now = due + DEADLINE_S
    assert rig.stragglers.decide(START + 1, BOTH, 0b10, due).state is None
    assert rig.asked_now() == [("hasten", START + 2)]
