"""Which process of a program is its master side."""

from __future__ import annotations

import pytest

from elfmesh import ids
from elfmesh.control.programs.rendezvous import FORGET_S
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.messages_programs import Present
from tests.control.programs.support import ProgramWorld
from tests.control.programs.worlds import KEY, master_of, three


def test_one_process_is_the_master_side_and_all_know_it() -> None:
    world, programs = three()
    master = master_of(world)
    assert {program.role.agent for program in programs if program.role} == {f"agent-{master.agent.number}"}
    assert len({program.role.term for program in programs if program.role}) == 1


def test_the_master_side_follows_the_jobs_master() -> None:
    world, _ = three()
    world.apply(world[1])
    leader = world.master()
    if leader.number not in (0, 2, 4):
        world.attach(leader.number)
    world.run(6.0)
    assert master_of(world).agent is leader
    before = master_of(world).role
    world.run(30.0)
    assert master_of(world).role == before, "it stays where it is"


@pytest.mark.parametrize("whole_agent", [False, True], ids=["its process", "its agent"])
def test_when_the_master_side_dies_another_takes_over_with_a_higher_term(whole_agent: bool) -> None:
    world, programs = three()
    old = master_of(world)
    assert old.role is not None
    old.say(program_frames.Reached(program_frames.ResultPosition(old.role.term, 7, "i:41")))
    world.run(0.5)
    if whole_agent:
        world.programs.pop(old.session)
        world.kill(old.agent)
    else:
        old.die()
    world.run(FORGET_S + 5)
    new = master_of(world)
    assert new in programs
    assert new is not old
    assert new.role is not None
    assert new.role.term > old.role.term
    assert new.role.place.text == "i:41", "it goes on where the old one was"


@pytest.mark.parametrize("ahead", [0, 3], ids=["as high a term", "a higher term"])
def test_no_two_master_sides_have_one_term(ahead: int) -> None:
    """A rendezvous hears of what another one has appointed, as after the overlay was parted."""
    world, _ = three()
    master = master_of(world)
    assert master.role is not None
    received = master.role.term + ahead
    stranger = world[1].me
    word = Present(KEY, stranger, "agent-1", True, False, stranger, received, program_frames.NOWHERE)
    meeting = world.closest(ids.program_tree(KEY))[0]
    meeting.control.programs.rendezvous.on_present(word)
    world.run(5.0)
    role = master_of(world).role
    assert role is not None
    assert role.term > received
    world.run(20.0)
    assert master_of(world).role == role, "it stays"


def test_how_far_it_came_survives_all_agents() -> None:
    world = ProgramWorld(1)
    program = world.attach(0)
    program.say(program_frames.Reached(program_frames.ResultPosition(1, 3, "i:9")))
    world.run(0.5)
    world.programs.clear()
    world[0].alive = False
    world.restart(world[0])
    again = world.attach(0)
    assert again.role is not None
    assert again.role.place.text == "i:9"
    assert again.role.term > 1


def test_only_the_master_side_multicasts() -> None:
    world, programs = three()
    other = next(program for program in programs if not program.is_master)
    number = other.send("multicast", "", b"coup")
    world.run(2.0)
    assert other.answers[number].status == "fenced"
    assert not any(program.bodies("multicast") for program in programs)
