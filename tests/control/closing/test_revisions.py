"""Intervals that are collected again: revisions inside a merge, and members that some of the trees lack."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.revisions import AGAIN_S, GATHER_S, REPAIR_S, WAIT_S, inside_of, uneven
from elfmesh.control.closing.stores.partial_store import PartialStore
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.closing.rig import COUNTED, START, ClosingRig
from tests.control.member.support import TEXT

IN_TWO_TREES = TEXT.replace("DEADLINE", "PARTITIONS 2 DEADLINE")

Parts = list[tuple[int, int]]
"""Contributions to `START`: their members and their revision."""


def stores(*trees: Parts) -> list[PartialStore]:
    found = []
    for parts in trees:
        store = PartialStore(START)
        for mask, rev in parts:
            entry = SegmentEntry(START, COUNTED, 1, rev)
            store.add(Segment(3, 0, START, START + 1, bitmap_of(mask), (entry,)), (b"%d" % mask,))
        found.append(store)
    return found


@pytest.mark.parametrize(
    ("trees", "torn"),
    [
        ([[(0b11, 1)]], 0),
        ([[(0b11, 1)], [(0b11, 1)]], 0),
        ([[(0b01, 1), (0b10, 1)], [(0b11, 1)]], 0),
        ([[(0b11, 1)], [(0b01, 1)]], 0b10),
        ([[(0b01, 1)], [(0b10, 1)]], 0b11),
        ([[(0b01, 1)], []], 0b01),
        ([[(0b01, 1)], [(0b01, 1)], []], 0b01),
        ([[(0b01, 2), (0b10, 1)], [(0b01, 1), (0b10, 1)]], 0b01),
        ([[(0b01, 2), (0b10, 1)], [(0b01, 2), (0b10, 1)]], 0),
        ([[(0b01, 3)], [(0b01, 2)]], 0b01),
    ],
)
def test_a_member_is_torn_where_trees_differ_in_it_or_in_its_revision(trees: list[Parts], torn: int) -> None:
    assert uneven(stores(*trees), START) == torn


@pytest.mark.parametrize(
    ("trees", "torn", "masks", "stuck", "revs"),
    [
        ([[(0b11, 1)]], 0, [[0b11]], 0, ()),
        ([[(0b01, 1), (0b10, 1)], [(0b01, 1)]], 0b10, [[0b01], [0b01]], 0, ()),
        ([[(0b11, 1)], [(0b01, 1)]], 0b10, [[0b11], [0b01]], 0b10, ()),
        ([[(0b01, 1)], [(0b11, 1)]], 0b10, [[0b01], [0b11]], 0, ()),
        ([[(0b01, 2), (0b10, 3)]], 0, [[0b01, 0b10]], 0, ((0, 2), (1, 3))),
        ([[(0b01, 2), (0b10, 1)], [(0b01, 1), (0b10, 1)]], 0b01, [[0b10], [0b10]], 0, ()),
        ([[(0b001, 2), (0b110, 1)], [(0b100, 1)]], 0b011, [[0b001, 0b110], [0b100]], 0b011, ((0, 2),)),
    ],
)
def test_a_record_has_no_torn_member_inside_unless_a_merge_holds_its_counts(
    trees: list[Parts], torn: int, masks: list[list[int]], stuck: int, revs: tuple[tuple[int, int], ...]
) -> None:
    inside = inside_of(stores(*trees), START, torn)
    assert [[part.mask for part in parts] for parts in inside.parts] == masks
    assert (inside.stuck, inside.revs) == (stuck, revs)


def test_a_job_with_one_tree_has_no_torn_members_even_where_a_contribution_fails() -> None:
    rig = ClosingRig()
    rig.collection.failed.add(START, START + 1, 0b10, "it is torn")
    assert rig.collection.revising.torn(START) == 0


def test_a_member_that_fails_in_one_of_the_trees_is_torn() -> None:
    rig = ClosingRig(IN_TWO_TREES)
    rig.contribute(0b11, b"x")
    rig.contribute(0b11, b"x", tree=1)
    rig.collection.failed.add(START, START + 1, 0b10, "it is torn")
    assert rig.collection.revising.torn(START) == 0b10
    assert rig.collection.revising.torn(START + 1) == 0


def test_an_interval_without_revisions_and_torn_members_is_settled_at_once() -> None:
    rig = ClosingRig(IN_TWO_TREES)
    for tree in range(2):
        rig.contribute(0b11, b"x", tree=tree)
    assert rig.collection.revising.is_settled(START)
    rig.wait(10.0)
    assert rig.asked_now() == []


@pytest.mark.parametrize("apart", [True, False])
def test_an_interval_with_a_revision_is_settled_where_the_revision_stands_alone(apart: bool) -> None:
    rig = ClosingRig()
    for mask in (0b01, 0b10) if apart else (0b11,):
        rig.contribute(mask, b"x")
    rig.contribute(0b01, b"y", rev=2)
    assert rig.collection.revising.is_settled(START) is apart


def test_a_revision_inside_a_merge_is_waited_for_and_no_longer_than_the_limit() -> None:
    rig = ClosingRig()
    rig.contribute(0b11, b"x")
    rig.context.now = 100.0
    rig.contribute(0b01, b"y", rev=2)
    assert not rig.collection.revising.is_settled(START)
    rig.wait(100.0 + WAIT_S - 0.01)
    assert not rig.collection.revising.is_settled(START), "a second look does not begin the time again"
    before = rig.decisions
    rig.wait(100.0 + WAIT_S)
    assert rig.decisions > before, "the master looks again when the time is over"
    assert rig.collection.revising.is_settled(START)


def test_an_interval_is_settled_once_every_contribution_has_come_alone() -> None:
    rig = ClosingRig()
    rig.contribute(0b11, b"x")
    rig.contribute(0b01, b"y", rev=2)
    assert not rig.collection.revising.is_settled(START)
    rig.wait(GATHER_S)
    assert rig.asked_now() == [("recollect", START, START + 1, 0, 1)]
    rig.contribute(0b10, b"x", attempt=1)
    assert not rig.collection.revising.is_settled(START), "the newer collection lacks a member"
    rig.contribute(0b01, b"y", rev=2, attempt=1)
    assert rig.collection.revising.is_settled(START)


def test_torn_members_are_collected_again_in_the_trees_whose_merges_hold_them() -> None:
    rig = ClosingRig(IN_TWO_TREES)
    rig.contribute(0b11, b"x")
    rig.contribute(0b01, b"x", tree=1)
    assert not rig.collection.revising.is_settled(START)
    rig.wait(GATHER_S)
    assert rig.asked_now() == [("recollect", START, START + 1, 0, 1)], "the second tree lacks it anyway"


def test_intervals_in_a_row_are_one_collection_in_an_attempt_above_all_of_theirs() -> None:
    rig = ClosingRig()
    rig.contribute(0b11, None, START + 1, stop=START + 2, attempt=4)
    for interval in (START + 1, START, START + 4):
        rig.collection.revising.wants(0, interval)
    rig.wait(GATHER_S)
    assert rig.asked_now() == [
        ("recollect", START, START + 2, 0, 5),
        ("recollect", START + 4, START + 5, 0, 1),
    ]
    assert rig.context.stats["control.recollections"] == 2


def test_a_tree_is_not_asked_twice_within_a_second_and_another_tree_is_asked_meanwhile() -> None:
    rig = ClosingRig(IN_TWO_TREES)
    rig.collection.revising.wants(0, START)
    rig.wait(GATHER_S)
    rig.asked_now()
    rig.collection.revising.wants(0, START + 1)
    rig.collection.revising.wants(1, START)
    rig.wait(2 * GATHER_S)
    assert rig.asked_now() == [("recollect", START, START + 1, 1, 1)]
    rig.wait(GATHER_S + AGAIN_S - 0.01)
    assert rig.asked_now() == []
    rig.wait(GATHER_S + AGAIN_S + 0.01)
    assert rig.asked_now() == [("recollect", START + 1, START + 2, 0, 1)]


def test_a_repair_of_one_tree_does_not_put_off_that_of_another() -> None:
    rig = ClosingRig(IN_TWO_TREES)
    for _ in range(2):
        for partition in range(2):
            rig.collection.revising.repair(START, START + 3, partition)
    asked = [("recollect", START, START + 3, partition, 1) for partition in range(2)]
    assert rig.asked_now() == asked
    rig.wait(REPAIR_S - 0.01)
    rig.collection.revising.repair(START, START + 3, 0)
    assert rig.asked_now() == []
    rig.wait(REPAIR_S)
    rig.collection.revising.repair(START, START + 3, 0)
    assert rig.asked_now() == asked[:1]


def test_decided_intervals_are_forgotten_and_a_stopped_term_asks_for_nothing() -> None:
    rig = ClosingRig()
    revising = rig.collection.revising
    for interval in (START, START + 1):
        revising.wants(0, interval)
    revising.drop_below(START + 1)
    rig.wait(GATHER_S)
    assert rig.asked_now() == [("recollect", START + 1, START + 2, 0, 1)]
    revising.wants(0, START + 2)
    revising.stop()
    rig.wait(20.0)
    assert rig.asked_now() == []
