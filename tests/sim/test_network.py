from __future__ import annotations

import random

from elfmesh.machine import Contact, Effect, Event, Message, Received, Send, Tick
from tests.sim.world.network import Faults, LinkModel, Network

A, B = Contact(b"a" * 20, "a", 1), Contact(b"b" * 20, "b", 2)


class Note(Message, frozen=True, tag="test.note"):
    number: int


class Scribe:
    """Sends numbered notes to `to` every second and writes down what it gets."""

    def __init__(self, to: Contact | None) -> None:
        self.to, self.number, self.read = to, 0, list[tuple[float, int]]()
        self.deadline: float | None = 0.0 if to else None

    def step(self, event: Event, now: float) -> list[Effect]:
        match event:
            case Received(_, Note(number)):
                self.read.append((now, number))
            case Tick() if self.to:
                self.number += 1
                self.deadline = now + 1
                return [Send(self.to, Note(self.number))]
        return []


def talk(seconds: float, link: LinkModel | None = None, seed: int = 1) -> tuple[Network, Scribe]:
    network, reader = Network(seed, link=link, trace=True), Scribe(None)
    network.add(B, reader)
    network.add(A, Scribe(B))
    network.give(A.id, Tick())
    network.run_for(seconds)
    return network, reader


def test_ticks_come_at_the_deadline_and_frames_after_the_delay() -> None:
    _, reader = talk(5.5)
    assert [number for _, number in reader.read] == [1, 2, 3, 4, 5, 6]
    assert all(0 < at - (number - 1) < 0.001 for at, number in reader.read)


def test_frames_without_reordering_keep_their_order_and_with_it_some_are_overtaken() -> None:
    def arrivals(faults: Faults) -> list[float]:
        link, rng = LinkModel(faults), random.Random(1)
        return [n * 1e-5 + d for n in range(500) for d in link.deliveries(A.id, B.id, n * 1e-5, rng)]

    calm = arrivals(Faults())
    assert calm == sorted(calm)
    wild = arrivals(Faults(reorder=0.2))
    assert wild != sorted(wild)


def test_loss_and_doubles_have_the_asked_for_rates() -> None:
    link, rng = LinkModel(Faults(loss=0.2, duplicate=0.3)), random.Random(1)
    copies = [len(link.deliveries(A.id, B.id, 0.0, rng)) for _ in range(5000)]
    assert 0.17 < copies.count(0) / 5000 < 0.23
    assert 0.21 < copies.count(2) / 5000 < 0.27


def test_a_partition_cuts_both_ways_until_it_heals() -> None:
    link, rng = LinkModel(), random.Random(1)
    link.partition([A.id], [B.id])
    assert link.deliveries(A.id, B.id, 0.0, rng) == link.deliveries(B.id, A.id, 0.0, rng) == []
    assert not link.connected(A.id, B.id)
    assert link.deliveries(A.id, A.id, 0.0, rng)
    link.heal()
    assert link.deliveries(A.id, B.id, 0.0, rng)


def test_a_crashed_host_is_silent_and_deaf_and_a_new_boot_gets_nothing_meant_for_the_old() -> None:
    network, reader = talk(2.5)
    network.crash(B.id)
    network.run_for(2)
    assert len(reader.read) == 3
    fresh = Scribe(None)
    network.at(network.now + 0.5 - 1e-5, lambda: None)
    network.run_for(0.5)  # a note is in flight now
    contact = network.restart(B.id, lambda contact: fresh)
    assert contact.incarnation == B.incarnation + 1
    network.run_for(0.4)
    assert fresh.read == []
    network.run_for(1)
    assert len(fresh.read) == 1


def test_a_frame_without_an_id_goes_by_its_address_and_is_lost_if_no_host_is_there() -> None:
    network, reader = Network(1), Scribe(None)
    network.add(B, reader)
    network.add(A, Scribe(Contact(b"", "b", 2)))
    network.give(A.id, Tick())
    network.run_for(0.5)
    assert len(reader.read) == 1
    network.add(A, Scribe(Contact(b"", "nowhere", 2)))
    network.give(A.id, Tick())
    assert network.lost == 1


def test_swarms_differ_by_seed_and_equal_seeds_give_equal_traces() -> None:
    swarms = [Faults.swarm(random.Random(seed)) for seed in range(20)]
    assert len({repr(faults) for faults in swarms}) == 20
    assert any(f.loss == 0 for f in swarms)
    assert any(f.loss > 0 for f in swarms)
    runs = [talk(20, LinkModel(swarms[3]), seed)[0].trace for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
