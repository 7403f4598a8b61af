"""What the members of a job have contributed to its open intervals, and which members these wait for."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.revisions import AGAIN_S, GATHER_S, REPAIR_S
from elfmesh.control.jobs.records import COUNTS_MAX
from elfmesh.control.protocol.messages_parts import PartFault
from elfmesh.control.protocol.messages_safety import Keep
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PartsDropped
from elfmesh.srt.messages import SegmentEntry
from tests.control.closing.rig import COUNTED, START, ClosingRig
from tests.control.member.support import TEXT

IN_TWO_TREES = TEXT.replace("DEADLINE", "PARTITIONS 2 DEADLINE")
WITH_COPIES = TEXT.replace("DEADLINE", "REPLICAS 1 DEADLINE")


@pytest.mark.parametrize(
    ("text", "inside", "missing"),
    [
        (TEXT, [], 0b11),
        (TEXT, [(0, 0b01)], 0b10),
        (TEXT, [(0, 0b11)], 0),
        (IN_TWO_TREES, [(0, 0b11)], 0b11),
        (IN_TWO_TREES, [(0, 0b11), (1, 0b01)], 0b10),
        (IN_TWO_TREES, [(0, 0b11), (1, 0b11)], 0),
    ],
)
def test_a_collection_lacks_the_members_that_one_of_its_trees_lacks(
    text: str, inside: list[tuple[int, int]], missing: int
) -> None:
    rig = ClosingRig(text)
    for tree, mask in inside:
        rig.contribute(mask, b"x", tree=tree)
    assert rig.collection.missing() == missing


def test_an_interval_is_due_from_the_moment_at_which_a_member_is_seen_beyond_it() -> None:
    rig = ClosingRig()
    assert (rig.collection.frontier, rig.collection.first) == (None, None)
    rig.context.now = 5.0
    rig.contribute(0b01, None, stop=START + 2)
    rig.context.now = 6.0
    rig.contribute(0b10, b"x", START + 2)
    assert [rig.collection.due_since(START + at) for at in range(4)] == [5.0, 5.0, 6.0, None]
    assert (rig.collection.frontier, rig.collection.first) == (START + 3, START + 2)
    assert rig.decisions == 2, "each contribution may be what an interval has waited for"


def test_what_a_member_has_sealed_that_leaves_at_once_makes_no_interval_due() -> None:
    rig = ClosingRig()
    rig.book.evict(1, START + 9, ahead=True)
    rig.contribute(0b10, b"x", stop=START + 8)
    rig.collection.reported(1, START + 8)
    assert [rig.collection.due_since(START), rig.collection.frontier] == [None, None]
    rig.contribute(0b11, b"x", stop=START + 1, attempt=1)
    assert rig.collection.frontier == START + 1, "another member has sealed it too"


def test_a_report_of_a_member_makes_intervals_due_as_a_contribution_does() -> None:
    rig = ClosingRig()
    rig.context.now = 5.0
    rig.collection.reported(1, START + 1)
    assert (rig.collection.due_since(START), rig.collection.due_since(START + 1)) == (5.0, None)
    assert rig.collection.frontiers.of(1) == START + 1
    assert rig.collection.missing() == 0b11, "a report is no contribution"
    assert rig.decisions == 1


def test_the_pause_of_a_job_counts_as_the_delay_of_no_member() -> None:
    rig = ClosingRig()
    rig.context.now = 5.0
    rig.contribute(0b01, b"x")
    rig.context.now = 50.0
    rig.collection.resumed()
    rig.context.now = 60.0
    rig.contribute(0b01, b"x", START + 1)
    assert rig.collection.due_since(START) == 50.0
    assert rig.collection.due_since(START + 1) == 60.0
    assert rig.collection.due_since(START + 2) is None


def test_a_contribution_with_more_buckets_than_there_are_is_refused() -> None:
    rig = ClosingRig()
    rig.contribute(0b11, b"x", counts=(1,) * (COUNTS_MAX + 1))
    assert rig.context.stats["control.malformed"] == 1
    assert (rig.collection.missing(), rig.collection.frontier, rig.decisions) == (0b11, None, 0)
    rig.contribute(0b11, b"x", counts=(1,) * COUNTS_MAX)
    assert rig.collection.missing() == 0


@pytest.mark.parametrize(("stop", "is_alive"), [(START, False), (START + 1, True)])
def test_a_dead_member_lives_again_by_what_it_contributes_to_an_open_interval(
    stop: int, is_alive: bool
) -> None:
    rig = ClosingRig()
    rig.kill(1)
    rig.contribute(0b10, None, START - 1, stop=stop)
    assert rig.collection.straggler_policy.dead == (() if is_alive else (1,))


def test_contributions_that_overlap_are_collected_again_and_only_once_in_a_while() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b011, b"x")
    rig.contribute(0b110, b"y")
    assert rig.asked_now() == [("recollect", START, START + 1, 0, 1)]
    assert rig.context.stats["control.overlaps"] == 1
    assert rig.collection.missing() == 0b100, "what overlaps counts for no member"
    rig.wait(REPAIR_S - 0.01)
    rig.contribute(0b110, b"y")
    assert rig.asked_now() == []
    rig.wait(REPAIR_S)
    rig.contribute(0b110, b"y")
    assert rig.asked_now() == [("recollect", START, START + 1, 0, 1)]


def test_the_same_contribution_twice_changes_nothing() -> None:
    rig = ClosingRig()
    for _ in range(2):
        rig.contribute(0b01, b"x")
    assert rig.asked_now() == []
    assert [len(tree.parts(START)) for tree in rig.collection.trees] == [1]


def test_a_revision_that_is_merged_already_has_its_interval_collected_again_a_little_later() -> None:
    rig = ClosingRig()
    rig.contribute(0b11, b"xy")
    rig.contribute(0b01, b"z", rev=2)
    assert rig.asked_now() == [], "revisions that arrive together are one collection"
    rig.wait(GATHER_S - 0.01)
    assert rig.asked_now() == []
    rig.wait(GATHER_S)
    assert rig.asked_now() == [("recollect", START, START + 1, 0, 1)]
    assert rig.context.stats["control.overlaps"] == 0
    rig.wait(10 * AGAIN_S)
    assert rig.asked_now() == [], "once for each wish"


@pytest.mark.parametrize("partition", [0, 1])
def test_contributions_that_cannot_be_merged_count_as_missing_and_the_reason_is_kept(partition: int) -> None:
    rig = ClosingRig(IN_TWO_TREES)
    lost = PartsDropped(b"t" * 20, 3, START, START + 2, bitmap_of(0b10), "column v0: string and int64")
    rig.collection.dropped(partition, lost)
    assert list(rig.term.errors) == ["m1: column v0: string and int64"]
    assert rig.collection.failed.at(START) == (0b10, START + 2)
    assert rig.collection.trees[partition].covered(START) == 0b10, "no interval waits for them"
    assert rig.collection.trees[1 - partition].covered(START) == 0
    assert rig.decisions == 1


def test_a_fault_that_another_root_reports_names_all_of_its_members() -> None:
    rig = ClosingRig(members=3)
    fault = PartFault(rig.manifest.job_id, 0, 3, START, START + 1, bitmap_of(0b101), "it is torn")
    rig.collection.dropped(0, fault)
    assert list(rig.term.errors) == ["m0, m2: it is torn"]
    assert rig.collection.failed.at(START + 1)[0] == 0


def test_a_copy_counts_for_a_dead_member_and_the_member_stays_dead() -> None:
    rig = ClosingRig(WITH_COPIES)
    rig.kill(1)
    rig.context.now, before = 4.0, rig.decisions
    entries = ((SegmentEntry(START, COUNTED, 1),),)
    member = rig.book.entries[1].contact.id
    copy = Keep(rig.manifest.job_id, "i", member, 1, START - 2, START + 2, entries)
    rig.collection.recovered(copy, b"x")
    assert rig.collection.missing() == 0b01
    assert rig.collection.straggler_policy.dead == (1,)
    assert (rig.collection.due_since(START + 1), rig.decisions) == (4.0, before + 1)


def test_a_copy_of_closed_intervals_is_dropped() -> None:
    rig = ClosingRig(WITH_COPIES)
    member = rig.book.entries[1].contact.id
    copy = Keep(rig.manifest.job_id, "i", member, 1, START - 2, START, ((),))
    rig.collection.recovered(copy, b"")
    assert (rig.collection.frontier, rig.decisions) == (None, 0)


def test_what_is_decided_is_dropped_and_the_next_interval_is_asked_about() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b111, b"xyz")
    rig.contribute(0b011, b"xy", START + 1)
    rig.contribute(0b001, b"u", rev=2)
    lost = PartsDropped(b"t" * 20, 3, START, START + 1, bitmap_of(0b100), "it is torn")
    rig.collection.dropped(0, lost)
    rig.collection.drop_below(START + 1)
    assert rig.collection.missing() == 0b100
    assert rig.collection.first == START + 1
    assert rig.collection.trees[0].nbytes == 2
    assert rig.collection.failed.at(START)[0] == 0
    rig.wait(10.0)
    assert rig.asked_now() == [], "a decided interval is not collected again"
    rig.contribute(0b111, b"xyz", START)
    assert rig.collection.trees[0].nbytes == 2


def test_a_collection_notes_how_long_after_the_first_member_another_one_contributes() -> None:
    rig = ClosingRig()
    rig.contribute(0b01, b"x")
    rig.context.now = 3.0
    rig.contribute(0b10, b"y")
    assert [rig.term.latency_stats.late_s(number) for number in range(2)] == [0.0, 3.0]
