"""Multicast, message by message: 1 is the root, the others hang below it."""

from __future__ import annotations

import pytest

from elfmesh.machine import Received, Tick
from elfmesh.overlay import Digest, PeerDown
from elfmesh.srt import Delivered, MulticastAnswer, Publish, PublishDone, Subscribe, Unsubscribe
from elfmesh.srt.messages import Multicast, MulticastAck, Pull
from elfmesh.srt.multicast import BODY_BYTES_MAX, PATIENCE_S, PULLS_MAX, RETRY_S, SHRINK
from elfmesh.srt.multicast_log import LOG_MAX, ReceivedNumbers
from tests.srt.rig import TREE, Wire, contact


def line(*numbers: int) -> Wire:
    """Each agent is the child of the one before it; all are subscribed."""
    wire = Wire(*numbers)
    for above, number in zip((None, *numbers), numbers, strict=False):
        if above is not None:
            wire.route(number, above)
        wire.give(number, Subscribe(TREE))
        wire.deliver()
    for number in numbers:
        wire.take(number)
    return wire


def delivered(wire: Wire, number: int) -> list[bytes]:
    return [effect.body for effect in wire.take(number) if isinstance(effect, Delivered)]


def test_a_root_alone_answers_itself_at_once() -> None:
    wire = line(1)
    assert wire.give(1, Publish(TREE, b"hello", 1.0, 7)) == [Delivered(TREE, 1, b"hello")]
    done = PublishDone(TREE, 1, ((contact(1).id, b"ok"),), 1, 7)
    assert wire.give(1, MulticastAnswer(TREE, 1, b"ok")) == [done]


def test_a_root_that_is_no_member_and_alone_has_no_member_to_wait_for() -> None:
    wire = line(1, 5)
    wire.give(1, Unsubscribe(TREE))
    wire.give(5, Unsubscribe(TREE))
    wire.give(1, Publish(TREE, b"", 1.0))
    assert wire.take(1) == []
    wire.deliver()
    assert PublishDone(TREE, 1, (), 0) in wire.take(1) or wire.forests[1].tree(TREE) is None


def test_answers_are_aggregated_on_the_way_up() -> None:
    wire = line(1, 5, 9)
    wire.give(1, Publish(TREE, b"q", 1.0))
    wire.give(1, MulticastAnswer(TREE, 1, b"a1"))
    wire.deliver()
    for number in (9, 5):
        assert delivered(wire, number) == [b"q"]
        wire.give(number, MulticastAnswer(TREE, 1, b"a%d" % number))
    finals = [(source, to) for source, to, message, _ in wire.dispatcher if getattr(message, "final", False)]
    assert finals == [(9, 5)], "5 waits for its subtree"
    wire.deliver()
    (done,) = [effect for effect in wire.take(1) if isinstance(effect, PublishDone)]
    assert dict(done.answers) == {contact(n).id: b"a%d" % n for n in (1, 5, 9)}
    assert done.expected == 3


def test_a_forwarder_neither_delivers_nor_answers() -> None:
    wire = line(1, 5, 9)
    wire.give(5, Unsubscribe(TREE))
    wire.give(1, Publish(TREE, b"q", 1.0))
    wire.give(1, MulticastAnswer(TREE, 1))
    wire.deliver()
    assert delivered(wire, 5) == []
    wire.give(9, MulticastAnswer(TREE, 1))
    wire.deliver()
    (done,) = [effect for effect in wire.take(1) if isinstance(effect, PublishDone)]
    assert {agent for agent, _ in done.answers} == {contact(1).id, contact(9).id}
    assert done.expected == 2


def test_the_time_for_answers_shrinks_per_hop() -> None:
    wire = line(1, 5, 9)
    wire.give(1, Publish(TREE, b"q", 1.0))
    budgets = []
    while wire.dispatcher:
        source, to, message, payload = wire.dispatcher.popleft()
        if isinstance(message, Multicast):
            budgets.append(message.budget_s)
        wire.give(to, Received(contact(source), message, payload))
    assert budgets == pytest.approx([SHRINK, SHRINK**2])


def test_a_dead_grandchild_costs_its_own_branch_only() -> None:
    wire = line(1, 5, 9)
    del wire.forests[9]
    wire.give(1, Publish(TREE, b"q", 1.0))
    wire.give(1, MulticastAnswer(TREE, 1, b"a1"))
    wire.deliver()
    wire.give(5, MulticastAnswer(TREE, 1, b"a5"))
    wire.now = SHRINK + 0.01
    wire.give(5, Tick())
    wire.deliver()
    (done,) = [effect for effect in wire.take(1) if isinstance(effect, PublishDone)]
    assert dict(done.answers) == {contact(1).id: b"a1", contact(5).id: b"a5"}
    assert wire.now < 1.0


def test_publish_is_done_in_time_whichever_member_is_silent() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"q", 1.0))
    wire.deliver(lose=[Multicast])
    wire.now = 1.0
    wire.give(1, Tick())
    (done,) = [effect for effect in wire.take(1) if isinstance(effect, PublishDone)]
    assert done.answers == ()


def test_a_lost_multicast_is_sent_again_and_delivered_once() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"q", 9.0))
    wire.deliver(lose=[Multicast])
    wire.now = RETRY_S * 1.1
    wire.give(1, Tick())
    (_, _, again, body) = wire.dispatcher[0]
    wire.deliver()
    wire.give(5, Received(contact(1), again, body))
    assert delivered(wire, 5) == [b"q"]


def test_a_lost_answer_is_asked_for_again() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"q", 9.0))
    wire.give(1, MulticastAnswer(TREE, 1))
    wire.deliver()
    wire.give(5, MulticastAnswer(TREE, 1, b"a"))
    wire.deliver(lose=[MulticastAck])
    wire.now = RETRY_S + PATIENCE_S * 1.1
    wire.give(1, Tick())
    wire.deliver()
    (done,) = [effect for effect in wire.take(1) if isinstance(effect, PublishDone)]
    assert dict(done.answers)[contact(5).id] == b"a"


def test_the_death_of_a_child_ends_the_wait_for_it() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"q", 9.0))
    wire.give(1, MulticastAnswer(TREE, 1))
    assert [e for e in wire.give(1, PeerDown(contact(5).id)) if isinstance(e, PublishDone)]


def test_a_late_joiner_gets_the_last_messages_and_so_does_its_subtree() -> None:
    wire = line(5, 9)
    old = line(1)
    for n in range(LOG_MAX + 3):
        old.give(1, Publish(TREE, b"%d" % n, 0.1))
    wire.forests[1], wire.effects[1] = old.forests[1], []
    wire.route(5, 1)
    wire.now = 6.0
    wire.give(5, Tick())  # the root verifies itself, and finds 1
    wire.deliver()
    expected = [b"%d" % n for n in range(3, LOG_MAX + 3)]
    assert delivered(wire, 5) == expected
    assert delivered(wire, 9) == expected


def test_a_forwarder_that_subscribes_late_gets_the_log() -> None:
    wire = line(1, 5, 9)
    wire.give(5, Unsubscribe(TREE))
    wire.give(1, Publish(TREE, b"q", 1.0))
    wire.deliver()
    assert delivered(wire, 5) == []
    wire.give(5, Subscribe(TREE))
    wire.give(5, Subscribe(TREE))
    assert delivered(wire, 5) == [b"q"]


def test_a_gap_is_pulled_from_the_parent() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"one", 0.0))
    wire.deliver(lose=[Multicast])
    wire.give(1, Publish(TREE, b"two", 0.0))
    wire.deliver()
    assert delivered(wire, 5) == [b"two", b"one"], "order is not promised"


def test_a_digest_reveals_a_message_that_never_came() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"one", 0.0))
    wire.deliver(lose=[Multicast])
    wire.give(5, Digest(contact(1).id, wire.forests[1].digest_for(contact(5).id)))
    assert [type(message) for _, _, message, _ in wire.dispatcher] == [Pull]
    wire.deliver()
    assert delivered(wire, 5) == [b"one"]


def test_what_cannot_be_pulled_is_given_up_and_counted() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"one", 0.0))
    wire.deliver(lose=[Multicast])
    digest = Digest(contact(1).id, wire.forests[1].digest_for(contact(5).id))
    for _ in range(PULLS_MAX + 2):
        wire.now += 1.0
        wire.give(5, digest)
        wire.deliver(lose=[Pull])
    stats = wire.forests[5].stats()
    assert (stats["pulls"], stats["multicasts_missed"]) == (PULLS_MAX, 1)


def test_an_answer_to_nothing_is_counted() -> None:
    wire = line(1)
    wire.give(1, MulticastAnswer(TREE, 3, b""))
    assert wire.forests[1].stats()["answer_late"] == 1


def test_publishing_away_from_the_root_or_too_much_is_misuse() -> None:
    wire = line(1, 5)
    with pytest.raises(ValueError, match="only the root may publish"):
        wire.give(5, Publish(TREE, b"", 1.0))
    with pytest.raises(ValueError, match="not the root"):
        wire.give(5, Publish(bytes([1] * 20), b"", 1.0))
    with pytest.raises(ValueError, match="over"):
        wire.give(1, Publish(TREE, bytes(BODY_BYTES_MAX + 1), 1.0))


def test_malformed_answers_and_bodies_are_the_peers_fault() -> None:
    wire = line(1, 5)
    wire.give(1, Publish(TREE, b"q", 9.0))
    (_, _, message, _) = wire.dispatcher[0]
    assert isinstance(message, Multicast)
    wire.give(1, Received(contact(5), MulticastAck(TREE, message.era, 1, True, 1), b"\xc1"))
    wire.give(5, Received(contact(1), Multicast(TREE, 1, 1, 1, 0.0), b"not an order"))
    wire.give(5, Received(contact(1), Multicast(TREE, 1, 2, 9, 0.0), b""))
    wire.give(5, Received(contact(1), Multicast(TREE, 1, -2, 0, 0.0), b""))
    wire.give(5, Received(contact(1), Multicast(TREE, 1, 3, 0, float("nan")), b""))
    assert wire.forests[1].stats()["malformed"] == 1
    assert wire.forests[5].stats()["malformed"] == 4


def test_a_window_remembers_what_was_received_within_the_log() -> None:
    window = ReceivedNumbers(0)
    for seq in (1, 3, 4):
        window.add(seq)
    assert (window.upto, window.newest) == (1, 4)
    assert [seq for seq in range(1, 6) if not window.has(seq)] == [2, 5]
    window.add(2)
    assert window.upto == 4
    window.add(4 + LOG_MAX + 1)
    assert window.upto == 5, "older ones are in no log"
