"""Whole forests on a wire: contributions up to the root, misuse, what peers may do wrong."""

from __future__ import annotations

import random

import pytest

from elfmesh.machine import Event, Message, Received, Tick
from elfmesh.overlay import PeerDown
from elfmesh.srt import (
    FIRST,
    MESSAGES,
    Collected,
    Contribute,
    Entry,
    Forest,
    Hasten,
    Merged,
    MergeRequest,
    PartsDropped,
    Recollect,
    Recollecting,
    Release,
    Segment,
    Subscribe,
    Unsubscribe,
)
from elfmesh.srt.messages import Fault, Frontier, Overlap, SegmentAck, SegmentUp
from elfmesh.srt.reports import RECOLLECT_DELAY_S
from elfmesh.wire import Codec
from tests.srt.rig import TREE, Wire, contact


def segment(start: int, stop: int, *agents: int, epoch: int = 1, attempt: int = 0, **sizes: int) -> Segment:
    """segment(0, 2, 5, _1=3): agent 5 has three bytes for interval 1."""
    coverage = sum(1 << agent for agent in agents)
    entries = tuple(Entry(int(name[1:]), (size,), size) for name, size in sizes.items())
    bitmap = coverage.to_bytes((coverage.bit_length() + 7) // 8, "little")
    return Segment(epoch, attempt, start, stop, bitmap, entries)


def grow(*numbers: int) -> Wire:
    """1 is the root, the others its children; all contribute from 0 on."""
    wire = Wire(*numbers)
    for number in numbers:
        wire.give(number, Subscribe(TREE))
        wire.deliver()
    for number in numbers:
        wire.give(number, Contribute(TREE, segment(0, 0, number)))
    wire.deliver()
    for number in numbers:
        wire.take(number)
    return wire


def merge(wire: Wire, number: int, error: str = "") -> None:
    for effect in wire.take(number):
        if isinstance(effect, MergeRequest):
            payload = None if error else b"".join(effect.parts)
            wire.effects[number] += wire.give(number, Merged(effect.token, payload, error))[:0]
        else:
            wire.effects[number].append(effect)


def contribute(wire: Wire, number: int, stop: int, payload: bytes = b"", start: int = 0) -> None:
    sizes = {f"_{stop - 1}": len(payload)} if payload else {}
    payloads = (payload,) if payload else ()
    wire.give(number, Contribute(TREE, segment(start, stop, number, **sizes), payloads))


def test_contributions_are_merged_and_collected_at_the_root() -> None:
    wire = grow(1, 2, 3)
    for number in (3, 2, 1):
        contribute(wire, number, 1, b"%d" % number)
        wire.deliver()
    merge(wire, 1)
    assert wire.take(1) == [Collected(TREE, Segment(1, 0, 0, 1, b"\x0e", (Entry(0, (3,), 3),)), (b"321",))]
    assert all(forest.stats()["unacknowledged"] == 0 for forest in wire.forests.values())


def test_a_lost_segment_is_sent_again_until_it_is_acknowledged() -> None:
    wire = grow(1, 2)
    contribute(wire, 1, 1)
    contribute(wire, 2, 1, b"x")
    wire.deliver(lose=[SegmentUp])
    assert wire.take(1) == []
    for _ in range(3):
        wire.now += 5.0
        wire.give(2, Tick())
        assert [message for message in wire.waiting() if "Segment" in message[2]]
        wire.deliver(lose=[SegmentAck])
        wire.take(1)
    wire.now += 10.0
    wire.give(2, Tick())
    wire.deliver()
    assert wire.forests[2].stats()["unacknowledged"] == 0
    assert wire.forests[2].stats()["retransmitted"] == 4
    assert wire.forests[1].stats()["duplicates"] == 3


def test_after_the_root_dies_the_next_one_collects_everything_unreleased() -> None:
    wire = grow(1, 2, 3)
    for number in (1, 2, 3):
        contribute(wire, number, 2, b"%d" % number)
        wire.deliver()
    merge(wire, 1)
    assert wire.take(1) != []
    del wire.forests[1]
    for number in (2, 3):
        wire.give(number, PeerDown(contact(1).id))
    wire.deliver()
    collected = [effect for effect in wire.take(2) if isinstance(effect, Collected)]
    assert sorted(effect.payloads for effect in collected) == [(b"2",), (b"3",)]


def test_released_intervals_are_not_sent_again() -> None:
    wire = grow(1, 2)
    for number in (1, 2):
        contribute(wire, number, 1, b"x")
        wire.deliver()
        wire.give(number, Release(TREE, 1, 1))
    assert wire.forests[2].stats()["held_bytes"] == 0
    del wire.forests[1]
    wire.give(2, PeerDown(contact(1).id))
    assert not any(isinstance(effect, Collected) for effect in wire.take(2))


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


def test_overlapping_partials_are_collected_again_one_by_one() -> None:
    wire = grow(1, 2, 3)
    for number in (1, 2, 3):
        contribute(wire, number, 1, b"%d" % number)
    wire.dispatcher.append((3, 1, SegmentUp(TREE, 99, segment(0, 1, 2, 9), False, True, FIRST), b""))
    wire.deliver()
    wire.now = RECOLLECT_DELAY_S
    wire.give(1, Tick())
    wire.deliver()
    effects = wire.take(1)
    assert Recollecting(TREE, 1, 0, 1, 1) in effects
    again = [effect for effect in effects if isinstance(effect, Collected) and effect.segment.attempt == 1]
    assert sorted(effect.payloads[0] for effect in again) == [b"1", b"2", b"3"]


def test_an_overlap_below_is_reported_up_to_the_root() -> None:
    wire = grow(1, 2)
    wire.give(1, Received(contact(2), Overlap(TREE, 50, 1, 0, 4, 0)))
    assert (1, 2, "SegmentAck") in wire.waiting()
    wire.now = RECOLLECT_DELAY_S
    wire.give(1, Tick())
    assert Recollecting(TREE, 1, 0, 4, 1) in wire.take(1)
    wire.give(1, Received(contact(2), Overlap(TREE, 51, 1, 0, 4, 0)))
    wire.now = 9.0
    wire.give(1, Tick())
    assert not any(isinstance(effect, Recollecting) for effect in wire.take(1)), "that attempt is over"


def test_the_owner_may_order_a_collection_anew() -> None:
    wire = grow(1, 2)
    for number in (1, 2):
        contribute(wire, number, 1, b"%d" % number)
    wire.deliver()
    wire.take(1)
    wire.give(1, Recollect(TREE, 0, 1, 5, 1))
    wire.deliver()
    collected = [effect.payloads[0] for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected == [b"1", b"2"]


def test_hasten_makes_everybody_send_what_there_is() -> None:
    wire = grow(1, 2, 3)
    contribute(wire, 2, 1, b"x")
    wire.deliver()
    assert wire.take(1) == []
    wire.give(1, Hasten(TREE, 1, 1))
    wire.deliver()
    (collected,) = [effect for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected.segment.coverage == b"\x04"


def test_parts_that_cannot_be_merged_are_named_at_the_root() -> None:
    wire = grow(1, 2)
    contribute(wire, 1, 1, b"a")
    contribute(wire, 2, 1, b"b")
    wire.deliver()
    merge(wire, 1, error="TypeConflict")
    effects = wire.take(1)
    assert PartsDropped(TREE, 1, 0, 1, b"\x04", "TypeConflict") in effects
    (collected,) = [effect for effect in effects if isinstance(effect, Collected)]
    assert collected.payloads == (b"a",)
    wire.give(1, Received(contact(2), Fault(TREE, 51, 1, 3, 4, b"\x04", "below")))
    assert PartsDropped(TREE, 1, 3, 4, b"\x04", "below") in wire.take(1)


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


def test_a_leaving_member_stays_until_its_last_segment_is_acknowledged() -> None:
    wire = grow(1, 2)
    contribute(wire, 2, 1, b"last")
    wire.give(2, Unsubscribe(TREE))
    assert wire.forests[2].tree(TREE) is not None
    wire.deliver()
    assert wire.forests[2].tree(TREE) is None
    contribute(wire, 1, 1)
    assert any(isinstance(e, Collected) and e.payloads == (b"last",) for e in wire.take(1))


def test_misuse_raises() -> None:
    wire = grow(1, 2)
    with pytest.raises(ValueError, match="payloads of"):
        wire.give(1, Contribute(TREE, segment(0, 1, 1, _0=3), (b"ab",)))
    with pytest.raises(ValueError, match="out of order"):
        wire.give(1, Contribute(TREE, segment(0, 1, 1, _4=1), (b"a",)))
    for event in (Recollect(TREE, 0, 1, 1, 1), Hasten(TREE, 1, 1)):
        with pytest.raises(ValueError, match="only the root"):
            wire.give(2, event)
    with pytest.raises(TypeError):
        wire.give(1, Event())


def test_a_host_that_is_late_for_its_tree_does_no_harm() -> None:
    wire = Wire(1)
    for event in (Contribute(TREE, segment(0, 1, 1)), Release(TREE, 4, 1), Unsubscribe(TREE), Merged(5, b"")):
        assert wire.give(1, event) == []
    assert wire.forests[1].stats()["not_in_tree"] == 3


def test_malformed_segments_are_counted_and_not_asked_for_again() -> None:
    wire = grow(1, 2)
    bad = SegmentUp(TREE, 70, segment(0, 1, 2, _0=5), True, False, FIRST)
    wire.give(1, Received(contact(2), bad, b"abc"))
    assert wire.forests[1].stats()["malformed"] == 1
    assert wire.waiting() == [(1, 2, "SegmentAck")]


def test_the_number_of_trees_is_bounded() -> None:
    wire = Wire(1, 2)
    wire.forests[1] = Forest(contact(1), rng=random.Random(1), next_hop=lambda key: None, trees_max=1)
    for tree in (TREE, b"\0" * 19 + b"\1"):
        wire.give(2, Subscribe(tree))
    wire.deliver()
    assert wire.forests[1].stats()["trees_full"] > 0


def test_every_message_survives_the_codec() -> None:
    wire = grow(1, 2, 3)
    codec = Codec(MESSAGES)
    seen: set[type[Message]] = set()
    contribute(wire, 2, 1, b"x")
    for source, to, message, _ in list(wire.dispatcher):
        frame = codec.encode(message)
        header = frame[8 : 8 + int.from_bytes(frame[4:8])]
        assert codec.decode_header(header) == message, (source, to)
        seen.add(type(message))
    assert SegmentUp in seen
