"""One tree at one agent: what it takes of its children, and what it tells them."""

from __future__ import annotations

import pytest

from elfmesh.machine import Received
from elfmesh.srt import (
    FIRST,
    Collected,
    Contribute,
    Release,
)
from elfmesh.srt.messages import Frontier, SegmentUp
from tests.srt.forests import contribute, grow, merge, segment
from tests.srt.rig import TREE, contact


def test_a_forwarder_learns_from_its_children_what_is_released() -> None:
    wire = grow(1, 2)
    contribute(wire, 2, 1, b"x")
    wire.deliver()
    wire.give(2, Release(TREE, 1, 1))
    contribute(wire, 2, 2, start=1)
    wire.deliver()
    info = wire.forests[1].tree(TREE)
    assert info is not None
    assert info.released == 1


@pytest.mark.parametrize("later", [(), (1,), (2,)])
def test_what_an_earlier_epoch_had_closed_is_collected_in_the_next(later: tuple[int, ...]) -> None:
    """A job that was deleted and applied again has the same tree, and closes from the beginning again."""
    wire = grow(1, 2, 3)
    for number in (1, 2, 3):
        wire.give(number, Release(TREE, 7, 1))
    for number in (1, 2, 3):
        wire.give(number, Contribute(TREE, segment(FIRST, 5, number, epoch=2, _4=1), (b"%d" % number,)))
        wire.deliver()
        for stale in later:
            wire.give(stale, Release(TREE, 7, 1))
    merge(wire, 1)
    collected = [effect for effect in wire.take(1) if isinstance(effect, Collected)]
    assert {(each.segment.start, each.segment.stop) for each in collected} == {(FIRST, 5)}
    assert sorted(b"".join(b"".join(each.payloads) for each in collected)) == sorted(b"123")


def test_a_child_of_a_former_epoch_learns_the_new_one() -> None:
    wire = grow(1, 2)
    wire.give(1, Contribute(TREE, segment(0, 0, 1, epoch=2)))
    contribute(wire, 2, 1, b"old")
    wire.deliver()
    info = wire.forests[2].tree(TREE)
    assert info is not None
    assert (info.epoch, info.held_bytes) == (2, 0)
    assert wire.forests[1].stats()["stale_epoch"] > 0


def test_an_old_frontier_does_not_overtake_a_new_one() -> None:
    wire = grow(1, 2)
    wire.give(1, Received(contact(2), Frontier(TREE, 60, 1, 7)))
    wire.give(1, Received(contact(2), Frontier(TREE, 59, 1, 3)))
    contribute(wire, 1, 9)
    (collected,) = [effect for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected.segment.stop == 7


def test_malformed_segments_are_counted_and_not_asked_for_again() -> None:
    wire = grow(1, 2)
    bad = SegmentUp(TREE, 70, segment(0, 1, 2, _0=5), True, False, FIRST)
    wire.give(1, Received(contact(2), bad, b"abc"))
    assert wire.forests[1].stats()["malformed"] == 1
    assert wire.waiting() == [(1, 2, "SegmentAck")]
