"""The way up: each message arrives, in a window, and reports survive a change of parent."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from elfmesh.contribution import Contribution
from elfmesh.machine import Message, Received, Send, Tick
from elfmesh.overlay import PeerDown
from elfmesh.srt import (
    Collected,
    Recollecting,
    Release,
)
from elfmesh.srt import uplink as uplink_module
from elfmesh.srt.context import Context
from elfmesh.srt.messages import Fault, Frontier, Overlap, SegmentAck, SegmentUp
from elfmesh.srt.parts import Part
from elfmesh.srt.reports import RECOLLECT_DELAY_S
from elfmesh.srt.uplink import Uplink
from tests.srt.forests import contribute, grow
from tests.srt.rig import TREE, contact, items


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


class Barrier:
    """Only what the uplink reads of it."""

    epoch, released = 1, 0


class Owner:
    """Remembers what reached the root."""

    def __init__(self) -> None:
        self.took: list[object] = []

    def collected(self, part: Part) -> None:
        self.took.append(part)

    def overlapped(self, start: int, stop: int, attempt: int, *, lagging: bool) -> None:
        self.took.append((start, stop, attempt, lagging))

    def dropped(self, start: int, stop: int, coverage: int, error: str) -> None:
        self.took.append((start, stop, coverage, error))


def made(parent: int | None = 2) -> tuple[Context, Owner, Uplink]:
    context, owner = Context(contact(1), random.Random(1), lambda _tree: None, lambda *_: None), Owner()
    uplink = Uplink(context, TREE, owner, 1000)
    uplink.barrier = Barrier()  # type: ignore[assignment]  # played
    if parent is not None:
        uplink.attach(contact(parent))
    return context, owner, uplink


def sent(context: Context) -> list[Message]:
    return [effect.message for effect in context.take() if isinstance(effect, Send)]


def test_a_window_of_messages_is_under_way_and_each_answer_lets_one_more_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplink_module, "WINDOW", 2)
    context, _, uplink = made()
    for frontier in range(4):
        uplink.announce(frontier)
    first = sent(context)
    assert [each.frontier for each in first if isinstance(each, Frontier)] == [0, 1]
    uplink.acknowledged(first[0].seq)  # type: ignore[attr-defined]  # the first is a Merged
    assert [each.frontier for each in sent(context) if isinstance(each, Frontier)] == [2]
    assert len(uplink) == 3


def test_a_message_is_sent_again_later_and_later() -> None:
    context, _, uplink = made()
    uplink.announce(7)
    waits = []
    for _ in range(6):
        deadline = uplink.deadline
        assert deadline is not None
        waits.append(deadline - context.now)
        uplink.tick(context.now)
        assert len(sent(context)) == (1 if not waits[1:] else 0), "not before its time"
        context.now = deadline
        uplink.tick(deadline)
        assert len(sent(context)) == 1
    assert all(later > earlier for earlier, later in pairwise(waits[:4]))
    assert max(waits) <= uplink_module.RETRY_S_MAX * 1.2
    assert context.stats["retransmitted"] == 6


def test_another_parent_gets_the_reports_and_nothing_else() -> None:
    context, _, uplink = made()
    uplink.announce(7)
    uplink.forward(Part(0, 1, 1, ()), claims=True)
    uplink.overlap(3, 4, 1)
    uplink.fault(5, 6, 0b10, "types differ")
    sent(context)
    uplink.attach(contact(3))
    assert [type(each) for each in sent(context)] == [Overlap, Fault]
    uplink.attach(None)
    assert (sent(context), uplink.deadline, len(uplink)) == ([], None, 2)


def test_the_root_notifies_its_owner() -> None:
    _, owner, uplink = made()
    uplink.overlap(3, 4, 1)
    uplink.become_root()
    uplink.forward(Part(0, 1, 1, ()), claims=True)
    uplink.forward(Part(1, 2, 0, ()), claims=True)
    uplink.lagging(5, 6, 2)
    uplink.fault(7, 8, 1, "why")
    assert owner.took == [(3, 4, 1, False), Part(0, 1, 1, ()), (5, 6, 2, True), (7, 8, 1, "why")]
    assert len(uplink) == 0


def test_what_is_closed_loses_its_contents_and_still_claims() -> None:
    context, _, uplink = made()
    uplink.forward(Part(0, 2, 1, (Contribution(1, (1,), b"x" * 50),)), claims=True)
    (before,) = sent(context)
    uplink.release(2)
    context.now = uplink.deadline or 0.0
    uplink.tick(context.now)
    (after,) = [effect for effect in context.take() if isinstance(effect, Send)]
    assert isinstance(before, SegmentUp)
    assert isinstance(after.message, SegmentUp)
    assert (after.message.seq, after.message.claims) == (before.seq, True)
    assert (after.message.segment.coverage, after.message.segment.entries, after.payload) == (b"", (), b"")


def test_without_a_parent_nothing_but_reports_is_kept_and_the_queue_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context, _, uplink = made(None)
    uplink.announce(1)
    uplink.forward(Part(0, 1, 1, ()), claims=True)
    assert len(uplink) == 0
    monkeypatch.setattr(uplink_module, "QUEUE_MAX", 1)
    uplink.overlap(3, 4, 1)
    uplink.overlap(4, 5, 1)
    assert (len(uplink), context.stats["uplink_dropped"]) == (1, 1)


EU = (("region=eu",),)


@pytest.mark.parametrize(
    ("region", "keeps", "goes"), [("eu", True, True), ("us", True, False), ("eu", False, False)]
)
def test_what_has_a_rule_goes_to_a_parent_that_it_allows_and_that_keeps_it(
    region: str, keeps: bool, goes: bool
) -> None:
    context, _, uplink = made(None)
    uplink.attach(replace(contact(2), region=region), keeps=keeps)
    uplink.forward(Part(0, 1, 1, items(_0="a"), keep_in=EU), claims=True)
    uplink.forward(Part(1, 2, 1, items(_1="b"), keep_in=EU), claims=False)
    found = [each for each in sent(context) if isinstance(each, SegmentUp)]
    assert [each.segment.coverage != b"" for each in found] == ([True, True] if goes else [False])
    assert found[0].claims, "the parent need not wait for it"
    assert context.stats["kept_in"] == (0 if goes else 2)
