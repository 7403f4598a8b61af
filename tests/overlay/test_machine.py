from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh.machine import Contact, Event, Received, Send, Tick
from elfmesh.overlay import (
    ConnectionLost,
    Leave,
    Lookup,
    LookupDone,
    Overlay,
    Probe,
    ProbeDone,
    Route,
    Start,
    Unwatch,
    Watch,
)
from elfmesh.overlay.messages import Ping, Pong
from tests.overlay.crowd import Crowd

ME = Contact(b"\x10" * 20, "me", 1)

SWARM = """
import random, sys
sys.path.insert(0, {root!r})
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Faults
crowd = Crowd(25, seed={seed}, faults=Faults.swarm(random.Random({seed})), trace=True)
for victim in crowd.kill(4):
    pass
for n in range(20):
    crowd.look_up(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20))
    crowd.route(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20))
crowd.link.partition(crowd.alive[:10], crowd.alive[10:])
crowd.network.run_for(15)
crowd.link.heal()
crowd.network.run_for(15)
print(crowd.network.trace, crowd.network.sent)
"""


def trace(seed: int, hash_seed: str) -> str:
    script = SWARM.format(root=str(Path(__file__).parents[2]), seed=seed)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_same_seed_same_trace_under_two_hash_seeds_and_another_seed_another_trace() -> None:
    assert trace(7, "1") == trace(7, "2")
    assert trace(7, "1") != trace(8, "1")


def test_an_event_of_another_room_is_our_own_fault_and_raises() -> None:
    class Foreign(Event):
        pass

    with pytest.raises(TypeError, match="Foreign is not an event of the overlay"):
        Overlay(ME, rng=random.Random(1)).step(Foreign(), 0.0)


@pytest.mark.parametrize("event", [Lookup(b"short", 1), Route(b"short", b""), Watch(Contact(b"", "h", 1))])
def test_a_key_of_our_own_making_that_is_none_raises(event: Event) -> None:
    with pytest.raises(ValueError, match="an id is 20 bytes"):
        Overlay(ME, rng=random.Random(1)).step(event, 0.0)


def test_events_before_start_are_harmless() -> None:
    overlay = Overlay(ME, rng=random.Random(1))
    assert overlay.deadline is None
    assert overlay.step(Tick(), 0.0) == []
    assert overlay.step(Unwatch(b"x" * 20), 0.0) == []
    assert overlay.step(ConnectionLost(b"x" * 20), 0.0) == []
    assert overlay.step(Lookup(ME.id, 5), 0.0) == [LookupDone(5, ME.id, (ME,))]
    assert overlay.next_hop(b"k" * 20) is None
    assert overlay.siblings() == []


def test_an_agent_is_alive_to_itself() -> None:
    """A master probes whom an interval lacks, be it itself: it must not close it as one of the dead."""
    overlay = Overlay(ME, rng=random.Random(1))
    overlay.step(Start(()), 0.0)
    renamed = Contact(ME.id, "another-name", 2)
    for contact in (ME, renamed):
        assert overlay.step(Probe(contact, 3), 1.0) == [ProbeDone(3, ME, alive=True)]


def test_a_machine_that_left_is_inert() -> None:
    overlay = Overlay(ME, rng=random.Random(1))
    overlay.step(Start(), 0.0)
    overlay.step(Leave(), 1.0)
    assert overlay.step(Received(Contact(b"\x20" * 20, "p", 2), Ping(1)), 2.0) == []
    assert overlay.step(Start(), 2.0) == []
    assert overlay.deadline is None
    assert overlay.stats()["stage"] == "left"


def test_queries_change_nothing() -> None:
    overlay = Overlay(ME, rng=random.Random(1))
    overlay.step(Start(), 0.0)
    overlay.step(Received(Contact(b"\x20" * 20, "p", 2), Ping(1)), 0.5)
    before = (overlay.deadline, overlay.stats())
    overlay.next_hop(b"\x20" * 20)
    overlay.closest(b"\x20" * 20, 5)
    overlay.contact(b"\x20" * 20)
    overlay.siblings()
    overlay.round_trips()
    overlay.is_quarantined(b"\x20" * 20)
    overlay.closest_since(b"\x20" * 20, 0.5, 5.0)
    assert (overlay.deadline, overlay.stats()) == before


def test_one_look_up_of_a_small_overlay_proves_for_each_key_whether_an_agent_is_the_closest() -> None:
    crowd = Crowd(5, seed=3)
    crowd.network.run_for(10)
    me, keys = crowd.alive[0], [crowd.rng.randbytes(20) for _ in range(20)]
    overlay, now = crowd.agents[me], crowd.network.now
    crowd.look_up(me, keys[0])
    crowd.network.run_for(1)
    found = {key: overlay.closest_since(key, crowd.network.now, 5.0) for key in keys}
    closest = {key for key in keys if crowd.closest(key) == me}
    assert {key for key, at in found.items() if at is not None} == closest
    assert closest
    assert all(at is None or now <= at <= now + 1 for at in found.values())
    later = crowd.network.now + 5.0
    assert not any(overlay.closest_since(key, later, 5.0) for key in keys), "an agent may have come"


def test_round_trips_are_those_of_contacts_that_have_answered() -> None:
    overlay, peer = Overlay(ME, rng=random.Random(1)), Contact(b"\x20" * 20, "p", 2)
    overlay.step(Start(((peer.host, peer.port),)), 0.0)
    overlay.step(Received(peer, Ping(1)), 0.5)
    assert overlay.round_trips() == {}, "it has answered no request"
    now = 1.0
    while peer.id not in overlay.round_trips():
        now = overlay.deadline or now
        assert now < 100
        for effect in overlay.step(Tick(), now):
            if isinstance(effect, Send) and isinstance(effect.message, Ping) and effect.to.id == peer.id:
                overlay.step(Received(peer, Pong(effect.message.rid)), now + 0.03)
    assert overlay.round_trips() == {peer.id: pytest.approx(0.03)}


def test_an_agent_of_a_small_overlay_costs_little_memory_and_few_ticks() -> None:
    overlay = Overlay(ME, rng=random.Random(1))
    overlay.step(Start(), 0.0)
    now, ticks = 0.0, 0
    while now < 100:
        now = overlay.deadline or now
        overlay.step(Tick(), now)
        ticks += 1
    assert ticks < 130, "an idle agent alone wakes up once a second"
