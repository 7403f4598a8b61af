"""Whole forests on a wire: contributions up to the root, misuse, what peers may do wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from elfmesh.machine import Event, Message, Received, Tick
from elfmesh.overlay import Digest, PeerDown
from elfmesh.srt import (
    FIRST,
    MESSAGES,
    Collected,
    Contribute,
    Forest,
    Hasten,
    Merged,
    PartsDropped,
    Recollect,
    Recollecting,
    Release,
    Retire,
    Segment,
    SegmentEntry,
    Subscribe,
    Unsubscribe,
)
from elfmesh.srt.membership import GRACE_S
from elfmesh.srt.messages import Fault, SegmentUp
from elfmesh.srt.reports import RECOLLECT_DELAY_S
from elfmesh.srt.search import VERIFY_S
from elfmesh.srt.tree import Tree
from elfmesh.wire import Codec
from tests.srt.forests import contribute, grow, merge, segment
from tests.srt.rig import TREE, Wire, contact

OTHER_TREE = bytes(8) + b"\1" + bytes(11)


def test_contributions_are_merged_and_collected_at_the_root() -> None:
    wire = grow(1, 2, 3)
    for number in (3, 2, 1):
        contribute(wire, number, 1, b"%d" % number)
        wire.deliver()
    merge(wire, 1)
    assert wire.take(1) == [
        Collected(TREE, Segment(1, 0, 0, 1, b"\x0e", (SegmentEntry(0, (3,), 3),)), (b"321",))
    ]
    assert all(forest.stats()["unacknowledged"] == 0 for forest in wire.forests.values())


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


def test_the_owner_may_order_a_repeated_collection() -> None:
    wire = grow(1, 2)
    for number in (1, 2):
        contribute(wire, number, 1, b"%d" % number)
    wire.deliver()
    wire.take(1)
    wire.give(1, Recollect(TREE, 0, 1, 5, 1))
    wire.deliver()
    collected = [effect.payloads[0] for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected == [b"1", b"2"]


def test_hasten_makes_all_members_send_what_there_is() -> None:
    wire = grow(1, 2, 3)
    contribute(wire, 2, 1, b"x")
    wire.deliver()
    assert wire.take(1) == []
    wire.give(1, Hasten(TREE, 1, 1))
    wire.deliver()
    (collected,) = [effect for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected.segment.coverage == b"\x04"


def test_a_member_that_retires_is_not_waited_for_and_contributes_again_when_it_likes() -> None:
    wire = grow(1, 2, 3)
    for number in (1, 2):
        contribute(wire, number, 1, b"%d" % number)
    wire.deliver()
    assert wire.take(1) == []
    wire.give(3, Retire(TREE))
    wire.deliver()
    merge(wire, 1)
    (collected,) = [effect for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected.segment.coverage == b"\x06"
    assert wire.forests[3].tree(TREE) is not None, "it still gets multicasts"
    contribute(wire, 3, 1, b"3")
    wire.deliver()
    (collected,) = [effect for effect in wire.take(1) if isinstance(effect, Collected)]
    assert collected.segment.coverage == b"\x08"


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


class Beats:
    """Heartbeats between 1, the root of two trees, and 5 and 9; counts the rows that are made and read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wire = grow(1, 5, 9)
        for number in (1, 5, 9):
            self.wire.give(number, Subscribe(OTHER_TREE))
            self.wire.deliver()
        self.calls: list[tuple[str, bytes]] = []
        for name in ("row", "notified"):
            monkeypatch.setattr(Tree, name, self._counted(name, getattr(Tree, name)))
        for _ in range(3):
            self.quiet = self.beat()
        self.calls.clear()

    def _counted(self, name: str, whole: Callable[..., object]) -> Callable[..., object]:
        def call(tree: Tree, *args: object) -> object:
            self.calls.append((name, tree.id))
            return whole(tree, *args)

        return call

    def beat(self) -> list[bytes]:
        digests = []
        for one, other in ((1, 5), (5, 1), (1, 9), (9, 1)):
            digests.append(self.wire.forests[one].digest_for(contact(other).id))
            self.wire.give(other, Digest(contact(one).id, digests[-1]))
        return digests


def test_heartbeats_of_trees_that_do_not_change_make_and_read_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beats = Beats(monkeypatch)
    assert beats.beat() == beats.quiet
    beats.wire.now += 100.0
    assert beats.beat() == beats.quiet
    assert beats.calls == []


def test_an_event_of_one_tree_makes_and_reads_no_row_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = Beats(monkeypatch)
    contribute(beats.wire, 5, 1, b"x")
    beats.wire.deliver()
    assert beats.beat() != beats.quiet
    assert set(beats.calls) == {("row", TREE), ("notified", TREE)}


def test_a_root_that_verifies_itself_makes_and_reads_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = Beats(monkeypatch)
    beats.wire.now += VERIFY_S
    looked = beats.wire.forests[1].deadline
    beats.wire.give(1, Tick())
    assert looked is not None
    assert beats.wire.forests[1].deadline == looked + VERIFY_S
    assert beats.beat() == beats.quiet
    assert beats.calls == []


def test_a_digest_without_the_row_of_a_shared_tree_counts_each_time() -> None:
    wire = grow(1, 5)
    wire.give(5, Digest(contact(1).id, b""))
    assert "lost_child" not in wire.forests[5].stats(), "it may have been on its way"
    wire.now += 2 * GRACE_S
    wire.give(5, Digest(contact(1).id, b""))
    assert wire.forests[5].stats()["lost_child"] == 1
