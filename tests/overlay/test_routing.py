from __future__ import annotations

import random

from elfmesh.machine import Contact, Effect, Received, Send, Tick
from elfmesh.overlay import ConnectionLost, Overlay, Route, RouteDelivered, Start
from elfmesh.overlay.messages import Find, Found, Hop, HopTaken, Ping
from elfmesh.overlay.routing import HOPS_MAX
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Faults


def test_a_key_leads_to_one_agent_from_every_source_and_it_is_the_closest() -> None:
    crowd = Crowd(50)
    crowd.network.run_for(5)
    for number in range(5):
        key = crowd.rng.randbytes(20)
        for source in crowd.alive:
            crowd.route(source, key, b"body %d" % number, source)
        crowd.network.run_for(3)
        arrived = [(contact.id, d) for contact, d in crowd.delivered if d.key == key]
        assert {id for id, _ in arrived} == {crowd.closest(key)}
        assert sorted(d.payload for _, d in arrived) == sorted(crowd.alive)
        assert all(d.origin.id == d.payload and d.body == b"body %d" % number for _, d in arrived)


def test_routes_need_about_log16_hops() -> None:
    crowd = Crowd(100)
    crowd.network.run_for(10)
    before = crowd.counter("hops")
    for _ in range(100):
        crowd.route(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20))
    crowd.network.run_for(3)
    assert len(crowd.delivered) == 100
    assert (crowd.counter("hops") - before) / 100 < 2.5


def test_a_message_is_delivered_at_most_once_whatever_the_network_doubles() -> None:
    crowd = Crowd(40, seed=5, faults=Faults(loss=0.1, duplicate=0.5, reorder=0.3, reorder_delay=0.5))
    crowd.network.run_for(15)
    for number in range(100):
        crowd.route(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20), str(number).encode())
    crowd.network.run_for(20)
    bodies = [d.body for _, d in crowd.delivered]
    assert len(bodies) == len(set(bodies)) == 100
    assert sum(contact.id == crowd.closest(d.key) for contact, d in crowd.delivered) >= 96


def test_a_dead_next_hop_is_replaced_by_the_next_best() -> None:
    crowd = Crowd(40, seed=6)
    crowd.network.run_for(5)
    crowd.kill(8)
    for number in range(60):
        crowd.route(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20), str(number).encode())
    crowd.network.run_for(10)
    assert len({d.body for _, d in crowd.delivered}) == 60
    assert all(contact.id == crowd.closest(d.key) for contact, d in crowd.delivered)


def test_the_verdict_of_a_local_minimum_is_kept_and_a_new_closer_agent_overrules_it() -> None:
    crowd = Crowd(30, seed=7)
    crowd.network.run_for(5)
    key = crowd.rng.randbytes(20)
    root = crowd.closest(key)
    for _ in range(5):
        crowd.route(root, key)
        crowd.network.run_for(0.5)
    assert crowd.counter("verifications") == 1
    crowd.network.run_for(5)
    crowd.route(root, key)
    crowd.network.run_for(0.5)
    assert crowd.counter("verifications") == 2
    newcomer = Contact((int.from_bytes(key) ^ 1).to_bytes(20), "new", 1)
    crowd.network.add(newcomer, crowd.overlay(newcomer))
    seed = crowd.agents[root].me
    crowd.network.give(newcomer.id, Start(((seed.host, seed.port),)))
    crowd.network.run_for(1)
    crowd.delivered.clear()
    crowd.route(root, key)
    crowd.network.run_for(1)
    assert [contact.id for contact, _ in crowd.delivered] == [newcomer.id]


def test_a_verdict_in_use_is_verified_before_it_expires() -> None:
    """No message waits for a look-up, which takes some round trips, while others come often."""
    crowd = Crowd(20, seed=4)
    crowd.network.run_for(5)
    key = crowd.rng.randbytes(20)
    root = crowd.closest(key)
    crowd.route(root, key)
    crowd.network.run_for(3)
    for _ in range(4):
        crowd.delivered.clear()
        crowd.route(root, key)
        assert len(crowd.delivered) == 1, "at once"
        crowd.network.run_for(2.4)


def alone() -> Overlay:
    overlay = Overlay(Contact(b"\x10" * 20, "me", 1), rng=random.Random(1))
    overlay.step(Start(), 0.0)
    return overlay


def test_one_agent_alone_delivers_to_itself_at_once() -> None:
    overlay = alone()
    key = b"k" * 20
    assert overlay.step(Route(key, b"b", b"p"), 1.0) == [RouteDelivered(key, b"b", b"p", overlay.me)]


def test_a_message_that_has_made_too_many_hops_is_acknowledged_counted_and_dropped() -> None:
    overlay = alone()
    sender = Contact(b"\x20" * 20, "s", 1)
    effects = overlay.step(Received(sender, Hop(sender, 1, b"k" * 20, HOPS_MAX, b"")), 1.0)
    assert Send(sender, HopTaken(sender.id, 1)) in effects
    assert not any(isinstance(effect, RouteDelivered) for effect in effects)
    assert overlay.stats()["routes_lost_by_hop_limit"] == 1


def knowing_two_on_the_way() -> tuple[Overlay, bytes, list[Contact]]:
    overlay, key = alone(), b"\xf0" * 20
    ways = [Contact(b"\xf0" * 19 + b"\x00", "best", 2), Contact(b"\xf0" * 18 + b"\x00\x00", "next", 3)]
    for way in ways:
        overlay.step(Received(way, Ping(1)), 0.1)
    return overlay, key, ways


def hops(effects: list[Effect]) -> list[Contact]:
    return [effect.to for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Hop)]


def test_an_unacknowledged_hop_is_followed_by_the_next_best() -> None:
    overlay, key, ways = knowing_two_on_the_way()
    assert hops(overlay.step(Route(key, b""), 0.2)) == [ways[0]]
    now, later = 0.2, list[Contact]()
    while not later:
        now = max(now, overlay.deadline or now)
        later = hops(overlay.step(Tick(), now))
    assert later == [ways[1]]
    assert now < 1.0


def test_a_broken_connection_sends_a_message_another_way_at_once() -> None:
    overlay, key, ways = knowing_two_on_the_way()
    assert hops(overlay.step(Route(key, b""), 0.2)) == [ways[0]]
    assert hops(overlay.step(ConnectionLost(ways[0].id), 0.21)) == [ways[1]]


def test_after_a_pause_of_our_own_loop_a_hop_gets_time_to_acknowledge() -> None:
    overlay, key, _ = knowing_two_on_the_way()
    overlay.step(Route(key, b""), 0.2)
    assert hops(overlay.step(Tick(), 5.0)) == []
    assert hops(overlay.step(Tick(), 5.5)) == []
    assert overlay.stats()["routes"] == 1


def test_an_agent_that_answers_but_never_takes_charge_cannot_hold_a_message_for_ever() -> None:
    overlay, now = alone(), 1.0
    key = b"\x20" * 20
    lazy = Contact(key, "lazy", 1)
    pending = overlay.step(Received(lazy, Find(1, b"\x20" * 20, 8)), now) + overlay.step(Route(key, b""), now)
    for _ in range(400):
        answers = [
            Received(lazy, Found(effect.message.rid, ()))
            for effect in pending
            if isinstance(effect, Send) and isinstance(effect.message, Find)
        ]
        pending = [effect for answer in answers for effect in overlay.step(answer, now)]
        deadline = overlay.deadline
        assert deadline is not None
        now = max(now, deadline)
        pending += overlay.step(Tick(), now)
    assert overlay.stats()["routes"] == 0
