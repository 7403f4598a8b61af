from __future__ import annotations

import random

import pytest

from elfmesh.machine import Contact, Effect, Received, Send, Tick
from elfmesh.overlay import Joined, JoinFailed, Overlay, Start
from elfmesh.overlay.events import Remember
from elfmesh.overlay.messages import Ping, Pong
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Network


def contact(number: int) -> Contact:
    return Contact(bytes([number]) * 20, f"h{number}", 7000)


class Small:
    """A few agents with hand-made ids, started one by one."""

    def __init__(self) -> None:
        self.effects: list[tuple[bytes, float, Effect]] = []
        self.network = Network(1, on_effect=lambda c, e, now: self.effects.append((c.id, now, e)))

    def add(self, me: Contact) -> Overlay:
        overlay = Overlay(me, rng=random.Random(me.port))
        self.network.add(me, overlay)
        return overlay

    def start(self, me: Contact, *seeds: Contact) -> None:
        self.network.give(me.id, Start(tuple((seed.host, seed.port) for seed in seeds)))

    def events(self, kind: type[Effect]) -> list[bytes]:
        return [id for id, _, effect in self.effects if isinstance(effect, kind)]


def test_an_agent_without_seeds_or_with_only_its_own_address_is_joined_at_once() -> None:
    for seeds in ((), ((contact(1).host, 7000),)):
        overlay = Overlay(contact(1), rng=random.Random(1))
        assert overlay.step(Start(seeds), 0.0) == [Joined()]
        assert overlay.joined


def test_an_agent_whose_only_seed_turns_out_to_be_itself_is_the_first() -> None:
    overlay = Overlay(contact(1), rng=random.Random(1))
    (ping,) = overlay.step(Start((("a-name-of-mine", 7000),)), 0.0)
    assert isinstance(ping, Send)
    assert ping.to == Contact(b"", "a-name-of-mine", 7000)
    assert isinstance(ping.message, Ping)
    (pong,) = overlay.step(Received(overlay.me, ping.message), 0.1)
    assert pong == Send(overlay.me, Pong(ping.message.rid))
    assert Joined() in overlay.step(Received(overlay.me, Pong(ping.message.rid)), 0.2)


def test_a_restarted_agent_joins_through_known_peers_when_its_seed_is_gone() -> None:
    small = Small()
    gone, back, other = contact(1), contact(2), contact(3)
    for me in (back, other):
        small.add(me)
    small.start(other)
    small.network.run_for(1.0)
    small.network.give(back.id, Remember((contact(4), other)))
    small.start(back, gone)
    small.network.run_for(10.0)
    assert small.events(Joined) == [other.id, back.id]


def test_another_agent_at_the_address_of_one_that_was_met_is_no_way_in() -> None:
    overlay = Overlay(contact(1), rng=random.Random(1))
    assert overlay.step(Remember((Contact(contact(2).id, "h3", 7000), overlay.me)), 0.0) == []
    seed, met = [effect for effect in overlay.step(Start((("other", 9),)), 0.0) if isinstance(effect, Send)]
    assert (seed.to.id, met.to.id) == (b"", contact(2).id)
    assert isinstance(met.message, Ping)
    overlay.step(Received(contact(3), Pong(met.message.rid)), 0.1)
    for _ in range(20):
        overlay.step(Tick(), overlay.deadline or 0.0)
    assert not overlay.joined


def test_an_agent_without_a_seed_is_joined_at_once_and_meets_its_known_peers() -> None:
    overlay = Overlay(contact(1), rng=random.Random(1))
    overlay.step(Remember((contact(2),)), 0.0)
    joined, ping = overlay.step(Start(()), 0.0)
    assert joined == Joined()
    assert isinstance(ping, Send)
    assert ping.to == contact(2)


def test_a_clone_with_the_same_id_is_named_as_the_reason() -> None:
    overlay = Overlay(contact(1), rng=random.Random(1))
    (ping,) = overlay.step(Start((("other", 9),)), 0.0)
    assert isinstance(ping, Send)
    assert isinstance(ping.message, Ping)
    clone = Contact(contact(1).id, "other", 9)
    effects = overlay.step(Received(clone, Pong(ping.message.rid)), 0.1)
    now = 0.1
    while not (failed := [e for e in effects if isinstance(e, JoinFailed)]):
        now = overlay.deadline or now
        effects = overlay.step(Tick(), now)
    assert "has this agent's id" in failed[0].reason
    assert not overlay.joined


def test_a_join_without_an_answer_fails_after_ten_seconds_and_succeeds_when_a_seed_comes_up() -> None:
    small, a, b = Small(), contact(1), contact(2)
    small.add(b)
    small.start(b, a)
    small.network.run_for(9.9)
    assert small.events(JoinFailed) == []
    small.network.run_for(0.2)
    assert small.events(JoinFailed) == [b.id]
    reason = next(e.reason for _, _, e in small.effects if isinstance(e, JoinFailed))
    assert "h1:7000" in reason
    small.add(a)
    small.start(a)
    small.network.run_for(12)
    assert small.events(Joined) == [a.id, b.id]
    assert small.events(JoinFailed) == [b.id]


def test_seeds_given_later_are_tried_at_once() -> None:
    small, a, b = Small(), contact(1), contact(2)
    for me in (a, b):
        small.add(me)
    small.start(a)
    small.start(b, contact(9))
    small.network.run_for(11)
    assert small.events(Joined) == [a.id]
    small.start(b, a)
    small.network.run_for(0.7)
    assert small.events(Joined) == [a.id, b.id]


def test_one_dead_seed_among_the_living_does_not_hold_a_join_up() -> None:
    small, a, b = Small(), contact(1), contact(2)
    for me in (a, b):
        small.add(me)
    small.start(a)
    small.start(b, contact(9), a)
    small.network.run_for(0.15)
    assert small.events(Joined) == [a.id, b.id]


def test_seeds_of_two_islands_make_them_one() -> None:
    small = Small()
    islands = [[contact(n) for n in range(base, base + 5)] for base in (1, 101)]
    for island in islands:
        for me in island:
            small.add(me)
            small.start(me, *([island[0]] if me is not island[0] else []))
            small.network.run_for(0.1)
    bridge = contact(50)
    overlay = small.add(bridge)
    small.start(bridge, islands[0][0], islands[1][0])
    small.network.run_for(30)
    all_agents = {me.id for island in islands for me in island} | {bridge.id}
    assert {c.id for c in overlay.closest(bridge.id, 99)} == all_agents - {bridge.id}
    for host in small.network.hosts.values():
        assert isinstance(host.machine, Overlay)
        assert {c.id for c in host.machine.closest(bridge.id, 99)} == all_agents - {host.contact.id}


def test_a_seed_that_was_down_during_the_join_is_met_later() -> None:
    small, a, b, late = Small(), contact(1), contact(2), contact(3)
    for me in (a, b):
        small.add(me)
    small.start(a)
    small.start(b, a, late)
    small.network.run_for(5)
    small.add(late)
    small.start(late)
    small.network.run_for(30)
    overlay = small.network.hosts[late.id].machine
    assert isinstance(overlay, Overlay)
    assert {c.id for c in overlay.closest(late.id, 9)} == {a.id, b.id}


@pytest.mark.parametrize("every_s", [0.0, 0.001, 0.1])
def test_all_know_their_true_neighbours_however_fast_they_join(every_s: float) -> None:
    crowd = Crowd(60, every_s=every_s)
    crowd.network.run_for(25)
    assert len(crowd.joined) == 60
    for id, agent in crowd.agents.items():
        truth = sorted(crowd.alive, key=lambda other: int.from_bytes(other) ^ int.from_bytes(id))
        assert [c.id for c in agent.siblings()][:8] == truth[1:9]


def test_a_join_costs_a_bounded_number_of_requests() -> None:
    crowd = Crowd(100)
    assert len(crowd.joined) >= 99
    assert crowd.network.sent / 2 / 100 < 80
