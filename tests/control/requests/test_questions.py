"""Questions that clients ask: lists, names, waiting for what is to come."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.protocol.events import ClientGone
from elfmesh.control.protocol.messages import Answered, Ask
from elfmesh.control.requests.handler import QUESTION_S
from elfmesh.machine import Message, Received
from elfmesh.ql.values.row_json import encode_json
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import HOP_S, World
from tests.control.member.support import TEXT, Agent, agent_id

JOB = ids.job_id("shop/top", "local")


def test_lists_come_from_all_agents() -> None:
    world = World(4)
    world.apply(world[0])
    (job,) = world.ask(world[1], "list").body["jobs"]
    assert (job["job"], job["state"], job["agents"]) == ("shop/top", "running", 4)
    agents = world.ask(world[2], "agents").body
    assert [each["name"] for each in agents["agents"]] == [f"agent-{number}" for number in range(4)]
    assert agents["asked"] == {"answered": 4, "expected": 4}
    (stream,) = world.ask(world[3], "streams").body["streams"]
    assert (stream["stream"], len(stream["agents"])) == ("clicks", 4)


def test_a_job_of_another_creator_is_found_by_its_name() -> None:
    world = World(3)
    world.apply(world[0], creator="ann")
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["creator"] == "ann"
    world.apply(world[0], creator="bob")
    reply = world.ask(world[1], "describe", {"job": "shop/top"})
    assert reply.status == 409
    assert "ann, bob" in reply.body["hint"]
    named = world.ask(world[1], "describe", {"job": "shop/top", "creator": "bob"})
    assert named.body["creator"] == "bob"


def test_a_newcomer_closest_to_a_job_without_a_master_does_not_answer_that_there_is_no_such_job() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.run(5.0)
    least = ids.distance(world.closest(JOB)[0].me.id, JOB)
    newcomer = next(number for number in range(4, 400) if ids.distance(agent_id(number), JOB) < least)
    asker = next(agent for agent in world.living if agent is not world.master())
    world.kill(world.master())
    world.add(newcomer)
    token = world.request(asker, "describe", {"job": "shop/top"})
    missing = world.request(asker, "describe", {"job": "shop/none"})
    world.run(20.0)
    assert asker.replies[token].status == 200
    assert asker.replies[missing].status == 404


def test_a_deleted_job_is_unknown_although_an_agent_has_missed_the_end() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.run(5.0)
    agent = next(each for each in world.closest(JOB)[1:] if JOB in each.control.leadership.replicas)
    missed = agent.control.leadership.replicas[JOB]
    assert world.ask(world[0], "delete", {"job": "shop/top"}).status == 200
    world.run(1.0)
    leadership = agent.control.leadership
    leadership._tombstones = type(leadership._tombstones)()
    leadership.replicas[JOB] = missed
    token = world.request(world[0], "describe", {"job": "shop/top"})
    world.run(0.4)
    assert world[0].replies[token].status == 404


def test_a_long_poll_is_answered_by_the_record_it_waits_for() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    asker = world[1]
    token = world.request(asker, "results", {"job": "shop/top", "wait": 20})
    offsets = world.request(asker, "offsets", {"job": "shop/top", "after": -1, "wait": 20})
    world.run(5.0)
    assert token not in asker.replies
    world.seal_all(BASE + SLIDE)
    world.run(0.1)
    assert asker.replies[token].payload
    assert asker.replies[offsets].body["latest"] == 1000


def test_a_master_drops_the_long_poll_of_a_client_that_hangs_up() -> None:
    """Elsewhere or at the master itself; those of other clients wait on."""
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    world.run(1.0)
    service = world.master().control.leadership.masters[JOB].term.result_service
    tokens = [
        (agent, world.request(agent, "results", {"job": "shop/top", "wait": 20})) for agent in world.living
    ]
    others = [
        (agent, world.request(agent, "results", {"job": "shop/top", "wait": 20})) for agent in world.living
    ]
    world.run(0.5)
    assert service.waiting == 6
    for agent, token in tokens:
        world.post(HOP_S, agent, ClientGone(token))
    world.run(0.5)
    assert service.waiting == 3
    world.run(5.0)
    assert service.waiting == 3
    world.seal_all(BASE + SLIDE)
    world.run(0.1)
    assert service.waiting == 0
    assert all(agent.replies[token].payload for agent, token in others)
    assert not any(token in agent.replies for agent, token in tokens)


def test_a_long_poll_ends_when_its_time_is_over() -> None:
    world = World(2)
    world.apply(world[0])
    reply = world.ask(world[1], "offsets", {"job": "shop/top", "after": -1, "wait": 2})
    assert reply.body["latest"] == reply.body["earliest"] - 1
    assert world.ask(world[1], "schema", {"job": "shop/top"}).status == 409


def test_a_master_refuses_a_poll_that_waits_for_no_number() -> None:
    """A timer that is due at NaN would keep back all other timers of the agent."""
    world = World(2)
    world.apply(world[0])
    master = world.master()
    body = encode_json({"after": -1, "wait": "nan"})
    world.post(0.0, master, Received(world[1].me, Ask("offsets", JOB, body, world[1].me, 99)))
    world.run(0.5)
    assert master.control.leadership.masters[JOB].term.result_service.waiting == 0
    assert world.ask(world[1], "offsets", {"job": "shop/top", "after": -1, "wait": 2}).status == 200


def test_an_unanswered_request_is_refused_in_time() -> None:
    world = World(3)
    world.apply(world[0])
    master = world.master()
    asker = next(agent for agent in world.living if agent is not master)
    world.lost = lambda source, target, message: source is master
    reply = world.ask(asker, "describe", {"job": "shop/top"}, within=15.0)
    assert (reply.status, reply.body["code"]) == (503, 69)


def test_an_answer_that_was_lost_is_asked_for_again_at_once() -> None:
    world, asker, answers = silenced(lambda number: number == 1)
    began = world.now
    token = world.request(asker, "describe", {"job": "shop/top"})
    world.run(0.6)
    assert asker.replies[token].status == 200, "one frame was lost: no client waits seconds for it"
    assert [round(at - began, 1) for at in answers] == [0.0, 0.5]


def test_a_question_is_asked_again_more_and_more_rarely() -> None:
    world, asker, answers = silenced(lambda number: True)
    began = world.now
    assert world.ask(asker, "describe", {"job": "shop/top"}, within=15.0).status == 503
    assert [round(at - began, 1) for at in answers] == [0.0, 0.5, 1.5, 3.5, 6.0, 8.5]


def test_all_agents_are_not_asked_again_while_they_have_time_to_answer() -> None:
    world, asker, answers = silenced(lambda number: True)
    world.ask(asker, "list", within=15.0)
    assert len(answers) > 1
    assert min(after - before for before, after in pairwise(answers)) >= QUESTION_S


REFUSAL = {"error": "the job has no master now; ask again soon", "code": 69}


def refused(times: int) -> tuple[World, Agent]:
    """A job, and an agent that is told so many times that the job has no master."""
    world = World(3)
    world.apply(world[0])
    asker = next(agent for agent in world.living if agent is not world.master())
    notified: list[Message] = []
    text = encode_json(REFUSAL)

    def refuse(source: Agent, target: Agent, message: Message) -> bool:
        if not isinstance(message, Answered) or target is not asker or len(notified) == times:
            return False
        notified.append(message)
        world.post(
            HOP_S, target, Received(source.me, replace(message, status=503, body_size=len(text)), text)
        )
        return True

    world.lost = refuse
    return world, asker


@pytest.mark.parametrize("verb", ["describe", "results", "offsets"])
def test_a_client_that_only_reads_does_not_notice_a_change_of_masters(verb: str) -> None:
    world, asker = refused(2)
    assert world.ask(asker, verb, {"job": "shop/top"}).status == 200


def test_a_client_that_only_reads_learns_of_a_job_without_a_master_if_that_lasts() -> None:
    world, asker = refused(100)
    reply = world.ask(asker, "describe", {"job": "shop/top"}, within=15.0)
    assert (reply.status, reply.body) == (503, REFUSAL)


def test_a_client_that_changes_a_job_learns_that_there_was_no_master() -> None:
    world, asker = refused(1)
    reply = world.ask(asker, "pause", {"job": "shop/top"})
    assert (reply.status, reply.body) == (503, REFUSAL), "twice is not once: who asked decides"


def silenced(lost: Callable[[int], bool]) -> tuple[World, Agent, list[float]]:
    """A job, an agent that is not its master, and when answers were sent; some are lost, by their number."""
    world = World(3)
    world.apply(world[0])
    asker = next(agent for agent in world.living if agent is not world.master())
    answers: list[float] = []

    def silence(source: Agent, target: Agent, message: Message) -> bool:
        if isinstance(message, Answered):
            answers.append(world.now)
        return isinstance(message, Answered) and lost(len(answers))

    world.lost = silence
    return world, asker, answers


@pytest.mark.parametrize("verb", ["describe", "delete", "pause", "results", "undo"])
def test_a_job_that_is_not_there_is_named(verb: str) -> None:
    world = World(3)
    notified = world.ask(world[0], verb, {"job": "shop/none"})
    assert (notified.status, notified.body["error"]) == (404, "there is no such job: shop/none")
    notified = world.apply(world[0], TEXT, job="shop/top")
    assert (notified.status, notified.body["error"]) == (404, "there is no such job: shop/top")
