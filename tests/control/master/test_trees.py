"""Orders of a master reach the roots of its job's trees, and its marks are multicast together."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.master.trees import OWN_TREE_S, WATERMARK_S, JobTrees
from elfmesh.control.paths.layout import group_trees
from elfmesh.control.protocol.messages import Mark, unpack
from elfmesh.control.protocol.messages_parts import PartRoot, TreeOrder
from elfmesh.machine import Contact
from elfmesh.srt.events import Hasten, Recollect, Release
from elfmesh.srt.messages import Segment
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.register.support import JOB, MANIFEST, TERMS

PART = Segment(1, 0, 4, 5, b"\1")


def started(*, rooted: bool = True, partitions: int = 2, **changes: Any) -> tuple[StubTerm, JobTrees]:
    manifest = replace(MANIFEST, partitions=partitions)
    term = StubTerm(began=replace(TERMS, manifest=manifest, closed=4, **changes))
    if rooted:
        term.context.roots[JOB] = None
    return term, JobTrees(term, Lacking(4))


def test_the_root_of_each_further_partition_is_claimed() -> None:
    term, trees = started(partitions=3)
    trees.claim()
    assert term.routed() == [
        (ids.partition_tree(JOB, number), PartRoot(JOB, number, term.context.me, 1, 4)) for number in (1, 2)
    ]


def test_orders_go_to_the_own_tree_and_to_the_known_roots() -> None:
    term, trees = started()
    trees.recollect(4, 6, 1, 2)
    assert (term.context.out, term.take()) == ([], []), "the root of partition 1 is not known yet"
    trees.arrived(1, None, other(6), PART)
    trees.recollect(4, 6, 0, 2)
    trees.recollect(4, 6, 1, 2)
    trees.hasten(6)
    assert [each for each in term.context.out if isinstance(each, Hasten | Recollect)] == [
        Recollect(JOB, 4, 6, 2, 1),
        Hasten(JOB, 6, 1),
    ]
    assert term.take() == [
        (other(6), TreeOrder(JOB, 1, 1, 4, 6, 2, recollect=True)),
        (other(6), TreeOrder(JOB, 1, 1, FIRST, 6, 0, recollect=False)),
    ]


def test_orders_state_a_roster_epoch_that_is_not_the_epoch_and_trees_get_that() -> None:
    term, trees = started(stated_roster_epoch=1, epoch=3)
    trees.claim()
    assert term.routed() == [
        (ids.partition_tree(JOB, 1), PartRoot(JOB, 1, term.context.me, 3, 4, stated_roster_epoch=1))
    ]
    trees.arrived(1, None, other(6), PART)
    for partition in (0, 1):
        trees.recollect(4, 6, partition, 2)
    trees.hasten(6)
    assert [each for each in term.context.out if isinstance(each, Hasten | Recollect)] == [
        Recollect(JOB, 4, 6, 2, 1),
        Hasten(JOB, 6, 1),
    ]
    assert term.take() == [
        (other(6), TreeOrder(JOB, 1, 3, 4, 6, 2, recollect=True, stated_roster_epoch=1)),
        (other(6), TreeOrder(JOB, 1, 3, FIRST, 6, 0, recollect=False, stated_roster_epoch=1)),
    ]


def test_the_roots_of_each_group_are_claimed_and_get_the_orders_of_their_partition() -> None:
    gateways = (Gateway("eu", other(7)), Gateway("us", other(8)))
    term, trees = started(layout=PathLayout("region", gateways))
    eu, us = (group_trees(JOB, 2, each) for each in gateways)
    me = term.context.me
    trees.claim()
    assert term.routed() == [
        (ids.partition_tree(JOB, 1), PartRoot(JOB, 1, me, 1, 4)),
        *((tree, PartRoot(JOB, at, me, 1, 4, UNSET, tree)) for at, tree in enumerate(eu)),
        *((tree, PartRoot(JOB, at, me, 1, 4, UNSET, tree)) for at, tree in enumerate(us)),
    ]
    trees.arrived(0, None, other(6), PART)
    trees.arrived(0, eu[0], other(7), PART)
    trees.arrived(1, us[1], other(8), PART)
    trees.recollect(4, 6, 0, 2)
    assert term.take() == [(other(7), TreeOrder(JOB, 0, 1, 4, 6, 2, True, UNSET, eu[0]))]
    trees.hasten(6)
    assert term.take() == [
        (other(7), TreeOrder(JOB, 0, 1, FIRST, 6, 0, False, UNSET, eu[0])),
        (other(8), TreeOrder(JOB, 1, 1, FIRST, 6, 0, False, UNSET, us[1])),
    ]
    term.began = replace(term.began, layout=UNSET)
    trees.claim()
    trees.hasten(7)
    assert term.take() == [], "the groups are over"


def test_all_trees_of_a_partition_follow_the_one_that_has_begun_another_attempt() -> None:
    gateways = (Gateway("eu", other(7)), Gateway("us", other(8)))
    term, trees = started(partitions=1, layout=PathLayout("region", gateways))
    (eu,), (us,) = (group_trees(JOB, 1, each) for each in gateways)
    trees.claim()
    trees.arrived(0, eu, other(7), PART)
    again = replace(PART, attempt=1)
    trees.arrived(0, eu, other(7), again)
    order = (JOB, 0, 1, 4, 5, 1, True, UNSET)
    assert Recollect(JOB, 4, 5, 1, 1) in term.context.out
    assert term.take() == [(other(7), TreeOrder(*order, eu))]
    trees.arrived(0, us, other(8), PART)
    assert term.take() == [(other(8), TreeOrder(*order, us))], "its root is known now"
    trees.arrived(0, us, other(8), again)
    trees.arrived(0, eu, other(7), again)
    assert term.take() == [], "it was ordered already"
    term.began = replace(term.began, closed=5)
    trees.claim()
    trees.arrived(0, us, other(9), PART)
    assert term.take() == []


def test_a_master_that_is_not_the_root_gives_the_own_tree_no_order() -> None:
    term, trees = started(rooted=False)
    trees.recollect(4, 6, 0, 1)
    trees.hasten(6)
    assert term.context.out == []


def test_marks_of_a_quarter_second_are_one_multicast_and_drop_former_members() -> None:
    term, trees = started()
    term.book.evict(0, 5)
    for closed in (5, 6):
        term.began = replace(term.began, closed=closed)
        trees.watermark_soon()
    assert term.published() == []
    term.run(WATERMARK_S)
    [publish] = term.published()
    mark = unpack(publish.body)
    assert isinstance(mark, Mark)
    assert mark.closed == 6
    assert Release(JOB, 6, 1) in term.context.out
    assert term.book.entries == (entry(1),)
    trees.watermark_soon()
    term.run(WATERMARK_S)
    assert len(term.published()) == 1, "nothing more is closed"


def test_a_mark_goes_to_one_gateway_of_each_group_and_seldom_through_the_own_tree() -> None:
    gateways = tuple(Gateway(group, other(at)) for group, at in (("eu", 6), ("eu", 7), ("us", 8), ("us", 9)))
    term, trees = started(layout=PathLayout("region", gateways))
    term.context.lost(other(6).id)

    def marks(closed: int) -> list[Contact]:
        term.take()
        term.began = replace(term.began, closed=closed)
        trees.watermark_soon()
        term.run(term.context.now + WATERMARK_S)
        return [to for to, message in term.take() if isinstance(message, Mark)]

    assert marks(5) == [other(7), other(8)], "the first gateway of eu is gone"
    assert len(term.published()) == 1
    assert marks(6) == [other(7), other(8)]
    assert len(term.published()) == 1, "gateways pass it on"
    term.run(term.context.now + OWN_TREE_S)
    marks(7)
    assert len(term.published()) == 2, "for members that no gateway reaches"


def test_a_mark_waits_until_its_master_is_the_root_and_ends_with_the_term() -> None:
    term, trees = started(rooted=False)
    term.began = replace(term.began, closed=5)
    trees.watermark_soon()
    term.run(3 * WATERMARK_S)
    assert term.published() == []
    term.context.roots[JOB] = None
    term.run(WATERMARK_S)
    assert len(term.published()) == 1
    term.began = replace(term.began, closed=6)
    trees.stop()
    trees.watermark_soon()
    term.run(3 * WATERMARK_S)
    assert len(term.published()) == 1


def test_a_gateway_is_claimed_with_the_sites_of_its_live_paths_and_a_revived_one_at_once() -> None:
    gateways = (Gateway("eu", other(6)), Gateway("eu", other(7)))
    layout = PathLayout("region", gateways, (other(1), other(8), other(9)))
    term, trees = started(partitions=1, layout=layout)
    one, two = (group_trees(JOB, 1, each)[0] for each in gateways)
    me = term.context.me
    term.layouts.idle_paths.idle = frozenset({(other(6).id, other(8).id), (other(7).id, me.id)})
    trees.claim()
    assert term.routed() == [
        (one, PartRoot(JOB, 0, me, 1, 4, UNSET, one, (other(9),))),
        (two, PartRoot(JOB, 0, me, 1, 4, UNSET, two, (other(8), other(9)), idle=True)),
    ]
    term.layouts.idle_paths.idle = frozenset()
    term.take()
    trees.revive(other(7))
    assert term.take() == [(other(7), PartRoot(JOB, 0, me, 1, 4, UNSET, two, (other(8), other(9))))]
    assert (trees.copy_of(one), trees.copy_of(two), trees.copy_of(None)) == (0, 1, 0)
