"""The search for a parent, message by message. Agent n sits at distance n from the tree's id."""

from __future__ import annotations

import random

from elfmesh.machine import Effect, Received, Send, Tick
from elfmesh.overlay import Lookup, LookupDone, PeerDown, SiblingsChanged, Watch
from elfmesh.srt import Attached, BecameRoot, Forest, Subscribe
from elfmesh.srt.messages import Join, Redirect
from elfmesh.srt.search import JOIN_TIMEOUT_S, VERIFY_S
from tests.srt.rig import TREE, Wire, children, contact, parent, subscribed


def test_a_local_minimum_is_root_only_after_a_look_up() -> None:
    wire = Wire(1)
    assert wire.give(1, Subscribe(TREE)) == [BecameRoot(TREE)]
    assert wire.forests[1].is_root(TREE)
    assert wire.forests[1].deadline == VERIFY_S


def test_joining_asks_the_next_hop_which_becomes_root_of_a_tree_it_did_not_know() -> None:
    wire = Wire(1, 5)
    assert wire.give(5, Subscribe(TREE)) == []
    assert wire.waiting() == [(5, 1, "Join")]
    wire.deliver()
    assert wire.take(1) == [Watch(contact(5)), BecameRoot(TREE)]
    assert wire.take(5) == [Watch(contact(1)), Attached(TREE, contact(1))]
    assert children(wire, 1) == [5]


def test_a_join_stops_at_the_first_agent_in_the_tree() -> None:
    wire = subscribed(Wire(1, 4), 4)
    wire.add(9)
    wire.route(9, 4)  # the route of 9 leads through 4
    wire.give(9, Subscribe(TREE))
    wire.deliver()
    assert (parent(wire, 9), parent(wire, 4)) == (4, 1)


def test_an_agent_enters_a_tree_at_the_agent_that_it_was_given() -> None:
    wire = subscribed(Wire(1, 4), 4)
    wire.add(9)
    wire.route(9, 4)  # the next hop of 9 would make it a child of 4
    wire.give(9, Subscribe(TREE, (contact(1),)))
    assert wire.waiting() == [(9, 1, "Join")]
    wire.deliver()
    assert (parent(wire, 9), children(wire, 4)) == (1, [])


def test_an_entrance_that_does_not_answer_is_left_out_until_the_agent_has_a_parent() -> None:
    wire = subscribed(Wire(1, 4), 4)
    wire.add(9)
    wire.route(9, 4)
    wire.give(9, Subscribe(TREE, (contact(2),)))
    assert wire.waiting() == [(9, 2, "Join")]
    wire.give(9, PeerDown(contact(2).id))
    wire.deliver()
    assert parent(wire, 9) == 1
    wire.give(9, PeerDown(contact(1).id))
    assert wire.waiting()[-1] == (9, 2, "Join"), "it is asked again"


def test_the_agent_at_the_end_of_the_entrances_is_the_root() -> None:
    wire = Wire(1, 5)
    assert wire.give(1, Subscribe(TREE, (contact(1),))) == [BecameRoot(TREE)]


def test_a_redirect_to_an_agent_that_is_farther_is_not_followed() -> None:
    wire = Wire(1, 5)
    wire.give(5, Subscribe(TREE))
    join = wire.dispatcher.pop()[2]
    assert isinstance(join, Join)
    wire.give(5, Received(contact(1), Redirect(TREE, join.token, contact(9))))
    assert wire.waiting() == [(5, 1, "Join")], "it looked the id up instead"


def test_a_lost_join_is_sent_again_and_then_the_id_is_looked_up() -> None:
    wire = Wire(1, 5)
    wire.give(5, Subscribe(TREE))
    first = wire.dispatcher.pop()[2]
    wire.now = JOIN_TIMEOUT_S
    wire.give(5, Tick())
    assert wire.dispatcher.pop()[2] == first
    wire.now = 2 * JOIN_TIMEOUT_S
    wire.give(5, Tick())
    again = wire.dispatcher.pop()[2]
    assert isinstance(again, Join)
    assert isinstance(first, Join)
    assert again.token > first.token


def test_the_root_looks_again_every_five_seconds() -> None:
    wire = subscribed(Wire(5), 5)
    wire.route(5, None)
    wire.add(2)
    wire.now = VERIFY_S
    wire.give(5, Tick())
    assert wire.waiting() == [(5, 2, "Join")]


def test_a_root_that_an_earlier_look_up_verifies_looks_again_five_seconds_after_that_one() -> None:
    forest = Forest(contact(5), rng=random.Random(1), next_hop=lambda tree: None)

    def asked(effects: list[Effect]) -> list[Lookup]:
        return [effect for effect in effects if isinstance(effect, Lookup)]

    (first,) = asked(forest.step(Subscribe(TREE), 0.0))
    assert not first.within_s, "it has never been the root"
    forest.step(LookupDone(first.token, TREE, (contact(5),)), 0.0)
    (second,) = asked(forest.step(Tick(), VERIFY_S))
    assert second.within_s == VERIFY_S
    forest.step(LookupDone(second.token, TREE, (contact(5),), VERIFY_S - 1.0), VERIFY_S)
    assert forest.deadline == 2 * VERIFY_S - 1.0
    (third,) = asked(forest.step(Tick(), 2 * VERIFY_S - 1.0))
    forest.step(LookupDone(third.token, TREE, (contact(5),)), 2 * VERIFY_S)
    assert asked(forest.step(Tick(), 3 * VERIFY_S - 0.1)) == []
    assert len(asked(forest.step(Tick(), 3 * VERIFY_S))) == 1


def test_a_root_needs_no_look_up_while_another_one_proves_that_it_is_the_closest() -> None:
    proof: float | None = None
    asked: list[tuple[bytes, float, float]] = []

    def since(key: bytes, now: float, within_s: float) -> float | None:
        asked.append((key, now, within_s))
        return proof

    forest = Forest(contact(5), rng=random.Random(1), next_hop=lambda tree: None, closest_since=since)
    (first,) = (each for each in forest.step(Subscribe(TREE), 0.0) if isinstance(each, Lookup))
    assert not asked, "it has never been the root"
    forest.step(LookupDone(first.token, TREE, (contact(5),)), 0.0)
    proof = 3.0
    assert forest.step(Tick(), VERIFY_S) == []
    assert asked == [(TREE, VERIFY_S, VERIFY_S)]
    assert forest.deadline == 3.0 + VERIFY_S
    proof = None
    assert [type(each) for each in forest.step(Tick(), 3.0 + VERIFY_S)] == [Lookup]


def test_an_old_look_up_changes_nothing() -> None:
    wire = subscribed(Wire(5), 5)
    assert wire.give(5, LookupDone(1, TREE, (contact(2),))) == []
    assert not wire.dispatcher


def test_a_root_looks_again_when_siblings_change_during_its_look_up() -> None:
    now = 0.0
    forest = Forest(contact(5), rng=random.Random(1), next_hop=lambda tree: None)
    first = next(e for e in forest.step(Subscribe(TREE), now) if isinstance(e, Lookup))
    assert forest.step(SiblingsChanged(), now) == []
    effects = forest.step(LookupDone(first.token, TREE, (contact(5),)), now)
    again = next(e for e in effects if isinstance(e, Lookup))
    closer = forest.step(LookupDone(again.token, TREE, (contact(2), contact(5))), now)
    assert [e.to for e in closer if isinstance(e, Send) and isinstance(e.message, Join)] == [contact(2)]
