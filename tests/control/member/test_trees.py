"""A member contributes to each tree of a partition, and is a member of all of them."""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.member.trees import MemberTrees
from elfmesh.control.protocol.messages import Mark, unpack
from elfmesh.machine import Contact, Effect
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Contribute, Publish, Release, Retire, Subscribe, Unsubscribe
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


JOB = b"j" * 20
ONE_AGENT = Contact(b"9" * 20, "other", 9)
GATEWAYS = tuple(Contact(bytes([number]) * 20, "gateway", number) for number in (7, 8))


def taken(context: Context) -> list[Effect]:
    out, context.out = context.out, []
    return out


def test_a_member_follows_the_gateway_of_its_group_and_stays_in_the_jobs_own_trees() -> None:
    context = new_context(1)
    trees = MemberTrees(context, [(ONE,), (TWO,)])
    first, second = (PathLayout("region", (Gateway("", each), Gateway("eu", ONE_AGENT))) for each in GATEWAYS)
    assert not trees.place(JOB, None)
    assert trees.place(JOB, first)
    assert not trees.place(JOB, first)
    seventh, eighth = (
        [ids.group_tree(each.id, JOB, partition, "") for partition in (0, 1)] for each in GATEWAYS
    )
    entered: list[Effect] = [Subscribe(tree, (GATEWAYS[0],)) for tree in seventh]
    assert taken(context) == [*entered, Retire(ONE), Retire(TWO)]
    trees.contribute(1, FULL, (b"x",))
    trees.release(9, 4)
    released: list[Effect] = [Release(tree, 9, 4) for tree in (ONE, TWO, *seventh)]
    assert taken(context) == [Contribute(seventh[1], FULL, (b"x",)), *released]
    assert trees.place(JOB, second)
    moved: list[Effect] = [Subscribe(tree, (GATEWAYS[1],)) for tree in eighth]
    moved += [Unsubscribe(tree) for tree in seventh]
    assert taken(context) == moved
    assert trees.place(JOB, None)
    trees.contribute(0, FULL, (b"x",))
    left: list[Effect] = [Unsubscribe(tree) for tree in eighth]
    assert taken(context) == [*left, Contribute(ONE, FULL, (b"x",))]
    trees.unsubscribe()
    assert taken(context) == [Unsubscribe(ONE), Unsubscribe(TWO)]


def test_a_member_contributes_to_all_gateways_of_its_group_and_stays_in_the_trees_that_remain() -> None:
    context = new_context(1)
    trees = MemberTrees(context, [(ONE,)])
    seven, eight = (ids.group_tree(each.id, JOB, 0, "") for each in GATEWAYS)
    assert trees.place(JOB, PathLayout("", tuple(Gateway("", each) for each in GATEWAYS)))
    trees.contribute(0, FULL, (b"x",))
    entered: list[Effect] = [Subscribe(seven, (GATEWAYS[0],)), Subscribe(eight, (GATEWAYS[1],))]
    contributed: list[Effect] = [Contribute(tree, FULL, (b"x",)) for tree in (seven, eight)]
    assert taken(context) == [*entered, Retire(ONE), *contributed]
    assert trees.place(JOB, PathLayout("", (Gateway("", GATEWAYS[1]),)))
    left: list[Effect] = [Subscribe(eight, (GATEWAYS[1],)), Unsubscribe(seven)]
    assert taken(context) == left


def test_a_gateway_passes_a_watermark_on_in_the_tree_of_its_group() -> None:
    context = new_context(1)
    trees = MemberTrees(context, [(ONE,), (TWO,)])
    mark = Mark(JOB, "i", 1, 1, 9, 9)
    trees.on_watermark(mark)
    assert taken(context) == [], "there is no layout"
    trees.place(JOB, PathLayout("", (Gateway("", GATEWAYS[0]), Gateway("", context.me))))
    taken(context)
    trees.on_watermark(mark)
    assert taken(context) == [], "it is not the root yet"
    other, own = (ids.group_tree(each.id, JOB, 0, "") for each in (GATEWAYS[0], context.me))
    context.roots |= {ONE: None, own: None, other: None}
    trees.on_watermark(mark)
    published = taken(context)
    assert [(each.tree, unpack(each.body)) for each in published if isinstance(each, Publish)] == [
        (own, mark)
    ]


def test_a_gateway_that_has_started_again_has_the_same_trees() -> None:
    context = new_context(1)
    trees = MemberTrees(context, [(ONE,)])
    again = Contact(GATEWAYS[0].id, "moved", 7, 2)
    assert trees.place(JOB, PathLayout("region", (Gateway("", GATEWAYS[0]),)))
    taken(context)
    assert not trees.place(JOB, PathLayout("region", (Gateway("", again),)))
    assert taken(context) == [Subscribe(ids.group_tree(again.id, JOB, 0, ""), (again,))]


def test_a_member_whose_group_has_no_gateway_contributes_to_the_jobs_own_trees() -> None:
    trees = MemberTrees(new_context(1), [(ONE,)])
    assert not trees.place(JOB, PathLayout("region", (Gateway("eu", ONE_AGENT),)))
