"""Programs beside agents: what becomes of a message whatever dies."""

from __future__ import annotations

import itertools

from elfmesh import ids
from elfmesh.control.protocol import program_frames
from tests.control.programs.support import ProgramWorld
from tests.control.programs.worlds import KEY, master_of, three


def test_a_question_reaches_the_master_side_of_another_program_and_is_answered() -> None:
    world, programs = three()
    asker = world.attach(1, "shop/sales")
    number = asker.send("route", "shop/top", b"popular?")
    world.run(1.0)
    assert asker.answers[number] == program_frames.Answer(number, "ok", b"re:popular?")
    asked = [program for program in programs if program.bodies("route")]
    assert asked == [program for program in programs if program.is_master]


def test_a_question_without_a_receiver_ends_when_its_time_is_over() -> None:
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


def test_an_error_of_a_handler_is_reported_to_the_sender() -> None:
    world, _ = three()
    master = master_of(world)
    master.deaf = True
    asker = world.attach(1, "shop/sales")
    number = asker.send("route", "shop/top")
    world.run(0.5)
    master.say(program_frames.Handled(asker.process, number, error="KeyError: 'x'"))
    world.run(0.5)
    assert asker.answers[number] == program_frames.Answer(number, "failed", error="KeyError: 'x'")


def test_a_multicast_reaches_all_and_reports_how_many_have_handled_it() -> None:
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


def test_a_process_that_comes_back_gets_the_newest_multicast() -> None:
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
    assert root.answers[number].status == "root", "the root has no parent"


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


def test_a_program_that_is_gone_leaves_no_question_and_gets_no_answer() -> None:
    world, _ = three()
    asker = world.attach(1, "shop/sales")
    asker.send("route", "no/body", timeout_s=30.0)
    world.run(1.0)
    asker.die()
    world.run(40.0)
    assert not world[1].control.programs.describe()
    assert asker.answers == {}
