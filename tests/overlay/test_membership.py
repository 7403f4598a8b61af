from __future__ import annotations

import random

from elfmesh.machine import Contact, Effect, Message, Received, Send, Tick
from elfmesh.overlay import Overlay, PeerDown, PeerUp, SiblingsChanged, Start
from elfmesh.overlay.membership import GRAVES_MAX, QUARANTINE_S
from elfmesh.overlay.messages import Bye, Find, Found, Ping, Pong, Rows
from tests.overlay.crowd import Crowd

PEER = Contact(b"\x20" * 20, "p", 2, 5)


def alone() -> Overlay:
    overlay = Overlay(Contact(b"\x10" * 20, "me", 1), rng=random.Random(1))
    overlay.step(Start(), 0.0)
    return overlay


def pings(effects: list[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Ping)]


def rid(message: Message) -> int:
    assert isinstance(message, Ping | Rows | Find)
    return message.rid


def run_until_rows(overlay: Overlay, now: float, living: Contact) -> tuple[Send, float]:
    """Tick until the machine fetches rows from its sibling; only `living` answers pings."""
    for _ in range(200):
        deadline = overlay.deadline
        assert deadline is not None
        now = max(now, deadline)
        for effect in overlay.step(Tick(), now):
            if isinstance(effect, Send) and isinstance(effect.message, Rows):
                return effect, now
            if isinstance(effect, Send) and isinstance(effect.message, Ping) and effect.to == living:
                overlay.step(Received(effect.to, Pong(effect.message.rid)), now)
    raise AssertionError("never fetched rows")


def test_a_first_hand_sender_is_admitted_and_reported() -> None:
    overlay = alone()
    effects = overlay.step(Received(PEER, Ping(1)), 1.0)
    assert PeerUp(PEER) in effects
    assert effects[-1] == SiblingsChanged()
    assert overlay.siblings() == [PEER]
    assert not any(isinstance(e, SiblingsChanged) for e in overlay.step(Received(PEER, Ping(2)), 1.1))


def test_a_second_hand_contact_is_pinged_and_admitted_only_by_its_answer() -> None:
    overlay = alone()
    overlay.step(Received(PEER, Ping(1)), 1.0)
    named = Contact(b"\x30" * 20, "n", 3)
    ask, now = run_until_rows(overlay, 1.0, PEER)
    effects = overlay.step(Received(PEER, Found(rid(ask.message), (named, named))), now)
    (ping,) = pings(effects)
    assert ping.to == named
    assert overlay.contact(named.id) is None
    effects = overlay.step(Received(named, Pong(rid(ping.message))), now)
    assert PeerUp(named) in effects
    assert overlay.contact(named.id) == named


def test_the_buried_are_ignored_in_hearsay_until_the_quarantine_is_over() -> None:
    overlay = alone()
    other = Contact(b"\x40" * 20, "o", 4)
    overlay.step(Received(other, Ping(1)), 1.0)
    overlay.step(Received(PEER, Ping(1)), 1.0)
    assert PeerDown(PEER.id, stopped=True) in overlay.step(Received(PEER, Bye()), 2.0)
    assert not any(isinstance(e, PeerDown) for e in overlay.step(Received(PEER, Bye()), 2.0)), "once"
    assert overlay.is_quarantined(PEER.id)
    ask, now = run_until_rows(overlay, 2.0, other)
    assert pings(overlay.step(Received(other, Found(rid(ask.message), (PEER,))), now)) == []
    while now < 2.0 + QUARANTINE_S:
        ask, now = run_until_rows(overlay, now, other)
    assert not overlay.is_quarantined(PEER.id)
    assert [p.to for p in pings(overlay.step(Received(other, Found(rid(ask.message), (PEER,))), now))] == [
        PEER
    ]


def test_a_buried_agent_that_talks_is_answered_and_challenged_and_its_answer_brings_it_back() -> None:
    overlay = alone()
    overlay.step(Received(PEER, Ping(1)), 1.0)
    overlay.step(Received(PEER, Bye()), 2.0)
    effects = overlay.step(Received(PEER, Ping(2)), 3.0)
    (challenge,) = pings(effects)
    assert any(isinstance(e, Send) and isinstance(e.message, Pong) for e in effects)
    assert not any(isinstance(e, PeerUp) for e in effects)
    assert pings(overlay.step(Received(PEER, Ping(3)), 3.1)) == [], "not challenged again at once"
    effects = overlay.step(Received(PEER, Pong(rid(challenge.message))), 3.2)
    assert PeerUp(PEER) in effects
    assert not overlay.is_quarantined(PEER.id)


def test_a_delayed_message_from_a_dead_peer_does_not_bring_it_back() -> None:
    overlay = alone()
    overlay.step(Received(PEER, Ping(1)), 1.0)
    overlay.step(Received(PEER, Bye()), 2.0)
    overlay.step(Received(PEER, Ping(2)), 3.0)
    now = 3.0
    while now < 10:
        now = max(now, overlay.deadline or now + 1)
        overlay.step(Tick(), now)
    assert overlay.contact(PEER.id) is None


def test_a_restart_is_the_end_of_the_old_boot_and_the_beginning_of_the_new() -> None:
    overlay = alone()
    overlay.step(Received(PEER, Ping(1)), 1.0)
    reborn = Contact(PEER.id, "other-host", 9, PEER.incarnation + 1)
    effects = overlay.step(Received(reborn, Ping(1)), 2.0)
    changes = [e for e in effects if isinstance(e, PeerDown | PeerUp)]
    assert changes == [PeerDown(PEER.id), PeerUp(reborn)]
    assert overlay.contact(PEER.id) == reborn
    effects = overlay.step(Received(PEER, Bye()), 3.0)
    assert overlay.contact(PEER.id) == reborn, "the old life cannot speak for the new one"
    assert not any(isinstance(e, PeerDown) for e in effects)


def test_a_later_boot_leaves_quarantine_at_once() -> None:
    overlay = alone()
    overlay.step(Received(PEER, Ping(1)), 1.0)
    overlay.step(Received(PEER, Bye()), 2.0)
    reborn = Contact(PEER.id, PEER.host, PEER.port, PEER.incarnation + 1)
    assert PeerUp(reborn) in overlay.step(Received(reborn, Ping(1)), 2.1)


def test_the_graveyard_is_bounded_and_strangers_are_forgotten_first() -> None:
    overlay = alone()
    overlay.step(Received(PEER, Ping(1)), 1.0)
    overlay.step(Received(PEER, Bye()), 1.0)
    for number in range(GRAVES_MAX + 50):
        overlay._members.quarantine(Contact(number.to_bytes(20), "x", 1))
    assert overlay.is_quarantined(PEER.id)
    assert len(overlay._members._graves) == GRAVES_MAX
    assert overlay._members.graves() == [PEER]


def test_the_two_halves_of_a_partition_find_each_other_again() -> None:
    for cut_s in (8, 60):
        crowd = Crowd(30, seed=8)
        crowd.network.run_for(5)
        left, right = crowd.alive[:15], crowd.alive[15:]
        crowd.link.partition(left, right)
        crowd.network.run_for(cut_s)
        if cut_s > 30:
            for key, found in crowd.look_ups(20):
                assert found
                assert found[0].id in (crowd.closest(key, left), crowd.closest(key, right))
        crowd.link.heal()
        crowd.network.run_for(8)
        for key, found in crowd.look_ups(40, wait_s=2):
            assert found[0].id == crowd.closest(key)
