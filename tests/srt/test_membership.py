"""Joining, moving and leaving, message by message. Agent n sits at distance n from the tree's id."""

from __future__ import annotations

import random
from itertools import pairwise

from elfmesh.machine import Contact, Received, Send, Tick
from elfmesh.overlay import Digest, PeerDown, SiblingsChanged, Unwatch
from elfmesh.srt import Detached, Forest, LostRoot, Subscribe, Unsubscribe
from elfmesh.srt.membership import CLIMB_S, DEEP_CLIMB_S, GRACE_S
from elfmesh.srt.messages import Join, Joined, Leave, Redirect, Reparent
from elfmesh.srt.residency import Rule
from tests.srt.rig import TREE, Wire, children, contact, parent, subscribed


def test_a_full_parent_redirects_to_the_closer_child_with_fewest_children() -> None:
    wire = subscribed(Wire(1, 2, 3, 8, 9, fanout=2), 2, 3, 8, 9)
    assert children(wire, 1) == [2, 3]
    assert sorted(children(wire, 2) + children(wire, 3)) == [8, 9]
    assert len(children(wire, 2)) == 1, "the first redirect counted at once"


def test_a_closer_joiner_takes_the_slot_of_the_farthest_child_and_adopts_it() -> None:
    wire = subscribed(Wire(1, 5, 8, fanout=2), 5, 8)
    wire.add(3)
    wire.give(3, Subscribe(TREE))
    wire.deliver()
    assert children(wire, 1) == [5, 3]
    assert children(wire, 3) == [8]
    assert Detached(TREE) in wire.take(8)


def test_no_agent_accepts_an_agent_that_is_closer() -> None:
    wire = subscribed(Wire(4, 6), 6)
    join = Join(TREE, 1, 1, 0, None)
    wire.give(6, Received(contact(5), join))
    (*_, (source, to, message, _)) = wire.dispatcher
    assert (source, to, message) == (6, 5, Redirect(TREE, 1, contact(4)))
    wire.dispatcher.clear()
    wire.give(4, Received(contact(2), join))
    assert wire.dispatcher[0][2] == Redirect(TREE, 1, None)


def test_a_repeated_join_changes_nothing_but_is_answered() -> None:
    wire = Wire(1, 5)
    wire.give(5, Subscribe(TREE))
    (_, _, join, _) = wire.dispatcher[0]
    wire.deliver()
    wire.take(1)
    wire.give(1, Received(contact(5), join))
    assert wire.waiting() == [(1, 5, "Joined")]
    wire.deliver()
    assert (wire.take(1), wire.take(5)[2:]) == ([], [])


def test_an_unrequested_joined_is_answered_by_a_leave() -> None:
    wire = subscribed(Wire(1, 5), 5)
    wire.give(5, Received(contact(3), Joined(TREE, 99, 1, 1, 0, 0)))
    assert wire.waiting() == [(5, 3, "Leave")]


def test_when_the_parent_dies_the_orphan_joins_another() -> None:
    wire = subscribed(Wire(1, 5, 9), 5, 9)
    del wire.forests[1]
    wire.give(9, PeerDown(contact(1).id))
    assert wire.take(9)[-2:] == [Unwatch(contact(1).id), Detached(TREE)]
    wire.give(5, PeerDown(contact(1).id))
    wire.deliver()
    assert wire.forests[5].is_root(TREE)
    assert parent(wire, 9) == 5


def test_the_root_gives_way_to_an_agent_that_is_closer() -> None:
    wire = subscribed(Wire(5, 9), 9, 5)
    wire.add(2)
    wire.give(5, SiblingsChanged())
    wire.deliver()
    assert LostRoot(TREE) in wire.take(5)
    assert (parent(wire, 5), parent(wire, 9)) == (2, 5)
    assert wire.forests[2].is_root(TREE)


def test_a_forwarder_without_children_prunes_itself() -> None:
    wire = subscribed(Wire(1, 4), 4)
    wire.add(9)
    wire.route(9, 4)
    wire.give(9, Subscribe(TREE))
    wire.deliver()
    wire.give(4, Unsubscribe(TREE))
    wire.deliver()
    assert parent(wire, 9) == 4, "4 stays as a forwarder"
    wire.give(9, Unsubscribe(TREE))
    wire.deliver()
    assert [forest.tree(TREE) for forest in wire.forests.values()] == [None, None, None]
    assert LostRoot(TREE) in wire.take(1)
    assert all(not forest._context.links for forest in wire.forests.values()), "no child is watched"


def test_an_old_leave_does_not_end_a_newer_join() -> None:
    wire = subscribed(Wire(1, 5), 5)
    wire.give(1, Received(contact(5), Leave(TREE, 0)))
    assert children(wire, 1) == [5]


def test_a_digest_reveals_a_child_the_parent_has_forgotten() -> None:
    wire = subscribed(Wire(1, 5), 5)
    wire.now = GRACE_S + 0.1
    assert wire.forests[1].digest_for(contact(5).id) != b""
    wire.give(5, Digest(contact(1).id, b""))
    assert wire.waiting() == [(5, 1, "Join")]


def test_a_digest_within_the_grace_changes_nothing() -> None:
    wire = subscribed(Wire(1, 5), 5)
    wire.give(5, Digest(contact(1).id, b""))
    assert wire.waiting() == []


def test_a_digest_reveals_a_parent_the_child_has_forgotten() -> None:
    wire = subscribed(Wire(1, 5), 5, 1)
    wire.now = 2 * GRACE_S + 0.1
    wire.give(1, Digest(contact(5).id, b""))
    assert children(wire, 1) == []


def test_digests_carry_the_size_of_subtrees() -> None:
    wire = subscribed(Wire(1, 5), 5, 1)
    wire.give(1, Digest(contact(5).id, wire.forests[5].digest_for(contact(1).id)))
    info = wire.forests[1].tree(TREE)
    assert info is not None
    assert info.size == 2


def test_a_segment_for_a_tree_the_agent_left_sends_the_child_looking() -> None:
    wire = subscribed(Wire(1, 5), 5)
    wire.give(5, Received(contact(1), Reparent(TREE, None)))
    assert wire.waiting() == [(5, 1, "Join")]
    wire.deliver()
    assert children(wire, 1) == [5]


def chain(wire: Wire, *numbers: int) -> None:
    """Each agent joins through the one before it."""
    for above, number in pairwise(numbers):
        wire.route(number, above)
        wire.give(number, Subscribe(TREE))
        wire.deliver()


def test_a_deep_agent_climbs_into_a_free_slot_of_its_grandparent() -> None:
    wire = Wire(1, 2, 3, 4)
    chain(wire, 1, 2, 3, 4)
    assert parent(wire, 4) == 3
    wire.now = 2 * CLIMB_S
    wire.give(4, Tick())
    wire.deliver()
    assert parent(wire, 4) == 2
    assert children(wire, 3) == []
    wire.now = 4 * CLIMB_S
    wire.give(4, Tick())
    assert "Join" not in str(wire.waiting()), "two hops down is not deep"


def test_climbing_never_pushes_an_agent_out() -> None:
    wire = Wire(1, 2, 3, 4, fanout=1)
    chain(wire, 1, 2, 3, 4)
    wire.now = 2 * CLIMB_S
    wire.give(4, Tick())
    wire.deliver()
    assert [parent(wire, number) for number in (2, 3, 4)] == [1, 2, 3]


def test_same_events_give_the_same_effects() -> None:
    def run() -> list[object]:
        forest = Forest(contact(5), rng=random.Random(3), next_hop=lambda key: contact(1))
        effects: list[object] = list(forest.step(Subscribe(TREE), 0.0))
        join = effects[0]
        assert isinstance(join, Send)
        assert isinstance(join.message, Join)
        answer = Joined(TREE, join.message.token, 1, 1, 0, 0)
        effects += forest.step(Received(contact(1), answer), 0.1)
        return [*effects, forest.deadline]

    assert run() == run()


def test_any_contact_may_speak_without_harm() -> None:
    forest = Forest(contact(5), rng=random.Random(3), next_hop=lambda key: None)
    stranger = Contact(b"", "10.9.9.9", 1)
    forest.step(Received(stranger, Join(b"short", 1, 1, 0, None)), 0.0)
    forest.step(Received(contact(7), Leave(TREE, 3)), 0.0)
    assert forest.stats()["not_in_tree"] == 2


def test_an_agent_that_sits_very_deep_is_sent_to_the_root_and_placed_again() -> None:
    wire = Wire(1, fanout=2)
    for number, above in ((2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 6), (8, 5), (9, 4), (10, 3), (11, 2)):
        wire.add(number)
        wire.route(number, above)
        wire.give(number, Subscribe(TREE))
        wire.deliver()
    assert [parent(wire, number) for number in (7, 8, 9, 10, 11)] == [6, 5, 4, 3, 2], "all above 7 are full"
    wire.now = 1.3 * DEEP_CLIMB_S
    wire.give(7, Tick())
    wire.deliver()
    assert parent(wire, 7) == 1, "the root had room"
    assert (children(wire, 6), children(wire, 1)) == ([], [2, 7])


EU = (("region=eu",),)
RACK = (("rack=r1",),)


def kept(wire: Wire, *numbers: int, rule: Rule = EU) -> Wire:
    """Agents whose contributions have a rule subscribe."""
    for number in numbers:
        wire.give(number, Subscribe(TREE, keep_in=rule))
        wire.deliver()
    return wire


def test_an_agent_with_a_rule_is_a_child_of_the_root_and_not_of_an_agent_without_one() -> None:
    wire = subscribed(Wire(1, 3, 9, fanout=1), 3)
    wire.route(9, 3)
    kept(wire, 9)
    assert parent(wire, 9) == 1


def test_agents_with_one_rule_relay_for_each_other() -> None:
    wire = kept(Wire(1, 3, 9, fanout=1), 3, 9)
    assert (parent(wire, 3), parent(wire, 9)) == (1, 3)
    wire.add(12)
    kept(wire, 12, rule=RACK)
    assert parent(wire, 12) == 1, "beyond the fan-out, because no child can be given away"


def test_an_agent_without_a_rule_makes_room_at_the_root() -> None:
    wire = kept(subscribed(Wire(1, 3, 9, fanout=1), 3), 9)
    assert (parent(wire, 9), parent(wire, 3)) == (1, 1), "3 is closer than 9, so that it cannot be below it"
    wire.add(12)
    wire.give(12, Subscribe(TREE))
    wire.deliver()
    assert parent(wire, 12) in (3, 9)


def test_an_agent_that_gets_a_rule_looks_for_another_parent() -> None:
    wire = subscribed(Wire(1, 3, 9, fanout=1), 3, 9)
    assert parent(wire, 9) == 3
    kept(wire, 9)
    assert parent(wire, 9) == 1


def test_a_root_that_gives_way_sends_children_with_other_rules_to_the_next_one() -> None:
    wire = kept(subscribed(Wire(5, 9), 5), 9)
    assert parent(wire, 9) == 5
    wire.add(2)
    wire.give(5, SiblingsChanged())
    wire.deliver()
    assert (parent(wire, 5), parent(wire, 9)) == (2, 2)
