"""ELF (USENIX ATC 2014), section 2.4, Tables 1 and 2: the verbs of programs."""

from __future__ import annotations

from elfmesh.control.protocol import program_frames
from tests.control.programs.support import Program, ProgramWorld


def programs(*, groups: tuple[str, ...] = ()) -> tuple[ProgramWorld, list[Program], Program]:
    """Three processes of one program beside five agents, and which is the master side."""
    world = ProgramWorld(5)
    vertices = [world.attach(number, groups=groups) for number in (0, 2, 4)]
    world.run(1.0)
    (master,) = world.masters()
    return world, vertices, master


def test_multicast_invokes_on_multicast_at_every_vertex() -> None:
    """Table 1: "Application's master publishes control messages to vertices", and OnMulticast is "Invoked
    when vertex receives the multicast message from application's master".
    """
    world, vertices, master = programs()
    number = master.send("multicast", "", b"empty")
    world.run(1.0)
    assert [vertex.bodies("multicast") for vertex in vertices] == [[b"empty"]] * 3
    assert master.answers[number].acknowledged == 3


def test_only_the_applications_master_publishes() -> None:
    """Table 1: "Application's master publishes", not a vertex."""
    world, vertices, master = programs()
    vertex = next(each for each in vertices if each is not master)
    number = vertex.send("multicast", "", b"empty")
    world.run(1.0)
    assert vertex.answers[number].status != "ok"
    assert [each.bodies("multicast") for each in vertices] == [[]] * 3


def test_send_to_invokes_on_recv_once_at_the_parent_vertex() -> None:
    """Table 1: "Vertex sends the key-value pairs to the parent vertex with nodeid, resulting in a
    corresponding invocation of OnRecv".
    """
    world, vertices, _ = programs(groups=("edges",))
    sender = next(each for each in vertices if each.agent.me.id not in world.roots.values())
    number = sender.send("send_to", "edges", b"(a,b)")
    world.run(2.0)
    assert sender.answers[number].status == "ok"
    got = [body for each in vertices for body in each.bodies("send_to")]
    assert got == [b"(a,b)"]
    assert sender.bodies("send_to") == []


def test_route_finds_the_master_of_a_named_application_and_brings_its_answer() -> None:
    """2.1, Table 2: "given any application's name as a key, queries or results can be efficiently routed to
    that application's master [...] without the need for coordination via some global entity".
    """
    world, _, master = programs()
    asker = world.attach(1, name="shop/other")
    number = asker.send("route", "shop/top", b"how many?")
    world.run(2.0)
    assert master.bodies("route") == [b"how many?"]
    answer = asker.answers[number]
    assert isinstance(answer, program_frames.Answer)
    assert (answer.status, answer.body) == ("ok", b"re:how many?")
