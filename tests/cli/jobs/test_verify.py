"""Closed intervals made again from the raw logs: equal, different, or unknown."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.control.master.row_differences import differing
from elfmesh.control.protocol.events import Recompute
from elfmesh.control.protocol.messages_safety import Verified, Verify
from elfmesh.machine import Received, Send
from elfmesh.srt.events import Collected
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, recompute


def closed(agents: int = 3, text: str = TEXT) -> World:
    world = World(agents)
    fill(world, intervals=3)
    world.apply(world[0], text)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    assert len(world.results(world[0])) == 3
    return world


def verify(world: World, interval: int = 1001, **body: Any) -> dict[str, Any]:
    for _ in range(100):
        reply = world.ask(world[1], "verify", {"job": "shop/top", "interval": interval, **body})
        assert reply.status == 200, reply.body
        if reply.body["state"] != "running":
            return reply.body
        body = {}
        world.run(0.1)
    raise AssertionError("the verification does not end")


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_interval_whose_logs_are_as_they_were_is_equal(partitions: int) -> None:
    world = closed(text=TEXT.replace("DEADLINE '1 s'", f"PARTITIONS {partitions}"))
    found = verify(world)
    assert (found["state"], found["errors"]) == ("equal", [])
    assert found["recomputed"]["contributed"] == found["published"]["contributed"] > 0
    assert [agent["agent"] for agent in found["agents"]] == ["agent-0", "agent-1", "agent-2"]


def test_a_changed_log_is_found_with_the_rows_that_differ() -> None:
    world = closed()
    assert verify(world)["state"] == "equal"
    world[2].feed("clicks", [(BASE + SLIDE + 5, "smuggled")])
    assert verify(world)["state"] == "equal", "an outcome is kept"
    found = verify(world, again=True)
    assert found["state"] == "different"
    assert {"published": None, "recomputed": {"product": "smuggled", "hits": 1}} in found["differences"]
    assert found["recomputed"]["contributed"] == found["published"]["contributed"] + 1


def test_an_agent_that_does_not_answer_makes_the_verification_incomplete_not_different() -> None:
    world = closed()
    dead = next(agent for agent in world.living if agent not in (world.master(), world[1]))
    world.kill(dead)
    world.ask(world[1], "verify", {"job": "shop/top", "interval": 1001})
    world.run(1000.0)
    found = verify(world)
    assert found["state"] == "incomplete"
    assert found["errors"] == [{"agent": f"agent-{dead.number}", "error": "no answer"}]


def test_an_interval_that_is_open_or_gone_cannot_be_verified() -> None:
    found = verify(closed(), 1007)
    assert (found["state"], found["error"]) == ("unknown", "interval 1007 has no final record")


def test_answers_of_others_and_damaged_ones_change_nothing() -> None:
    world = closed()
    master = world.master()
    job = next(iter(master.control.leadership.masters))
    world.lost = lambda source, target, message: isinstance(message, Verified)
    world.ask(world[1], "verify", {"job": "shop/top", "interval": 1001})
    world.run(0.1)
    check = master.control.leadership.masters[job].term.verifier._check
    assert check is not None
    waiting = dict(check.waits_for)
    number = next(iter(waiting))
    assert len(waiting) == 2, "the master's own answer needs no network"
    for message, payload in [
        (Verified(job, check.token + 1, number, (1,), (0,)), b""),
        (Verified(job, check.token, 77, (1,), (0,)), b""),
        (Verified(job, check.token, number, (1,), (5,)), b"1234"),
        (Verified(job, check.token, number, (1,), (-1, 1)), b""),
        (Verified(job, check.token, number, (1,), (0, 0)), b""),
        (Verified(job, check.token, number, (1,) * 99, (0,)), b""),
    ]:
        world.post(0.0, master, Received(world[2].me, message, payload))
    world.run(1.0)
    assert check.waits_for == waiting


def test_a_master_that_checks_itself_verifies_one_interval_in_so_many() -> None:
    world = World(3)
    fill(world, intervals=4)
    for agent in world.living:
        agent.control.context.facts = lambda topic: {"self_check": 2} if topic == "limits" else {}
    world.apply(world[0])
    world.seal_all(BASE + 4 * SLIDE)
    world.run(10.0)
    verifier = next(iter(world.master().control.leadership.masters.values())).term.verifier
    assert (verifier.equal, verifier.different) == (2, 0)


def test_an_interval_of_agents_that_have_left_is_incomplete_not_different() -> None:
    world = closed(4)
    leaver = next(agent for agent in world.living if agent not in (world.master(), world[1]))
    world.request(leaver, "leave")
    fill(world, intervals=6, first=1003)
    world.run(1.0)
    world.seal_all(BASE + 9 * SLIDE)
    world.run(3.0)
    world.kill(leaver)
    late = world.add(9)
    late.seal("clicks", BASE + 9 * SLIDE)
    world.run(3.0)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(3.0)
    found = verify(world)
    assert found["state"] == "incomplete"
    assert "4 agents are in the record, 3 of them" in found["errors"][0]["error"]


def test_a_question_that_is_lost_is_asked_again() -> None:
    world = closed()
    world.lost = lambda source, target, message: isinstance(message, Verify)
    world.ask(world[1], "verify", {"job": "shop/top", "interval": 1001})
    world.run(1.0)
    world.lost = lambda source, target, message: False
    world.run(15.0)
    assert verify(world)["state"] == "equal"


def test_a_flood_of_questions_makes_an_agent_read_its_logs_once_at_a_time() -> None:
    world = closed()
    (member,) = world[2].control.member_host.members.values()
    asker = world.master().me
    effects = []
    for token in range(50):
        message = Verify(member.manifest, member.epoch, 1001, token)
        effects += world[2].control.step(Received(asker, message), world.now)
    (first,) = [each for each in effects if isinstance(each, Recompute)]
    effects = world[2].control.step(recompute(world[2], first), world.now)
    assert [type(each) for each in effects if isinstance(each, Send | Recompute)] == [Recompute, Send]
    (second,) = [each for each in effects if isinstance(each, Recompute)]
    effects = world[2].control.step(recompute(world[2], second), world.now)
    (answer,) = [each.message for each in effects if isinstance(each, Send)]
    assert isinstance(answer, Verified)
    assert answer.token == 49


def test_a_master_that_has_resigned_verifies_nothing() -> None:
    world = World(3)
    fill(world, intervals=2)
    for agent in world.living:
        agent.control.context.facts = lambda topic: {"self_check": 1} if topic == "limits" else {}
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    master = next(iter(world.master().control.leadership.masters.values()))
    master.term.resign()
    world.sent.clear()
    world.run(10.0)
    assert world.sent["Verify"] == 0


def test_only_what_differs_becomes_rows() -> None:
    numbers = pa.table({"n": [float(at) for at in range(5000)]})
    assert differing(numbers, numbers) == []
    assert differing(pa.table({"n": [float("nan")]}), pa.table({"n": [float("nan")]})) == []
    changed = pa.table({"n": [float(at) if at != 4000 else 0.5 for at in range(5001)]})
    assert differing(numbers, changed) == [
        {"published": {"n": 4000.0}, "recomputed": {"n": 0.5}},
        {"published": None, "recomputed": {"n": 5000.0}},
    ]
    assert len(differing(numbers, numbers.slice(1))) == 10


def test_counts_without_a_bucket_do_not_end_the_master() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0])
    master = world.master()
    (leading,) = master.control.leadership.masters.values()
    segment = Segment(leading.term.epoch, 0, 1000, 1001, b"\x01", (SegmentEntry(1000, (1,) * 99),))
    world.post(0.0, master, Collected(leading.job, segment, (b"",)))
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    exact(world, master)
