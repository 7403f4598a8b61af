from __future__ import annotations

import random

from elfmesh.machine import Contact, Received, Send, Tick
from elfmesh.overlay import Digest, Overlay, PeerDown, Start, Unwatch, Watch
from elfmesh.overlay.messages import Beat, BeatBack, Ping, Pong
from tests.overlay.crowd import Crowd


def digests(crowd: Crowd, id: bytes) -> list[tuple[bytes, bytes]]:
    return [(effect.peer, effect.digest) for effect in crowd.of(id, Digest) if isinstance(effect, Digest)]


def watched_pair(*, both: bool) -> tuple[Crowd, bytes, bytes]:
    crowd = Crowd(2, digest=lambda me, peer: b"for " + peer[:2])
    crowd.network.run_for(3)
    a, b = crowd.alive
    crowd.network.give(a, Watch(crowd.agents[b].me))
    if both:
        crowd.network.give(b, Watch(crowd.agents[a].me))
    return crowd, a, b


def test_one_heartbeat_a_second_carries_both_digests() -> None:
    crowd, a, b = watched_pair(both=False)
    crowd.network.run_for(10)
    assert set(digests(crowd, a)) == {(b, b"for " + a[:2])}
    assert set(digests(crowd, b)) == {(a, b"for " + b[:2])}
    assert 9 <= len(digests(crowd, a)) <= 12
    assert len(digests(crowd, b)) == len(digests(crowd, a))


def test_two_ends_that_watch_each_other_share_one_heartbeat() -> None:
    crowd, a, b = watched_pair(both=True)
    crowd.network.run_for(20)
    assert 19 <= crowd.counter("beats") <= 26
    assert len(digests(crowd, a)) == len(digests(crowd, b)) == crowd.counter("beats")


def test_what_is_regular_happens_in_one_step_a_second() -> None:
    me = Contact(b"\x10" * 20, "me", 1)
    overlay = Overlay(me, rng=random.Random(1))
    overlay.step(Start(), 0.0)
    for number in range(6):
        peer = Contact(bytes([0x20 + number]) * 20, "p", 2)
        for effect in overlay.step(Watch(peer), 0.1 * number):
            _answer(overlay, effect, 0.1 * number)
    beats: dict[float, int] = {}
    steps = set()
    while (due := overlay.deadline) is not None and due < 12.0:
        for effect in overlay.step(Tick(), due):
            if isinstance(effect, Send) and isinstance(effect.message, Beat):
                beats[due] = beats.get(due, 0) + 1
            _answer(overlay, effect, due)
        if due > 2.0:
            steps.add(due)
    assert sum(beats.values()) >= 6 * 10
    assert {count for at, count in beats.items() if at > 2.0} == {6}
    assert len(steps) <= 13


def _answer(overlay: Overlay, effect: object, now: float) -> None:
    """What a peer says to a heartbeat or a ping, at once."""
    if isinstance(effect, Send) and isinstance(effect.message, Beat):
        overlay.step(Received(effect.to, BeatBack(effect.message.rid, b"")), now)
    elif isinstance(effect, Send) and isinstance(effect.message, Ping):
        overlay.step(Received(effect.to, Pong(effect.message.rid)), now)


def test_the_end_that_is_beaten_wakes_for_nothing() -> None:
    """Its own turn moves away with every heartbeat of the other end."""
    me, peer = Contact(b"\x10" * 20, "me", 1), Contact(b"\x20" * 20, "p", 2)
    overlay = Overlay(me, rng=random.Random(1))
    overlay.step(Watch(peer), 0.0)
    woken = []
    for second in range(1, 10):
        overlay.step(Received(peer, Beat(second, b"")), float(second))
        while (due := overlay.deadline) is not None and due < second + 1:
            woken.append(due)
            overlay.step(Tick(), due)
    assert woken, "the first heartbeat is never answered, and the peer is asked whether it lives"
    assert max(woken) < 5.0
    assert overlay.deadline is not None
    reported = [each.message for each in overlay.step(Tick(), overlay.deadline) if isinstance(each, Send)]
    assert [type(each) for each in reported] == [Beat], "it has fallen silent"


def test_the_other_end_takes_over_when_one_dies() -> None:
    for dead in (0, 1):
        crowd, a, b = watched_pair(both=True)
        crowd.network.run_for(5)
        survivor = (b, a)[dead]
        crowd.network.crash((a, b)[dead])
        crowd.network.run_for(4)
        assert [id for _, id in crowd.downs(survivor)] == [(a, b)[dead]]


def test_watch_is_idempotent_and_one_unwatch_ends_it() -> None:
    crowd, a, b = watched_pair(both=False)
    for _ in range(5):
        crowd.network.give(a, Watch(crowd.agents[b].me))
    crowd.network.run_for(5)
    assert crowd.counter("beats") <= 6
    crowd.network.give(a, Unwatch(b))
    crowd.network.give(a, Unwatch(b))
    before = crowd.counter("beats")
    crowd.network.run_for(5)
    assert crowd.counter("beats") == before
    assert crowd.agents[a].contact(b) is not None


def test_a_watch_on_an_agent_that_is_not_there_ends_in_peer_down() -> None:
    crowd = Crowd(3)
    crowd.network.run_for(3)
    ghost = Contact(b"\x99" * 20, "nowhere", 1)
    crowd.network.give(crowd.alive[0], Watch(ghost))
    crowd.network.run_for(5)
    assert [id for _, id in crowd.downs(crowd.alive[0])] == [ghost.id]
    assert crowd.agents[crowd.alive[0]].stats()["watched"] == 0


def test_a_watch_that_has_ended_by_a_death_can_be_taken_up_again() -> None:
    crowd, a, b = watched_pair(both=False)
    crowd.network.run_for(2)
    crowd.network.crash(b)
    crowd.network.run_for(4)
    reborn = crowd.network.restart(b, crowd.overlay)
    seed = crowd.agents[a].me
    crowd.network.give(b, Start(((seed.host, seed.port),)))
    crowd.network.run_for(1)
    crowd.network.give(a, Watch(reborn))
    before = len(digests(crowd, a))
    crowd.network.run_for(3)
    assert len(digests(crowd, a)) >= before + 2
    assert [id for _, id in crowd.downs(a)] == [b]


def test_a_heartbeat_is_answered_even_by_an_agent_that_does_not_watch() -> None:
    overlay = Overlay(Contact(b"\x10" * 20, "me", 1), rng=random.Random(1), digest=lambda peer: b"mine")
    overlay.step(Start(), 0.0)
    peer = Contact(b"\x20" * 20, "p", 2)
    effects = overlay.step(Received(peer, Beat(5, b"yours")), 1.0)
    assert Send(peer, BeatBack(5, b"mine")) in effects
    assert Digest(peer.id, b"yours") in effects
    assert not any(isinstance(effect, PeerDown) for effect in effects)
