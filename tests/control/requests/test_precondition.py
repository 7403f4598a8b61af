"""What a request says that its client has seen, and that nothing else is changed by it (D-16)."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.answers import read_answer
from elfmesh.control.protocol.messages import Answered, Ask, Submit, unpack
from elfmesh.control.requests.requests import WAITS
from elfmesh.machine import Effect, Message, Received
from elfmesh.overlay import events as ov
from elfmesh.ql.values.row_json import encode_json
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

    def late_copies(self, kind: type[Message], verb: str = "") -> None:
        """All requests of a kind reach the root of their job once more, in the order in which they came."""
        late = [
            (agent, route)
            for agent, route in self.routed
            if isinstance(message := unpack(route.body), kind) and verb in ("", getattr(message, "verb", ""))
        ]
        assert late
        for agent, route in late:
            root = self.closest(route.key)[0]
            assert root is not agent
            self.post(0.0, root, ov.RouteDelivered(route.key, route.body, route.payload, agent.me))


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
    return master.term.manifest.version, master.term.paused


def jobs(world: World) -> list[str]:
    return [name for agent in world.living for name in agent.masters]


def test_a_late_delete_does_not_end_the_job_that_was_applied_since() -> None:
    world, master, other = applied()
    assert world.ask(other, "delete", {"job": "shop/top"}).status == 200
    restarted(world, master)
    assert world.apply(other).status == 200
    world.late_copies(Ask, "delete")
    world.run(30.0)
    assert jobs(world) == ["shop/top"]


def test_a_late_apply_does_not_begin_the_job_that_was_deleted_since() -> None:
    world, master, other = applied()
    world.ask(other, "delete", {"job": "shop/top"})
    assert world.apply(other).status == 200
    assert world.ask(other, "delete", {"job": "shop/top"}).status == 200
    restarted(world, master)
    world.late_copies(Submit)
    world.run(30.0)
    assert jobs(world) == []


@pytest.mark.parametrize("verb", ["pause", "resume", "undo", "empty"])
def test_no_late_copy_of_a_request_changes_a_job(verb: str) -> None:
    world, master, other = applied()
    world.apply(other, TEXT.replace(" GROUP BY", " WHERE product <> 'none' GROUP BY"))
    world.ask(other, verb, {"job": "shop/top"})
    world.ask(other, "pause" if verb == "resume" else "resume", {"job": "shop/top"})
    restarted(world, master)
    before = state(world)
    world.late_copies(Ask, verb)
    world.run(5.0)
    assert state(world) == before


def test_while_a_client_waits_its_request_is_obeyed_by_another_boot() -> None:
    """The master that obeyed it has died before it answered."""
    world, master, other = applied()
    world.lost = lambda source, target, message: isinstance(message, Answered) and source is master
    token = world.request(other, "delete", {"job": "shop/top"})
    world.run(0.3)
    restarted(world, master)
    world.lost = lambda source, target, message: False
    world.run(10.0)
    assert other.replies[token].status == 200
    assert jobs(world) == []


def seen(world: World, agent: Agent) -> str:
    return str(world.ask(agent, "describe", {"job": "shop/top"}).body["seen"])


CHANGED = TEXT.replace(" GROUP BY", " WHERE product <> 'none' GROUP BY")
OTHERS = TEXT.replace(" GROUP BY", " WHERE product <> 'pear' GROUP BY")


def round_trips(world: Wire, agent: Agent, body: dict[str, Any]) -> int:
    world.routed.clear()
    assert world.ask(agent, "apply", body).status == 200
    requests = [unpack(route.body) for each, route in world.routed if each is agent]
    return len({message.token for message in requests if isinstance(message, Submit)})


def test_a_client_that_has_looked_needs_one_round_trip_and_another_client_two() -> None:
    world, _, other = applied()
    body = {"text": CHANGED, "job": "shop/top", "seen": seen(world, other)}
    assert round_trips(world, other, body) == 1
    assert round_trips(world, other, {"text": OTHERS, "job": "shop/top"}) == 2


@pytest.mark.parametrize("verb", ["apply", "undo", "empty"])
def test_a_change_of_what_is_not_there_any_more_changes_nothing(verb: str) -> None:
    world, _, other = applied()
    before = seen(world, other)
    world.apply(other, CHANGED)
    body = {"job": "shop/top", "seen": before} | ({"text": OTHERS} if verb == "apply" else {})
    reply = world.ask(other, verb, body)
    assert (reply.status, reply.body["outcome"], reply.body["version"]) == (409, "refused", 2)
    assert reply.body["seen"] == seen(world, other)
    assert state(world) == (2, False)


@pytest.mark.parametrize("verb", ["apply", "undo", "empty", "pause", "delete"])
def test_a_repeated_request_answers_success_if_the_job_is_what_it_asks_for(verb: str) -> None:
    """The answer to the first one was lost, and its client asks again."""
    world, _, other = applied()
    world.apply(other, CHANGED)
    world.run(5.0)
    body = {"job": "shop/top", "seen": seen(world, other)} | ({"text": OTHERS} if verb == "apply" else {})
    first, again = (world.ask(other, verb, body) for _ in range(2))
    assert (first.status, again.status) == (200, 200), again.body
    assert first.body.get("version") in (again.body.get("version"), 2)
    if verb != "delete":
        assert state(world) == (2 if verb == "pause" else 3, verb == "pause")


@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_the_outcome_of_a_change_is_unknown_where_no_agent_knows_what_followed_the_version_seen(
    verb: str,
) -> None:
    world, _, other = applied()
    before = seen(world, other)
    for fruit in ("fig", "kiwi", "pear"):
        world.apply(other, OTHERS.replace("pear", fruit))
    body = {"job": "shop/top", "seen": before} | ({"text": CHANGED} if verb == "apply" else {})
    reply = world.ask(other, verb, body)
    assert (reply.status, reply.body["outcome"], reply.body["version"]) == (409, "unknown", 4)


def test_a_delete_of_a_job_that_has_begun_again_ends_nothing() -> None:
    world, _, other = applied()
    before = seen(world, other)
    assert world.ask(other, "delete", {"job": "shop/top"}).status == 200
    assert world.apply(other).status == 200
    reply = world.ask(other, "delete", {"job": "shop/top", "seen": before})
    assert (reply.status, reply.body["outcome"]) == (409, "unknown")
    assert jobs(world) == ["shop/top"]


def test_a_pause_does_not_mind_another_version_and_minds_another_pause() -> None:
    world, _, other = applied()
    before = seen(world, other)
    world.apply(other, CHANGED)
    assert world.ask(other, "pause", {"job": "shop/top", "seen": before}).body["state"] == "paused"
    world.ask(other, "resume", {"job": "shop/top"})
    assert world.ask(other, "pause", {"job": "shop/top", "seen": before}).status == 409
    assert state(world) == (2, False)


def test_a_malformed_tag_is_refused_by_the_asked_agent() -> None:
    world, _, other = applied()
    for tag in ("x", "a.b.c.d", f"{other.me.id.hex()}.i.1", "ab.i.1.0"):
        reply = world.ask(other, "pause", {"job": "shop/top", "seen": tag})
        assert (reply.status, reply.body["code"]) == (400, 2)


@pytest.mark.parametrize("verb", ["pause", "undo", "delete"])
def test_agents_of_an_earlier_version_name_nothing_and_are_obeyed(verb: str) -> None:
    world, master, other = applied()
    world.apply(other, CHANGED)
    job = next(iter(master.control.leadership.masters))
    world.post(0.0, master, Received(other.me, Ask(verb, job, b"{}", other.me, 77), b""))
    world.run(5.0)
    if verb == "delete":
        assert jobs(world) == []
    else:
        assert state(world) == ((2, True) if verb == "pause" else (3, False))


def test_a_change_of_an_earlier_version_is_not_made_twice_while_its_answer_is_to_come() -> None:
    """Its agent sends it again each time that it was not answered for a while."""
    world, master, other = applied()
    world.apply(other, CHANGED)
    job = next(iter(master.control.leadership.masters))
    mute = next(each for each in world.living if each not in (master, other))
    world.kill(mute)
    for _ in range(6):
        world.post(0.0, world.master(), Received(other.me, Ask("undo", job, b"{}", other.me, 77), b""))
        world.run(0.7)
    assert state(world) == (3, False)


def test_a_master_of_an_earlier_version_learns_whether_a_client_waits() -> None:
    world, master, other = applied()
    notified: list[tuple[Answered, bytes]] = []
    world.lost = lambda source, target, message: isinstance(message, Answered) and target is other
    world.request(other, "describe", {"job": "shop/top"})
    world.run(0.2)
    (waiting,) = other.control.requests._open

    def noted(message: Answered, payload: bytes) -> None:
        notified.append((message, payload))

    master.control.context.on_answered = noted  # type: ignore[method-assign]  # listens in
    for token in (waiting, waiting + 1_000_000):
        body = encode_json({"token": token, "of": other.me.id.hex()})
        world.post(0.0, other, Received(master.me, Ask(WAITS, b"j" * 20, body, master.me, token), b""))
    world.run(0.2)
    assert [read_answer(*each)[0]["waits"] for each in notified] == [True, False]


def test_an_answer_for_an_earlier_boot_matches_no_request() -> None:
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
