"""Changing a running job: one interval boundary for all, state kept, nothing mixed, whichever agent leads
(D-16)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import Roster
from elfmesh.control.protocol.messages_register import Accept, Accepted, Promised
from elfmesh.control.protocol.messages_versions import Rehearse
from elfmesh.machine import Message
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.contexts import new_context
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent, rows_of

JOB = {"job": "shop/top"}


def without(key: str) -> str:
    """The text that leaves out one product."""
    return TEXT.replace("GROUP BY", f"WHERE product <> '{key}' GROUP BY")


def expected(world: World, *stages: tuple[int, str]) -> dict[int, list[dict[str, Any]]]:
    """What each interval must say; stages are (first interval, product left out)."""
    counts: dict[int, Counter[str]] = {}
    for agent in world.agents.values():
        for at, key in agent.logs.get("clicks", []):
            index = at // SLIDE
            left_out = [each for first, each in stages if first <= index][-1]
            if key != left_out:
                counts.setdefault(index, Counter())[key] += 1
    return {index: rows_of(counter) for index, counter in sorted(counts.items())}


def found(world: World, agent: Agent) -> dict[int, list[dict[str, Any]]]:
    """What was published; every interval is final, and in one version."""
    records = world.results(agent)
    assert {record.state for record, _ in records} <= {"FINAL"}
    return {record.index: rows for record, rows in records}


def running(agents: int = 4, intervals: int = 8) -> World:
    """A job with two closed intervals."""
    world = World(agents)
    fill(world, intervals=intervals)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    return world


def test_a_filter_changes_at_one_interval_and_no_result_is_lost() -> None:
    world = running()
    reply = world.apply(world[1], without("apple"))
    assert (reply.status, reply.body["state"], reply.body["version"]) == (200, "warm up", 2)
    assert (reply.body["acknowledged"], reply.body["expected"]) == (4, 4)
    first = reply.body["effective_interval"]
    assert first == 1004, "two above the highest sealed"
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    assert found(world, world[2]) == expected(world, (0, ""), (first, "apple"))
    versions = {record.index: record.version for record, _ in world.results(world[0])}
    assert versions == {index: 1 if index < first else 2 for index in range(1000, 1008)}


def test_the_end_of_a_query_changes_without_touching_a_worker() -> None:
    world = running()
    workers = [agent.workers for agent in world.living]
    before = [dict(each) for each in workers]
    reply = world.apply(world[1], TEXT + " HAVING COUNT(*) > 0 LIMIT 100")
    assert (reply.body["state"], reply.body["version"]) == ("keep", 2)
    assert [dict(each) for each in workers] == before
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    assert found(world, world[2]) == expected(world, (0, ""))
    assert [record.version for record, _ in world.results(world[0])][-1] == 2


def test_a_dry_run_reports_what_would_happen_and_changes_nothing() -> None:
    world = running()
    reply = world.apply(world[1], without("apple"), dry_run=True)
    assert (reply.body["state"], reply.body["version"], reply.body["dry_run"]) == ("warm up", 2, True)
    assert reply.body["columns"] == {"product": "warm up", "hits": "warm up"}
    assert reply.body["reasons"] == ["another filter"]
    assert world.ask(world[1], "describe", JOB).body["version"] == 1


def test_what_an_agent_sealed_beyond_the_boundary_is_made_again() -> None:
    """It had sealed six more intervals when the change came, and the master had not heard of them."""
    world = running()
    fast = world[2]
    world.lost = lambda source, target, message: False
    reply = world.request(world[1], "apply", {"text": without("apple")})
    sealed: list[int] = []

    def overtake(source: Agent, target: Agent, message: Message) -> bool:
        if isinstance(message, Accept) and not sealed:
            sealed.append(1)
            fast.seal("clicks", BASE + 8 * SLIDE)
        return False

    world.lost = overtake
    world.run(3.0)
    first = world[1].replies[reply].body["effective_interval"]
    assert sealed
    assert first < 1008, "it had sealed beyond"
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    assert found(world, world[0]) == expected(world, (0, ""), (first, "apple"))


def test_a_member_that_gets_the_roster_late_takes_part_by_the_right_version() -> None:
    world = running()
    deaf = world[3]
    world.lost = lambda source, target, message: target is deaf and isinstance(message, Roster)
    reply = world.ask(world[1], "apply", {"text": without("apple")})
    first = reply.body["effective_interval"]
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    world.lost = lambda source, target, message: False
    world.run(10.0)
    assert found(world, world[0]) == expected(world, (0, ""), (first, "apple"))


def test_a_late_joiner_and_a_restarted_agent_begin_with_the_right_version() -> None:
    world = running()
    first = world.apply(world[1], without("apple")).body["effective_interval"]
    restarted = world[2]
    world.kill(restarted)
    world.run(0.2)
    world.restart(restarted)
    world.run(3.0)
    for worker in restarted.workers.values():
        assert [(stage.start, stage.evaluated) for stage in worker.stages][-1] == (first, 2)
    late = world.add(9)
    world.run(3.0)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    assert found(world, world[0]) == expected(world, (0, ""), (first, "apple"))
    assert late.workers


def test_a_restarted_member_takes_part_before_it_has_its_streams() -> None:
    """It was taken for one with other labels, and ended where the version began: no record had its
    records."""
    (master,) = running().master().control.leadership.masters.values()
    terms = master.term.terms
    member_host = MemberHost(new_context(1))
    assert not member_host.on_rehearse(Rehearse(terms.manifest, terms.epoch)).takes_part
    member_host.remember(terms)
    assert member_host.on_rehearse(Rehearse(terms.manifest, terms.epoch)).takes_part


def test_changes_follow_each_other_before_the_first_is_in_force() -> None:
    world = running(intervals=12)
    first = world.apply(world[0], without("apple")).body["effective_interval"]
    second = world.apply(world[1], without("beer")).body
    assert second["version"] == 3
    assert second["effective_interval"] == first, "no member had begun the second version"
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    third = world.apply(world[1], without("corn")).body["effective_interval"]
    assert third == first + 1
    world.seal_all(BASE + 12 * SLIDE)
    world.run(2.0)
    assert found(world, world[2]) == expected(world, (0, ""), (first, "beer"), (third, "corn"))


def test_texts_that_arrive_while_another_is_rehearsed_all_have_their_turn() -> None:
    world = running()
    for token, text in ((901, without("apple")), (902, without("beer")), (903, without("beer"))):
        world.post(0.0, world[1], ctl.ClientRequest(token, "apply", {"text": text}, 0))
    world.run(20.0)
    replies = [world[1].replies[token].body for token in (901, 902, 903)]
    assert [(body["state"], body["version"]) for body in replies] == [
        ("warm up", 2),
        ("warm up", 3),
        ("unchanged", 3),
    ]


def test_undo_brings_the_last_version_back_from_the_first_open_interval() -> None:
    world = running(intervals=12)
    first = world.apply(world[0], without("apple")).body["effective_interval"]
    world.seal_all(BASE + 6 * SLIDE)
    world.run(1.0)
    assert world.ask(world[1], "rollout", JOB).body["in_force"]
    reply = world.ask(world[1], "undo", JOB)
    assert (reply.status, reply.body["version"]) == (200, 3)
    back = reply.body["effective_interval"]
    assert back == 1006, "the first that is not closed"
    world.seal_all(BASE + 12 * SLIDE)
    world.run(2.0)
    assert found(world, world[2]) == expected(world, (0, ""), (first, "apple"), (back, ""))
    assert world.ask(world[1], "rollout", JOB).body["replaces"] == 2


def test_a_worker_that_begins_again_with_one_version_learns_where_that_begins() -> None:
    """What is closed below was evaluated by others, and must not be made again."""
    world = running(intervals=12)
    world.apply(world[0], without("apple"))
    world.apply(world[0], without("pear"))
    back = world.ask(world[1], "undo", JOB).body["effective_interval"]
    workers = [worker for agent in world.living for worker in agent.workers.values()]
    assert [[(stage.start, stage.evaluated) for stage in worker.stages] for worker in workers] == 4 * [
        [(back, 4)]
    ]


def test_a_first_version_cannot_be_undone() -> None:
    world = running()
    reply = world.ask(world[1], "undo", JOB)
    assert reply.status == 409
    assert "no version before" in reply.body["error"]


def test_a_version_that_an_agent_cannot_evaluate_changes_nothing() -> None:
    import pyarrow as pa

    world = World()
    for number in range(3):
        schema = pa.schema([("ts", pa.timestamp("us")), ("product", pa.string())])
        world.add(number, streams={"clicks": schema})
    world.run(2.0)
    fill(world, intervals=4)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    reply = world.apply(world[0], TEXT.replace("GROUP BY", "WHERE colour = 'red' GROUP BY"))
    assert (reply.status, reply.body["code"]) == (400, 65)
    assert "no column colour" in reply.body["error"]
    assert "Version 1 continues" in reply.body["hint"]
    world.seal_all(BASE + 4 * SLIDE)
    world.run(1.0)
    assert found(world, world[0]) == expected(world, (0, ""))


@pytest.mark.parametrize("after_ms", range(16))
def test_a_master_that_dies_in_the_midst_finishes_the_change_or_abandons_it(after_ms: int) -> None:
    """Whichever it is: one boundary for all, no interval of two versions, nothing lost."""
    world = running(agents=6, intervals=12)
    master = world.master()
    client = next(agent for agent in world.living if agent is not master)
    token = world.request(client, "apply", {"text": without("apple")})
    world.run(after_ms / 1000)
    world.kill(master)
    world.run(4.0)
    world.restart(master)  # before an interval ends, because its successor knows how long it was away
    for step in range(3, 6):
        world.seal_all(BASE + step * SLIDE)
    world.run(0.1)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(40.0)
    status = world.ask(client, "rollout", JOB).body
    records = world.results(client)
    first = status["effective_interval"] if status["version"] == 2 else 2**62
    wanted = expected(world, (0, ""), (first, "apple"))
    assert [record.index for record, _ in records] == list(range(1000, 1012))
    for record, rows in records:
        assert (record.version, record.state) == (1 if record.index < first else 2, "FINAL")
        assert rows == wanted[record.index], record.index
    assert token in client.replies, "the client is told, whatever came of it"
    if client.replies[token].status == 200:
        assert status["version"] == 2


def test_a_client_that_applies_again_while_the_master_comes_back_does_not_leave_the_job_without_one() -> None:
    """The attempt to begin the job, which exists, is open when its root looks who leads it."""
    world = running(agents=3)
    master = world.master()
    client = next(agent for agent in world.living if agent is not master)
    world.lost = lambda source, target, message: target is master and isinstance(message, Accepted)
    world.request(client, "apply", {"text": without("apple")})
    world.run(0.05)
    world.kill(master)
    world.run(0.3)
    world.restart(master)
    world.run(0.5)
    world.lost = lambda source, target, message: target is master and isinstance(message, Promised)
    for _ in range(8):
        world.request(client, "apply", {"text": without("beer")})
        world.run(1.0)
    world.lost = lambda source, target, message: False
    world.run(60.0)
    assert world.ask(client, "rollout", JOB).status == 200


def test_labels_change_in_place() -> None:
    """Who is not meant any more ends at the boundary, who is meant now begins there."""
    world = World()
    for number in range(4):
        world.add(number, labels={"role": "web" if number < 3 else "api", "zone": f"z{number % 2}"})
    world.run(2.0)
    fill(world, intervals=12)
    world.apply(world[0], TEXT.replace("FROM clicks", "FROM clicks ON (role = 'web')"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    reply = world.apply(world[0], TEXT.replace("FROM clicks", "FROM clicks ON (zone = 'z1')"))
    assert (reply.status, reply.body["state"]) == (200, "keep")
    first = reply.body["effective_interval"]
    world.run(3.0)
    world.seal_all(BASE + 12 * SLIDE)
    world.run(10.0)
    records = world.results(world[0])
    assert {record.state for record, _ in records} == {"FINAL"}
    assert [record.index for record, _ in records] == list(range(1000, 1012))
    meant = {1: [0, 1, 2], 2: [1, 3]}
    for record, rows in records:
        numbers = meant[1 if record.index < first else 2]
        counts: Counter[str] = Counter()
        for number in numbers:
            counts.update(key for at, key in world[number].logs["clicks"] if at // SLIDE == record.index)
        assert rows == rows_of(counts), record.index
        assert record.agents_expected == len(numbers)
    assert not world[0].workers
    assert world[3].workers


def test_empty_begins_a_new_batch_at_one_boundary() -> None:
    world = running()
    reply = world.ask(world[1], "empty", JOB)
    assert (reply.status, reply.body["state"], reply.body["version"]) == (200, "reset", 2)
    first = reply.body["effective_interval"]
    manifest = world.master().control.leadership.masters[next(iter(world.master().workers))].term.manifest
    assert manifest.since_us == first * SLIDE
    assert manifest.text == TEXT
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    assert found(world, world[0]) == expected(world, (0, ""))


def test_to_empty_a_job_that_has_not_begun_changes_no_record() -> None:
    world = World(4)
    fill(world, intervals=4)
    world.apply(world[0])
    reply = world.ask(world[1], "empty", JOB)
    assert (reply.status, reply.body["version"]) == (200, 2)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(2.0)
    assert found(world, world[0]) == expected(world, (0, ""))


def test_an_interval_is_verified_by_the_version_it_was_closed_by() -> None:
    world = running()
    world.apply(world[0], without("apple"))
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    for interval in (1001, 1006):
        world.ask(world[2], "verify", {**JOB, "interval": interval})
        world.run(1.0)
        done = world.ask(world[2], "verify", {**JOB, "interval": interval})
        assert done.body["state"] == "equal", done.body


def test_a_version_whose_records_cannot_be_used_is_taken_back_by_itself() -> None:
    world = running(intervals=12)
    world.poisoned = "apple"
    first = world.apply(world[0], without("apple")).body["effective_interval"]
    world.seal_all(BASE + 6 * SLIDE)
    world.run(3.0)
    status = world.ask(world[1], "rollout", JOB).body
    assert status["version"] == 3
    assert "of the records of version 2 could not be used" in status["halted"]
    assert "version 1 continues" in status["halted"]
    world.seal_all(BASE + 12 * SLIDE)
    world.run(2.0)
    records = {record.index: (record.version, rows) for record, rows in world.results(world[2])}
    assert sorted(records) == list(range(1000, 1012))
    wanted = expected(world, (0, ""))
    bad = [index for index, (version, _) in records.items() if version == 2]
    assert bad == [first, first + 1], "only what was ready before any member could know"
    assert all(records[index][1] == wanted[index] for index in records if index not in bad)


def test_an_update_needs_a_job_that_runs_and_its_own_text() -> None:
    world = World(2)
    reply = world.ask(world[0], "apply", {"text": TEXT, "job": "shop/top"})
    assert reply.status == 404
    reply = world.ask(world[0], "apply", {"text": TEXT, "job": "shop/other"})
    assert (reply.status, reply.body["code"]) == (400, 65)
    assert "not of shop/other" in reply.body["error"]
