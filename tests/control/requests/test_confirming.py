"""A word for a change that comes late, to another boot of who obeyed it (D-16)."""

from __future__ import annotations

import pytest

from elfmesh.control.protocol.messages import Answered, Ask, Submit, unpack
from elfmesh.control.requests import confirming
from elfmesh.control.requests.confirming import OPEN_MAX
from elfmesh.machine import Contact, Effect, Message, Received
from elfmesh.overlay import events as ov
from tests.control.clicks import fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent


class Wire(World):
    """Keeps what is routed."""

    def __init__(self, agents: int) -> None:
        self.routed: list[tuple[Agent, ov.Route]] = []
        super().__init__(agents)

    def _carry_out(self, agent: Agent, effect: Effect) -> None:
        if isinstance(effect, ov.Route):
            self.routed.append((agent, effect))
        super()._carry_out(agent, effect)

    def late_copy(self, kind: type[Message], verb: str = "") -> None:
        """The first word of a kind reaches the root of its job once more."""
        for agent, route in self.routed:
            message = unpack(route.body)
            if isinstance(message, kind) and verb in ("", getattr(message, "verb", "")):
                root = self.closest(route.key)[0]
                late = ov.RouteDelivered(route.key, route.body, route.payload, agent.me)
                self.post(0.0, root, late)
                assert root is not agent
                return
        raise AssertionError("no such word")


def applied() -> tuple[Wire, Agent, Agent]:
    """A job, its master, and another agent whose clients ask."""
    world = Wire(4)
    fill(world, intervals=4)
    job = world.apply(world[0]).body["job"]
    master = world.master(job)
    other = next(agent for agent in world.living if agent is not master)
    world.routed.clear()
    return world, master, other


def restarted(world: Wire, agent: Agent) -> None:
    world.kill(agent)
    world.run(3.0)
    world.restart(agent)
    world.run(10.0)


def state(world: World) -> tuple[int, bool]:
    (master,) = world.master().control.leadership.masters.values()
    return master.manifest.version, master.paused


def jobs(world: World) -> list[str]:
    return [name for agent in world.living for name in agent.masters]


def test_a_late_delete_does_not_end_the_job_that_was_applied_since() -> None:
    world, master, other = applied()
    assert world.ask(other, "delete", {"job": "shop/top"}).status == 200
    restarted(world, master)
    assert world.apply(other).status == 200
    world.late_copy(Ask, "delete")
    world.run(30.0)
    assert jobs(world) == ["shop/top"]


def test_a_late_apply_does_not_begin_the_job_that_was_deleted_since() -> None:
    world, master, other = applied()
    world.ask(other, "delete", {"job": "shop/top"})
    assert world.apply(other).status == 200
    assert world.ask(other, "delete", {"job": "shop/top"}).status == 200
    restarted(world, master)
    world.late_copy(Submit)
    world.run(30.0)
    assert jobs(world) == []


@pytest.mark.parametrize("verb", ["pause", "resume", "undo", "empty"])
def test_no_late_word_changes_a_job(verb: str) -> None:
    world, master, other = applied()
    world.apply(other, TEXT.replace(" GROUP BY", " WHERE product <> 'none' GROUP BY"))
    world.ask(other, verb, {"job": "shop/top"})
    world.ask(other, "pause" if verb == "resume" else "resume", {"job": "shop/top"})
    restarted(world, master)
    before = state(world)
    world.late_copy(Ask, verb)
    world.run(5.0)
    assert state(world) == before


def test_while_a_client_waits_its_word_is_obeyed_by_another_life() -> None:
    """Who obeyed it has died before it answered."""
    world, master, other = applied()
    world.lost = lambda source, target, message: isinstance(message, Answered) and source is master
    token = world.request(other, "delete", {"job": "shop/top"})
    world.run(0.3)
    restarted(world, master)
    world.lost = lambda source, target, message: False
    world.run(10.0)
    assert other.replies[token].status == 200
    assert jobs(world) == []


def test_a_question_that_is_lost_is_asked_with_the_next_copy() -> None:
    world, _, other = applied()
    lost: list[Message] = []

    def first(source: Agent, target: Agent, message: Message) -> bool:
        mine = isinstance(message, Ask) and message.verb == confirming.VERB and not lost
        lost.extend([message] if mine else [])
        return mine

    world.lost = first
    assert world.ask(other, "delete", {"job": "shop/top"}, within=5.0).status == 200
    assert lost


def test_agents_that_do_not_know_the_question_are_obeyed() -> None:
    world, master, other = applied()

    def earlier(source: Agent, target: Agent, message: Message) -> bool:
        if not (isinstance(message, Ask) and message.verb == confirming.VERB):
            return False
        ask = Ask("nothing-it-knows", message.job, message.body, message.origin, message.token)
        world.post(0.001, target, Received(source.me, ask, b""))
        return True

    world.lost = earlier
    assert world.ask(other, "delete", {"job": "shop/top"}).status == 200
    assert jobs(world) == []
    assert master.control.context.stats["control.not_confirmed"] == 0


def test_words_of_who_never_answers_are_bounded_and_make_nothing() -> None:
    world, master, other = applied()
    job = next(iter(master.control.leadership.masters))
    no_client = Contact(other.me.id, other.me.host, other.me.port, other.me.incarnation - 1)
    world.lost = lambda source, target, message: isinstance(message, Ask)
    for token in range(OPEN_MAX + 9):
        world.post(
            0.0, master, Received(no_client, Ask("delete", job, b"{}", no_client, 7_000_000 + token), b"")
        )
    world.run(1.0)
    assert master.control.context.stats["control.not_confirmed"] == 9
    world.run(5.0)
    assert master.control.context.stats["control.not_confirmed"] == OPEN_MAX + 9
    assert jobs(world) == ["shop/top"]


def test_an_answer_for_an_earlier_life_is_nobodys() -> None:
    """An agent is reached at its address by whatever is sent to it, in whichever life."""
    world, _, other = applied()
    numbers = set()
    for _ in range(2):
        world.lost = lambda source, target, message: isinstance(message, Answered)
        world.request(other, "describe", {"job": "shop/top"})
        world.run(0.2)
        (number,) = other.control.requests._open
        numbers |= set(range(number - 5000, number + 5000))
        restarted(world, other)
    assert len(numbers) == 20_000
