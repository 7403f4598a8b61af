"""Programs on the harness: who is master side, and what becomes of a message whatever dies."""

from __future__ import annotations

import itertools
import random

import pytest

from elfmesh import ids
from elfmesh.control.jobs.manifest import CREATOR
from elfmesh.control.programs.outbox import OPEN_BYTES_MAX
from elfmesh.control.programs.rendezvous import FORGET_S
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.messages_programs import Appointed, Parcel, Present, Receipt
from elfmesh.machine import Message
from tests.control.member.support import Agent
from tests.control.programs.support import Program, ProgramWorld

KEY = ids.job_id("shop/top", CREATOR)


def three() -> tuple[ProgramWorld, list[Program]]:
    world = ProgramWorld(5)
    programs = [world.attach(number) for number in (0, 2, 4)]
    world.run(1.0)
    return world, programs


def master_of(world: ProgramWorld) -> Program:
    (found,) = world.masters()
    return found


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
    old.say(program_frames.Reached(program_frames.Place(old.role.term, 7, "i:41")))
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
    meeting.control.programs.rendezvous.present(word)
    world.run(5.0)
    role = master_of(world).role
    assert role is not None
    assert role.term > received
    world.run(20.0)
    assert master_of(world).role == role, "it stays"


def test_how_far_it_came_survives_all_agents() -> None:
    world = ProgramWorld(1)
    program = world.attach(0)
    program.say(program_frames.Reached(program_frames.Place(1, 3, "i:9")))
    world.run(0.5)
    world.programs.clear()
    world[0].alive = False
    world.restart(world[0])
    again = world.attach(0)
    assert again.role is not None
    assert again.role.place.text == "i:9"
    assert again.role.term > 1


def test_a_question_reaches_the_master_side_of_another_program_and_is_answered() -> None:
    world, programs = three()
    asker = world.attach(1, "shop/sales")
    number = asker.send("route", "shop/top", b"popular?")
    world.run(1.0)
    assert asker.answers[number] == program_frames.Answer(number, "ok", b"re:popular?")
    asked = [program for program in programs if program.bodies("route")]
    assert asked == [program for program in programs if program.is_master]


def test_a_question_to_nobody_ends_when_its_time_is_over() -> None:
    world = ProgramWorld(3)
    asker = world.attach(0, "shop/sales")
    number = asker.send("route", "shop/top", timeout_s=4.0)
    world.run(3.0)
    assert number not in asker.answers
    world.run(2.0)
    assert asker.answers[number].status == "silent"
    late = asker.send("route", "shop/top", timeout_s=20.0)
    world.attach(2)
    world.run(6.0)
    assert asker.answers[late].status == "ok", "who comes in time is asked"


def test_an_error_of_a_handler_is_told_to_the_sender() -> None:
    world, _ = three()
    master = master_of(world)
    master.deaf = True
    asker = world.attach(1, "shop/sales")
    number = asker.send("route", "shop/top")
    world.run(0.5)
    master.say(program_frames.Handled(asker.process, number, error="KeyError: 'x'"))
    world.run(0.5)
    assert asker.answers[number] == program_frames.Answer(number, "failed", error="KeyError: 'x'")


def test_a_message_that_the_master_side_did_not_handle_goes_to_its_successor() -> None:
    world, _ = three()
    old = master_of(world)
    old.deaf = True
    asker = world.attach(1, "shop/sales")
    number = asker.send("route", "shop/top", b"q", timeout_s=60.0)
    world.run(0.5)
    assert old.bodies("route") == [b"q"]
    old.die()
    world.run(10.0)
    assert asker.answers[number].status == "ok"


def test_messages_and_receipts_may_be_lost_and_doubled() -> None:
    """Each is handled, under its one name; a program that knows names handles it once."""
    world, programs = three()
    asker = world.attach(1, "shop/sales")
    dice = random.Random(5)

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        return isinstance(message, Parcel | Receipt | Appointed | Present) and dice.random() < 0.6

    world.lost = lost
    numbers = [asker.send("route", "shop/top", b"%d" % each, timeout_s=120.0) for each in range(12)]
    world.run(60.0)
    assert [asker.answers[number].body for number in numbers] == [b"re:%d" % each for each in range(12)]
    names = {name for program in programs for name in program.handled}
    assert names == {(asker.process, number) for number in numbers}


def test_a_multicast_reaches_all_and_says_who_has_handled_it() -> None:
    world, programs = three()
    master = master_of(world)
    number = master.send("multicast", "", b"coupon")
    world.run(1.0)
    assert [program.bodies("multicast") for program in programs] == [[b"coupon"]] * 3
    assert (master.answers[number].acknowledged, master.answers[number].expected) == (3, 3)
    deaf = next(program for program in programs if program is not master)
    deaf.deaf = True
    number = master.send("multicast", "", b"again")
    world.run(10.0)
    assert (master.answers[number].acknowledged, master.answers[number].expected) == (2, 3)


def test_only_the_master_side_multicasts() -> None:
    world, programs = three()
    other = next(program for program in programs if not program.is_master)
    number = other.send("multicast", "", b"coup")
    world.run(2.0)
    assert other.answers[number].status == "fenced"
    assert not any(program.bodies("multicast") for program in programs)


def test_a_process_that_comes_back_is_told_the_newest_multicast() -> None:
    world, programs = three()
    master = master_of(world)
    for body in (b"old", b"new"):
        master.send("multicast", "", body)
        world.run(1.0)
    gone = next(program for program in programs if program is not master)
    gone.die()
    world.run(0.5)
    again = world.attach(gone.agent.number)
    assert again.bodies("multicast") == [b"new"]


def test_of_two_processes_at_one_agent_the_newer_stays() -> None:
    world = ProgramWorld(2)
    old = world.attach(0)
    new = world.attach(0)
    assert old.got[-1] == program_frames.Replaced()
    number = new.send("route", "shop/top", b"me")
    world.run(2.0)
    assert new.answers[number].status == "ok"
    assert new.is_master


def chain(world: ProgramWorld, numbers: list[int], group: str) -> bytes:
    """Make agents a chain in the tree of a group, and say which is the tree."""
    tree = ids.program_tree(KEY, group)
    order = sorted(numbers, key=lambda number: ids.distance(world[number].me.id, tree), reverse=True)
    for child, parent in itertools.pairwise(order):
        world.parents[tree, world[child].me.id] = world[parent].me.id
    return tree


def test_pairs_go_up_a_groups_tree_from_vertex_to_vertex() -> None:
    world = ProgramWorld(3)
    tree = chain(world, [0, 1, 2], "edges")
    programs = {world[n].me.id: world.attach(n, groups=("edges",)) for n in (0, 1, 2)}
    world.run(1.0)
    root = programs[world.roots[tree]]
    bottom = next(p for p in programs.values() if world[p.agent.number].me.id not in world.parents.values())
    middle = next(p for p in programs.values() if p not in (root, bottom))
    number = bottom.send("send_to", "edges", b"pairs")
    world.run(1.0)
    assert bottom.answers[number].status == "ok"
    assert (middle.bodies("send_to"), root.bodies("send_to")) == ([b"pairs"], [])
    number = root.send("send_to", "edges", b"more")
    world.run(1.0)
    assert root.answers[number].status == "root", "there is nobody above"


def test_agents_without_a_program_pass_pairs_on_and_the_master_side_stands_in_for_a_root() -> None:
    world = ProgramWorld(4)
    group = next(
        name for name in map(str, range(50)) if world.closest(ids.program_tree(KEY, name))[0].number == 3
    )
    programs = [world.attach(number, groups=(group,)) for number in (0, 1, 2)]
    world.run(1.0)
    master = master_of(world)
    sender = next(program for program in programs if program is not master)
    number = sender.send("send_to", group, b"pairs")
    world.run(2.0)
    assert sender.answers[number].status == "ok"
    assert master.bodies("send_to") == [b"pairs"]
    number = master.send("send_to", group, b"mine")
    world.run(2.0)
    assert master.answers[number].status == "root"


def test_what_is_too_much_is_refused_or_left_to_be_sent_again() -> None:
    world, _ = three()
    master = master_of(world)
    master.deaf = True
    asker = world.attach(1, "shop/sales")
    numbers = [asker.send("route", "shop/top", timeout_s=9.0) for _ in range(600)]
    world.run(1.0)
    busy = [number for number in numbers if number in asker.answers]
    assert {asker.answers[number].status for number in busy} == {"busy"}
    assert len(busy) == 600 - 512
    world.run(20.0)
    assert len(asker.answers) == 600


def test_what_a_program_has_under_way_is_bounded_in_bytes() -> None:
    world = ProgramWorld(1)
    asker = world.attach(0, "shop/sales")
    numbers = [asker.send("route", "no/body", bytes(program_frames.MESSAGE_BYTES_MAX)) for _ in range(70)]
    world.run(1.0)
    assert {answer.status for answer in asker.answers.values()} == {"busy"}
    assert len(numbers) - len(asker.answers) == OPEN_BYTES_MAX // program_frames.MESSAGE_BYTES_MAX


def test_a_program_that_is_gone_owes_and_is_owed_nothing() -> None:
    world, _ = three()
    asker = world.attach(1, "shop/sales")
    asker.send("route", "no/body", timeout_s=30.0)
    world.run(1.0)
    asker.die()
    world.run(40.0)
    assert not world[1].control.programs.describe()
    assert asker.answers == {}
