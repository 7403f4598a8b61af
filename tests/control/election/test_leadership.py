from __future__ import annotations

import random

import pytest

from elfmesh import ids
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol.messages_parts import Part, PartAck
from elfmesh.machine import Contact, Received
from elfmesh.overlay.events import RouteDelivered
from elfmesh.srt.events import Delivered
from elfmesh.srt.messages import Segment
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

JOB = ids.job_id("shop/top", "local")


def test_a_successor_goes_on_with_the_log_and_loses_no_interval() -> None:
    world = World(6)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    dead = world.master()
    world.kill(dead)
    world.run(3.0)
    heir = world.master()
    assert heir is not dead
    fill(world, intervals=2, first=1003, seed=3)
    world.seal_all(BASE + 5 * SLIDE)
    world.run(4.0)
    found = world.results(world.living[0])
    assert [record.index for record, _ in found] == list(range(1000, 1005))
    assert [record.epoch for record, _ in found] == [1, 1, 1, 2, 2]
    expected = world.expected(SLIDE)
    for record, rows in found[:3]:
        assert rows == expected[record.index]
    for record, _ in found[3:]:
        assert record.missing == [f"agent-{dead.number}"]


@pytest.mark.parametrize("seed", range(5))
def test_intervals_that_were_open_at_the_death_are_collected_again(seed: int) -> None:
    rng = random.Random(seed)
    world = World(5)
    fill(world, intervals=4, seed=seed)
    world.apply(world[rng.randrange(5)])
    dead = world.master()
    world.seal_all(BASE + 2 * SLIDE)
    world.run(rng.choice([0.0, 0.002, 0.005, 0.3]))
    world.kill(dead)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(10.0)
    found = world.results(world.living[0])
    indices = [record.index for record, _ in found]
    assert indices == list(range(1000, 1004)), "consecutive, each once"
    expected = world.expected(SLIDE)
    for record, rows in found:
        if record.state == "FINAL":
            assert rows == expected[record.index]
        else:
            assert record.missing == [f"agent-{dead.number}"]


def test_an_old_master_that_comes_back_leads_again_in_a_new_epoch() -> None:
    world = World(5)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    old = world.master()
    world.kill(old)
    world.run(3.0)
    between = world.master()
    world.restart(old)
    world.run(12.0)
    assert world.master() is old
    assert old is not between
    fill(world, intervals=2, first=1002, seed=4)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    exact(world, world.living[0])
    epochs = [record.epoch for record, _ in world.results(world.living[0])]
    assert epochs == sorted(epochs)
    assert epochs[-1] >= 3


def test_a_job_begins_again_at_an_agent_that_missed_its_end_when_the_master_that_ended_it_is_gone() -> None:
    """Who is closest to it holds it for a master that never answers; no tree has a root that would look."""
    world = World(5)
    world.apply(world[0])
    world.run(1.0)
    master, heir = world.closest(JOB)[:2]
    assert world.master() is master
    world.kill(heir)
    world.run(1.0)
    world.lost = lambda sender, target, message: target is heir and isinstance(message, ctl.Withdraw)
    assert world.ask(world.living[-1], "delete", {"job": "shop/top"}).status == 200
    world.restart(heir)
    world.run(10.0)
    assert JOB in heir.control.leadership.replicas
    assert JOB not in heir.control.context.roots
    world.kill(master)
    world.run(2.0)
    assert world.closest(JOB)[0] is heir
    applied = world.apply(world.living[-1])
    assert (applied.status, applied.body["state"]) == (200, "new")


def test_all_agents_restarted_at_once_go_on() -> None:
    world = World(4)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    agents = list(world.living)
    for agent in agents:
        world.kill(agent)
    world.run(1.0)
    for agent in agents:
        world.restart(agent)
    world.run(10.0)
    fill(world, intervals=2, first=1003, seed=6)
    world.seal_all(BASE + 5 * SLIDE)
    world.run(3.0)
    exact(world, world.living[2])


def test_one_agent_alone_goes_on_after_a_restart() -> None:
    world = World(1)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    world.kill(world[0])
    world.run(1.0)
    world.restart(world[0])
    world.run(3.0)
    fill(world, intervals=1, first=1002, seed=2)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    exact(world, world[0])


def test_what_comes_from_a_lower_epoch_is_refused_and_counted() -> None:
    world = World(4)
    world.apply(world[0])
    master = world.master()
    member = next(agent for agent in world.living if agent is not master)
    terms = master.control.leadership.masters[JOB].term.terms
    other = next(agent for agent in world.living if agent not in (master, member)).me
    for epoch, refused in ((7, 0), (3, 1)):
        impostor = Terms(
            manifest=terms.manifest,
            master=other,
            epoch=epoch,
            version=99,
            closed=FIRST,
            members=terms.members,
        )
        member.control.step(Received(other, ctl.Roster(impostor)), world.now)
        assert member.control.stats().get("control.fenced", 0) == refused
    job = member.control.member_host.members[JOB]
    assert (job.epoch, job.master) == (7, other)
    stop = ctl.Stop(JOB, terms.manifest.incarnation, 3)
    member.control.step(Received(other, stop), world.now)
    assert JOB in member.control.member_host.members


def test_a_master_of_a_lower_epoch_steps_down_when_it_learns_of_a_higher_one() -> None:
    world = World(3)
    world.apply(world[0])
    master = world.master()
    master.control.step(Received(world[0].me, ctl.Fenced(JOB, 9)), world.now)
    assert master.masters == []
    assert master.control.stats()["control.stepped_down"] == 1


def test_lost_messages_delay_and_change_nothing() -> None:
    rng = random.Random(11)
    world = World(5)
    fill(world, intervals=4)
    world.lost = lambda source, target, message: rng.random() < 0.2
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", "PARTITIONS 3"))
    world.seal_all(BASE + 4 * SLIDE)
    world.run(20.0)
    world.lost = lambda source, target, message: False
    exact(world, world[1])


def test_a_partition_root_that_dies_costs_no_interval() -> None:
    world = World(6)
    fill(world, intervals=4)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", "PARTITIONS 4"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    master = world.master()
    roots = [world.agents[world.roots[ids.partition_tree(JOB, p)]] for p in range(1, 4)]
    victim = next(agent for agent in roots if agent is not master)
    world.kill(victim)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(15.0)
    found = world.results(master)
    assert [record.index for record, _ in found] == list(range(1000, 1004))
    for record, rows in found[2:]:
        assert record.missing == [f"agent-{victim.number}"]
        assert sum(row["hits"] for row in rows) == record.counts["contributed"]


def test_malformed_bodies_change_nothing_and_are_counted() -> None:
    world = World(2)
    world.apply(world[0])
    target: Agent = world[0]
    stranger = Contact(b"\x01" * 20, "sim", 9)
    before = target.masters
    for body in (b"", b"\xff" * 40, b"\x81\xa1t\xa8ctl.nope", ctl.pack(PartAck(JOB, 99, 5))):
        target.control.step(RouteDelivered(JOB, body, b"", stranger), world.now)
        target.control.step(Delivered(JOB, 1, body), world.now)
    part = Part(JOB, 3, 1, Segment(1, 0, 0, 1, b""))
    target.control.step(Received(stranger, part, b"xx"), world.now)
    assert target.control.stats()["control.malformed"] == 6
    assert target.masters == before


def test_nothing_is_published_twice_for_one_interval_in_any_log() -> None:
    world = World(5)
    fill(world, intervals=6)
    world.apply(world[0])
    for step in range(1, 7):
        world.seal_all(BASE + step * SLIDE)
        world.run(0.4)
        if step == 3:
            world.kill(world.master())
    world.run(10.0)
    for agent in world.living:
        for _, records in agent.results.values():
            indices = [record.index for record, _ in records]
            assert indices == sorted(set(indices))


def test_a_member_that_outlived_the_founding_of_its_job_does_not_keep_the_name() -> None:
    """Its agent led the job and died before the register had a value, so that no agent leads it."""
    world = World(3)
    fill(world, intervals=3)
    world.apply(world[0])
    agent = world.master()
    terms, _ = agent.control.leadership.known(JOB)
    assert terms is not None
    alone = World(1)
    fill(alone, intervals=3)
    (only,) = alone.living
    announce = ctl.Announce(terms.manifest, only.me, 1, 0, FIRST, True, "clicks")
    only.control.member_host.on_announce(announce)
    alone.run(1.0)
    assert JOB in only.control.member_host.members
    assert only.control.leadership.leader(JOB) is None
    assert alone.ask(only, "delete", {"job": "shop/top"}).status == 404
    assert alone.apply(only).status == 200
