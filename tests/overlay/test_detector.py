from __future__ import annotations

import random
from functools import partial

import pytest

from elfmesh.machine import Contact, Effect, Event, Received, Send, Tick
from elfmesh.overlay import ConnectionLost, Leave, Overlay, PeerDown, Probe, ProbeDone, Start, Watch
from elfmesh.overlay.messages import Obituary, Ping, Pong, Relay, Relayed
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Faults


def settled(size: int, seed: int = 1, faults: Faults | None = None) -> Crowd:
    crowd = Crowd(size, seed=seed, faults=faults)
    crowd.network.run_for(10)
    return crowd


@pytest.mark.parametrize("size", [2, 3, 30])
def test_a_killed_peer_is_down_within_a_second_of_its_lost_connection(size: int) -> None:
    crowd = settled(size)
    watcher = crowd.alive[0]
    victim = crowd.agents[watcher].siblings()[0]
    crowd.network.give(watcher, Watch(victim))
    crowd.network.run_for(3)
    crowd.network.crash(victim.id)
    killed = crowd.network.now
    crowd.network.give(watcher, ConnectionLost(victim.id))
    crowd.network.run_for(1.0)
    assert [id for _, id in crowd.downs(watcher)] == [victim.id]
    assert crowd.downs(watcher)[0][0] - killed < 1.0


def test_refused_reconnections_make_it_faster_still_but_never_skip_the_last_stages() -> None:
    crowd = settled(2)
    watcher, victim = crowd.alive
    crowd.network.crash(victim)
    for _ in range(3):
        crowd.network.give(watcher, ConnectionLost(victim))
        crowd.network.run_for(0.01)
    assert crowd.downs(watcher) == []
    crowd.network.run_for(0.4)
    assert [id for _, id in crowd.downs(watcher)] == [victim]


def test_a_lost_connection_to_a_living_peer_declares_no_peer_dead() -> None:
    crowd = settled(10)
    for a in crowd.alive:
        for b in crowd.agents[a].siblings():
            crowd.network.give(a, ConnectionLost(b.id))
    crowd.network.run_for(5)
    assert all(crowd.downs(id) == [] for id in crowd.alive)


def test_a_watched_peer_that_falls_silent_is_down_in_about_three_seconds() -> None:
    crowd = settled(20)
    watcher = crowd.alive[0]
    victim = crowd.agents[watcher].siblings()[-1]
    crowd.network.give(watcher, Watch(victim))
    crowd.network.run_for(3)
    crowd.network.crash(victim.id)
    killed = crowd.network.now
    assert crowd.network.run_while(lambda: not crowd.downs(watcher), limit=3.5)
    assert crowd.downs(watcher)[0][0] - killed < 3.5


def test_all_peers_learn_of_a_death_once_and_no_other_peer_dies() -> None:
    crowd = settled(40)
    victims = set(crowd.kill(8))
    crowd.network.run_for(60)
    for id in crowd.alive:
        downs = [victim for _, victim in crowd.downs(id)]
        assert len(downs) == len(set(downs))
        assert set(downs) <= victims
        assert not victims & {contact.id for contact in crowd.agents[id].closest(id, 100)}


def test_a_cut_between_two_agents_kills_neither_while_others_reach_them() -> None:
    crowd = settled(20)
    a, b = crowd.alive[:2]
    usual = crowd.link.deliveries

    def cut(src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
        return [] if {src, dst} == {a, b} else usual(src, dst, now, rng)

    crowd.link.deliveries = cut  # type: ignore[method-assign]  # a fault of this test
    crowd.network.give(a, Watch(crowd.agents[b].me))
    crowd.network.run_for(30)
    assert b not in [id for _, id in crowd.downs(a)]
    assert crowd.counter("reached_only_through_others") > 0


def test_heavy_loss_and_reordering_declare_few_peers_dead_and_these_come_back() -> None:
    crowd = settled(40, seed=3, faults=Faults(loss=0.1, duplicate=0.2, reorder=0.3, reorder_delay=0.2))
    crowd.network.run_for(60)
    assert sum(len(crowd.downs(id)) for id in crowd.alive) <= 2


@pytest.mark.parametrize("late", [0.3, 1.0, 5.0])
def test_late_ticks_of_a_blocked_loop_declare_no_peer_dead(late: float) -> None:
    """The loop stands still; answers lie unread and are handed over only after the tick."""
    crowd = settled(10)
    me = crowd.alive[0]
    for peer in crowd.agents[me].siblings():
        crowd.network.give(me, Watch(peer))
    host = crowd.network.hosts[me]
    lagging = _Lagging(crowd.agents[me])
    host.machine = lagging
    for _ in range(8):
        crowd.network.run_for(1.7)
        lagging.stopped = True
        crowd.network.run_for(late)
        lagging.stopped = False
        now = crowd.network.now
        crowd.network.give(me, Tick())
        for event in lagging.unread:
            crowd.network.at(now + 0.001, partial(crowd.network.give, me, event))
        lagging.unread = []
    crowd.network.run_for(3)
    assert crowd.downs(me) == []


class _Lagging:
    """A machine in a process that sometimes does not run."""

    def __init__(self, machine: Overlay) -> None:
        self.machine = machine
        self.stopped = False
        self.unread: list[Event] = []

    def step(self, event: Event, now: float) -> list[Effect]:
        if self.stopped:
            if isinstance(event, Received):
                self.unread.append(event)
            return []
        return self.machine.step(event, now)

    @property
    def deadline(self) -> float | None:
        return None if self.stopped else self.machine.deadline


def test_a_leaving_agent_is_down_at_its_siblings_and_watchers_at_once() -> None:
    crowd = settled(30)
    leaver = crowd.alive[3]
    farthest = max(crowd.alive, key=lambda id: int.from_bytes(id) ^ int.from_bytes(leaver))
    crowd.network.give(farthest, Watch(crowd.agents[leaver].me))
    crowd.network.run_for(2)
    notified = {contact.id for contact in crowd.agents[leaver].siblings()} | {farthest}
    crowd.network.give(leaver, Leave())
    assert crowd.agents[leaver].deadline is None
    crowd.network.run_for(0.01)
    for id in notified:
        assert leaver in [down for _, down in crowd.downs(id)]
        assert crowd.agents[id].is_quarantined(leaver)
    crowd.network.run_for(30)
    assert all(crowd.agents[id].contact(leaver) is None for id in crowd.alive if id != leaver)


def test_a_probe_reports_whether_an_agent_answers() -> None:
    crowd = settled(5)
    asker, other, dead = crowd.alive[:3]
    crowd.network.crash(dead)
    crowd.network.give(asker, Probe(crowd.agents[other].me, 1))
    crowd.network.give(asker, Probe(crowd.agents[dead].me, 2))
    crowd.network.run_for(2)
    done = {e.token: (e.contact.id, e.alive) for e in crowd.of(asker, ProbeDone) if isinstance(e, ProbeDone)}
    assert done == {1: (other, True), 2: (dead, False)}


@pytest.mark.parametrize("others", [False, True])
def test_a_probe_finds_an_agent_behind_a_cut_link_if_it_may_ask_others(others: bool) -> None:
    crowd = settled(20)
    a, b = crowd.alive[:2]
    usual, contact = crowd.link.deliveries, crowd.agents[b].me

    def cut(src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
        return [] if {src, dst} == {a, b} else usual(src, dst, now, rng)

    crowd.link.deliveries = cut  # type: ignore[method-assign]  # a fault of this test
    crowd.network.give(a, Probe(contact, 1, others))
    crowd.network.run_for(3)
    (done,) = crowd.of(a, ProbeDone)
    assert isinstance(done, ProbeDone)
    assert (done.contact.id, done.alive, done.others) == (b, others, others)


def test_a_buried_agent_is_probed_once_and_through_no_other() -> None:
    crowd = settled(20)
    a, b = crowd.alive[:2]
    contact = crowd.agents[b].me
    crowd.network.give(a, Watch(contact))
    crowd.network.crash(b)
    assert crowd.network.run_while(lambda: not crowd.downs(a), limit=5.0)
    overlay, now = crowd.agents[a], crowd.network.now
    sent = overlay.step(Probe(contact, 1, True), now)
    assert [type(each.message) for each in sent if isinstance(each, Send)] == [Ping]
    deadline = overlay.deadline
    while deadline is not None and not any(isinstance(each, ProbeDone) for each in sent):
        now, sent = deadline, overlay.step(Tick(), deadline)
        assert contact not in [each.to for each in sent if isinstance(each, Send)]
        deadline = overlay.deadline
    (done,) = [each for each in sent if isinstance(each, ProbeDone)]
    assert not done.alive


def pair() -> tuple[Overlay, Contact]:
    """A machine that knows one peer."""
    overlay, peer = (
        Overlay(Contact(b"\x10" * 20, "me", 1), rng=random.Random(1)),
        Contact(b"\x20" * 20, "p", 2),
    )
    overlay.step(Start(), 0.0)
    overlay.step(Received(peer, Ping(7)), 0.1)
    return overlay, peer


def test_an_obituary_is_a_reason_to_ping_and_never_to_believe() -> None:
    overlay, peer = pair()
    liar = Contact(b"\x30" * 20, "l", 3)
    effects = overlay.step(Received(liar, Ping(1, (Obituary(peer.id, 0),))), 0.2)
    pings = [e for e in effects if isinstance(e, Send) and isinstance(e.message, Ping)]
    assert [ping.to for ping in pings] == [peer]
    assert not any(isinstance(e, PeerDown) for e in effects)
    assert overlay.contact(peer.id) == peer
    assert isinstance(pings[0].message, Ping)
    overlay.step(Received(peer, Pong(pings[0].message.rid)), 0.3)
    again = overlay.step(Received(liar, Ping(2, (Obituary(peer.id, 0),))), 0.4)
    assert not [e for e in again if isinstance(e, Send) and isinstance(e.message, Ping)], "each rumour once"


def test_a_relay_pings_the_target_and_reports_and_refuses_a_flood() -> None:
    overlay, peer = pair()
    target = Contact(b"\x40" * 20, "t", 4)
    effects = overlay.step(Received(peer, Relay(9, target)), 0.2)
    (ping,) = [e for e in effects if isinstance(e, Send)]
    assert ping.to == target
    assert isinstance(ping.message, Ping)
    effects = overlay.step(Received(target, Pong(ping.message.rid)), 0.3)
    assert Send(peer, Relayed(9, True)) in effects
    for rid in range(100):
        overlay.step(Received(peer, Relay(rid, Contact(bytes([rid]) * 20, "t", 4))), 0.4)
    assert int(overlay.stats()["relays_refused"]) > 0
