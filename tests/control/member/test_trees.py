"""A member contributes to each tree of a partition, and is a member of all of them."""

from __future__ import annotations

from elfmesh.control.member.trees import MemberTrees
from elfmesh.machine import Effect
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Contribute, Release, Subscribe, Unsubscribe
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context

ONE, TWO, THREE = (bytes([number]) * 20 for number in (1, 2, 3))
EMPTY = Segment(4, 0, 7, 7, bitmap_of(1))
FULL = Segment(4, 0, 7, 8, bitmap_of(1), (SegmentEntry(7, (1,), 1),))


def test_a_contribution_goes_to_all_trees_of_its_partition_alone() -> None:
    context = new_context(1)
    trees = MemberTrees(context, [(ONE, TWO), (THREE,)])
    assert list(trees.partitions) == [0, 1]
    trees.contribute(0, FULL, (b"x",))
    assert context.out == [Contribute(ONE, FULL, (b"x",)), Contribute(TWO, FULL, (b"x",))]
    context.out = []
    trees.contribute(1, FULL, (b"y",))
    assert context.out == [Contribute(THREE, FULL, (b"y",))]


def test_a_member_enters_leaves_and_releases_all_its_trees() -> None:
    context = new_context(1)
    trees = MemberTrees(context, [(ONE, TWO), (THREE,)])
    trees.subscribe()
    trees.declare(EMPTY)
    trees.release(9, 4)
    trees.unsubscribe()
    expected: list[Effect] = [
        *(Subscribe(tree) for tree in (ONE, TWO, THREE)),
        *(Contribute(tree, EMPTY) for tree in (ONE, TWO, THREE)),
        *(Release(tree, 9, 4) for tree in (ONE, TWO, THREE)),
        *(Unsubscribe(tree) for tree in (ONE, TWO, THREE)),
    ]
    assert context.out == expected
