"""Agents that were met: who counts as one of the fleet, and from when on no more."""

from __future__ import annotations

import pytest

from elfmesh.control.protocol.events import Persist
from elfmesh.control.replicas import known_peers
from elfmesh.control.replicas.known_peers import FORGOTTEN_S, KnownPeers
from elfmesh.machine import Contact
from tests.control.contexts import new_context


def agent(number: int, boot: int = 1) -> Contact:
    return Contact(bytes([number]) * 20, "sim", number, boot)


KEY = bytes(20)


def test_an_agent_that_is_away_counts_until_its_time_is_over() -> None:
    context = new_context(200)
    peers = KnownPeers(context)
    peers.met(agent(1))
    assert peers.there() == [agent(1)]
    assert peers.lost(agent(1).id) == agent(1)
    assert (peers.there(), peers.away()) == ([], [agent(1)])
    context.now = FORGOTTEN_S - 1
    assert agent(1) in peers.nearest(KEY, 5)
    assert peers.away_s(agent(1).id) == FORGOTTEN_S - 1
    context.now = FORGOTTEN_S
    assert peers.nearest(KEY, 5) == [context.me]
    assert peers.known() == ()


def test_a_message_of_an_agent_that_is_away_starts_its_time_again() -> None:
    context = new_context(200)
    peers = KnownPeers(context)
    peers.met(agent(1))
    peers.lost(agent(1).id)
    context.now = FORGOTTEN_S - 1
    peers.received(agent(1).id)
    assert peers.there() == [], "the overlay has not met it again"
    context.now += FORGOTTEN_S - 1
    assert agent(1) in peers.nearest(KEY, 5)
    peers.received(agent(9).id)
    assert peers.away() == [agent(1)], "a stranger's message makes no member"


def test_an_answer_makes_an_agent_known_but_not_there() -> None:
    peers = KnownPeers(new_context(200))
    peers.answered(agent(1))
    assert (peers.known(), peers.there()) == ((agent(1),), [])


def test_a_farewell_forgets_this_boot_and_not_a_later_one() -> None:
    peers = KnownPeers(new_context(200))
    peers.met(agent(1, boot=2))
    peers.on_departed(agent(1, boot=1))
    assert peers.known() == (agent(1, boot=2),), "it was said by an earlier boot"
    peers.on_departed(agent(1, boot=2))
    assert peers.known() == ()
    peers.met(agent(1, boot=2))
    assert peers.known() == (), "a contact of a boot that has left is stale"
    peers.met(agent(1, boot=3))
    assert peers.known() == (agent(1, boot=3),)


def test_beyond_the_bound_the_one_that_is_away_for_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_peers, "MET_MAX", 3)
    context = new_context(200)
    peers = KnownPeers(context)
    for number in (1, 2, 3):
        peers.met(agent(number))
    peers.lost(agent(3).id)
    peers.lost(agent(2).id)
    context.out.clear()
    peers.met(agent(4))
    assert peers.known() == (agent(1), agent(2), agent(4))
    assert [(effect.key, effect.data == b"") for effect in context.out if isinstance(effect, Persist)] == [
        (agent(4).id, False),
        (agent(3).id, True),
    ]


def test_after_a_restart_all_are_away_and_what_cannot_be_read_is_counted() -> None:
    first = new_context(200)
    peers = KnownPeers(first)
    peers.met(agent(1))
    (written,) = (effect for effect in first.out if isinstance(effect, Persist))

    context = new_context(200)
    again = KnownPeers(context)
    again.restored(written.key, written.data)
    again.restored(agent(2).id, b"\xc1 nonsense")
    assert (again.known(), again.there()) == ((agent(1),), [])
    assert context.stats["control.malformed"] == 1


def test_the_nearest_are_by_distance_and_this_agent_is_one_of_them() -> None:
    context = new_context(200)
    peers = KnownPeers(context)
    for number in (8, 1, 4):
        peers.met(agent(number))
    peers.met(context.me)
    assert context.me not in peers.known()
    assert [each.port for each in peers.nearest(KEY, 2)] == sorted(
        [each.port for each in (agent(1), agent(4), agent(8), context.me)],
        key=lambda port: (agent(port) if port < 200 else context.me).id,
    )[:2]
