"""A root that looks for the master of a job that no agent leads, or whose end few have heard of."""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.jobs.manifest import CREATOR
from elfmesh.control.protocol.messages_register import Prepare
from elfmesh.control.protocol.messages_succession import Handover, Inquire
from elfmesh.machine import Message
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent, agent_id

JOB, _ = ids.job_placements("shop/top", CREATOR)


def by_distance(count: int) -> list[int]:
    """Numbers of agents, those closest to the job first."""
    return sorted(range(count), key=lambda number: ids.distance(agent_id(number), JOB))


def test_a_root_that_knows_nothing_asks_the_master_its_neighbours_name() -> None:
    """That agent is there, and leads no more: no other can say so."""
    numbers = by_distance(40)
    world = World()
    for number in numbers[-4:]:
        world.add(number)
    world.run(2.0)
    assert world.apply(world[numbers[-1]], TEXT).status == 200
    old = world.master()

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        return isinstance(message, Handover)

    world.lost = lost
    for number in numbers[:4]:
        world.add(number, streams={"other": None})
    root = world[numbers[0]]
    assert JOB in root.control.context.roots
    assert JOB in old.control.leadership.masters, "no handover has arrived"
    old.control.leadership.admits(JOB, 50, None)
    assert not any(JOB in agent.control.leadership.masters for agent in world.living)
    world.run(90.0)
    assert world.master() is root
    assert world.ask(old, "describe", {"job": "shop/top"}).status == 200


def test_a_job_whose_end_is_known_has_no_leader_though_a_member_still_names_one() -> None:
    """Else who asks for its end is sent to that master for ever, and its members are never told to stop."""
    world = World(3)
    world.apply(world[0])
    master = world.master()
    other = next(agent for agent in world.living if agent is not master)
    leadership, member = other.control.leadership, other.control.member_host.members[JOB]
    assert leadership.leader(JOB) == master.me
    leadership.forget(JOB, "of another incarnation")
    assert leadership.leader(JOB) == master.me
    leadership.forget(JOB, member.manifest.incarnation)
    assert leadership.leader(JOB) is None
    assert leadership.was_deleted(JOB)


def test_a_voter_that_has_lost_the_master_tries_to_lead_without_asking_its_neighbours() -> None:
    world = World(5)
    world.apply(world[0])
    world.run(5.0)
    master = world.master()
    terms = master.control.leadership.masters[JOB].term.terms
    voters = {each.id for each in terms.acceptors}
    inquired: list[tuple[bytes, float]] = []
    elected: list[float] = []

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        if isinstance(message, Inquire) and message.job == JOB:
            inquired.append((source.me.id, source.control.context.now))
        if isinstance(message, Prepare) and message.job == JOB:
            elected.append(source.control.context.now)
        return False

    world.lost = lost
    world.kill(master)
    world.run(20.0)
    successor = world.master()
    assert successor is not master
    assert successor.me.id in voters
    assert not [at for source, at in inquired if source == successor.me.id and at <= elected[0]]
