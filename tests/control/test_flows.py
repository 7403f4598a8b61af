from __future__ import annotations

import random

import pyarrow as pa
import pytest

from elfmesh.control import events as ctl
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PartsDropped
from tests.control.harness import SECOND, TEXT, Agent, World

SLIDE = 10 * SECOND
BASE = 1_000 * SLIDE
PRODUCTS = ["apple", "beer", "corn", "dill", "eggs"]


def fill(world: World, *, intervals: int, first: int = 1000, seed: int = 1) -> None:
    rng = random.Random(seed)
    for agent in [each for each in world.living if "clicks" in each.streams]:
        records = []
        for index in range(first, first + intervals):
            for _ in range(rng.randrange(5, 20)):
                at = index * SLIDE + rng.randrange(SLIDE)
                records.append((at, rng.choice(PRODUCTS)))
        agent.feed("clicks", sorted(records))


def exact(world: World, agent: Agent, job: str = "shop/top", *, slide: int = SLIDE) -> None:
    found = world.results(agent, job)
    expected = world.expected(slide)
    assert {record.index: rows for record, rows in found} == expected
    indices = [record.index for record, _ in found]
    assert indices == sorted(indices)


def test_every_interval_has_the_oracles_rows_from_whichever_agent_is_asked() -> None:
    world = World(5)
    fill(world, intervals=4)
    reply = world.apply(world[3])
    assert reply.status == 200, reply.body
    seconds = reply.body.pop("seconds")
    assert set(seconds) == {"prepare", "activate"}
    assert reply.body == {
        "job": "shop/top",
        "version": 1,
        "effective_interval": 0,
        "acknowledged": 5,
        "expected": 5,
        "state": "new",
    }
    world.seal_all(BASE + 4 * SLIDE)
    world.run(1.0)
    for number in range(5):
        exact(world, world[number])
    for record, _ in world.results(world[0]):
        assert record.state == "FINAL"
        assert (record.completeness, record.agents_in, record.agents_expected) == (1.0, 5, 5)
        assert record.missing == []
        assert record.end_us is not None
        assert record.start_us is not None
        assert record.end_us - record.start_us == SLIDE
        assert record.counts["contributed"] > 0


def test_the_master_is_the_agent_closest_to_the_jobs_id() -> None:
    world = World(6)
    world.apply(world[0])
    master = world.master()
    job = next(iter(master.control.leadership.masters))
    assert world.closest(job)[0] is master


def test_one_agent_alone_is_enough() -> None:
    world = World(1)
    fill(world, intervals=3)
    assert world.apply(world[0]).body["acknowledged"] == 1
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    exact(world, world[0])


def test_records_of_a_range_that_nobody_filled_leave_no_record() -> None:
    world = World(3)
    world[0].feed("clicks", [(BASE, "apple"), (BASE + 50 * SLIDE, "beer")])
    world.apply(world[1])
    world.seal_all(BASE + 60 * SLIDE)
    world.run(1.0)
    assert [record.index for record, _ in world.results(world[2])] == [1000, 1050]


def test_two_jobs_on_one_stream_with_different_windows() -> None:
    world = World(4)
    fill(world, intervals=6)
    other = TEXT.replace("shop.top", "shop.slow").replace("10 s", "20 s").replace("'10'", "'20'")
    world.apply(world[0])
    world.apply(world[1], other)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(1.0)
    exact(world, world[2])
    exact(world, world[2], "shop/slow", slide=2 * SLIDE)


@pytest.mark.parametrize("partitions", [2, 5])
def test_a_partitioned_job_is_exact_through_several_roots(partitions: int) -> None:
    world = World(6)
    fill(world, intervals=4)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", f"PARTITIONS {partitions}"))
    world.seal_all(BASE + 4 * SLIDE)
    world.run(3.0)
    exact(world, world[1])
    totals = {record.index: record.counts["contributed"] for record, _ in world.results(world[1])}
    assert totals == {
        index: sum(row["hits"] for row in rows) for index, rows in world.expected(SLIDE).items()
    }


def test_a_late_joiner_takes_part_from_a_declared_interval() -> None:
    world = World(3)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(1.0)
    late = world.add(77)
    world.run(2.0)
    described = world.ask(world[1], "describe", {"job": "shop/top"}).body
    entry = next(each for each in described["roster"]["agents"] if each["agent"] == "agent-77")
    assert entry["from"] == 1000 + 3 + 2
    late.feed("clicks", [(BASE + index * SLIDE, "late") for index in range(12)])
    fill(world, intervals=6, first=1003, seed=2)
    world.seal_all(BASE + 9 * SLIDE)
    world.run(1.0)
    for record, rows in world.results(world[0]):
        has_late = any(row["product"] == "late" for row in rows)
        assert record.agents_expected == (4 if record.index >= 1005 else 3)
        assert has_late == (record.index >= 1005)
        assert record.state == "FINAL"


def test_a_dead_agent_is_named_as_missing_and_the_interval_closes() -> None:
    world = World(5)
    fill(world, intervals=6)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    master = world.master()
    victim = next(agent for agent in world.living if agent is not master)
    world.kill(victim)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(4.0)
    found = world.results(master)
    assert [record.index for record, _ in found] == list(range(1000, 1006))
    for record, _ in found[2:]:
        assert record.state == "FINAL_PARTIAL"
        assert record.missing == [f"agent-{victim.number}"]
        assert (record.agents_in, record.agents_expected) == (4, 5)
        assert record.completeness == pytest.approx(0.8)


def test_an_agent_that_comes_back_is_counted_again() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    victim = next(agent for agent in world.living if agent is not world.master())
    world.kill(victim)
    world.run(2.0)
    world.restart(victim)
    world.run(3.0)
    fill(world, intervals=2, first=1002, seed=5)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(2.0)
    exact(world, world.master())
    assert all(record.state == "FINAL" for record, _ in world.results(world.master()))


def test_an_alive_straggler_is_waited_for() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    slow = world[2]
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + 2 * SLIDE)
    world.run(20.0)
    assert world.results(world[0]) == []
    described = world.ask(world[1], "describe", {"job": "shop/top"}).body
    assert described["collecting"]["missing"] == ["agent-2"]
    assert described["collecting"]["due_for_seconds"] >= 15
    slow.seal("clicks", BASE + 2 * SLIDE)
    world.run(1.0)
    exact(world, world[0])


def test_a_straggler_without_progress_is_given_up_at_the_horizon() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0])
    for number in (0, 1):
        world[number].seal("clicks", BASE + SLIDE)
    world.run(70.0)
    ((record, _),) = world.results(world[0])
    assert (record.state, record.missing) == ("FINAL_PARTIAL", ["agent-2"])


def test_on_straggler_skip_leaps_over_the_interval() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER SKIP"))
    for number in (0, 1):
        world[number].seal("clicks", BASE + SLIDE)
    world.run(5.0)
    ((record, rows),) = world.results(world[0])
    assert (record.state, rows, record.missing) == ("SKIPPED", [], ["agent-2"])


def test_labels_choose_the_agents() -> None:
    world = World()
    for number in range(4):
        world.add(number, labels={"role": "web" if number % 2 else "db"})
    world.run(1.0)
    fill(world, intervals=1)
    reply = world.apply(world[0], TEXT.replace("FROM clicks", "FROM clicks ON (role = 'web')"))
    assert reply.body["expected"] == 2
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    ((record, _),) = world.results(world[0])
    assert record.agents_expected == 2


def test_an_unknown_column_of_a_fixed_format_refuses_the_job_everywhere() -> None:
    world = World()
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("path", pa.string())])
    for number in range(3):
        world.add(number, streams={"clicks": schema})
    world.run(1.0)
    reply = world.apply(world[0])
    assert reply.status == 400
    assert reply.body["code"] == 65
    assert "product" in reply.body["error"]
    world.run(1.0)
    assert all(not agent.workers for agent in world.living)
    assert world.ask(world[1], "list").body["jobs"] == []


def test_a_job_without_agents_waits_for_the_first_one() -> None:
    world = World()
    for number in range(3):
        world.add(number, streams={})
    world.run(1.0)
    reply = world.apply(world[0])
    assert reply.status == 200
    assert (reply.body["acknowledged"], reply.body["expected"]) == (0, 0)
    assert "hint" in reply.body
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["state"] == "waiting for agents"
    late = world.add(9)
    late.feed("clicks", [(BASE, "apple")])
    world.run(3.0)
    late.seal("clicks", BASE + SLIDE)
    world.run(1.0)
    exact(world, world[0])


def test_pause_stops_intervals_and_resume_goes_on_without_a_loss() -> None:
    world = World(3)
    fill(world, intervals=4)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    reply = world.ask(world[1], "pause", {"job": "shop/top"})
    assert (reply.status, reply.body["state"], reply.body["acknowledged"]) == (200, "paused", 3)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(30.0)
    assert [record.index for record, _ in world.results(world[0])] == [1000]
    assert world.ask(world[2], "describe", {"job": "shop/top"}).body["state"] == "paused"
    assert world.ask(world[2], "resume", {"job": "shop/top"}).body["state"] == "running"
    world.run(1.0)
    exact(world, world[0])


def test_a_long_pause_gives_nobody_up() -> None:
    """Some had sealed an interval when the order to pause came, others had not."""
    world = World(3)
    fill(world, intervals=4)
    world.apply(world[0])
    for number in (0, 1):
        world[number].seal("clicks", BASE + 2 * SLIDE)
    world.run(1.0)
    assert world.ask(world[1], "pause", {"job": "shop/top"}).body["state"] == "paused"
    world.run(300.0)
    assert world.results(world[0]) == []
    assert world.ask(world[2], "resume", {"job": "shop/top"}).body["state"] == "running"
    world.run(3.0)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(1.0)
    exact(world, world[0])
    assert {record.state for record, _ in world.results(world[0])} == {"FINAL"}


def test_delete_stops_the_workers_and_nothing_brings_the_job_back() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    reply = world.ask(world[2], "delete", {"job": "shop/top"})
    assert (reply.status, reply.body["state"]) == (200, "deleted")
    world.run(40.0)
    assert all(not agent.workers and not agent.masters for agent in world.living)
    assert all(not agent.results for agent in world.living)
    assert world.ask(world[1], "describe", {"job": "shop/top"}).status == 404
    assert world.ask(world[1], "list").body["jobs"] == []


def test_a_deleted_job_can_be_applied_again_and_begins_anew() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    before = world.ask(world[0], "offsets", {"job": "shop/top"}).body["incarnation"]
    world.ask(world[0], "delete", {"job": "shop/top"})
    assert world.apply(world[1]).body["state"] == "new"
    world.run(1.0)
    assert world.ask(world[0], "offsets", {"job": "shop/top"}).body["incarnation"] != before
    exact(world, world[2])


def test_the_same_text_again_changes_nothing() -> None:
    world = World(3)
    world.apply(world[0])
    reply = world.apply(world[1], TEXT + "\n")
    assert (reply.body["state"], reply.body["version"], reply.body["acknowledged"]) == ("unchanged", 1, 3)


def test_another_text_begins_the_next_version_and_says_reset() -> None:
    world = World(3)
    fill(world, intervals=2)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    changed = TEXT.replace("GROUP BY", "WHERE product <> 'x' GROUP BY")
    assert world.apply(world[1], changed, dry_run=True).body["state"] == "reset"
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["version"] == 1
    reply = world.apply(world[1], changed)
    assert (reply.body["state"], reply.body["version"]) == ("reset", 2)
    assert reply.body["effective_interval"] == 1003
    fill(world, intervals=4, first=1002, seed=9)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(2.0)
    found = world.results(world[0])
    assert [record.index for record, _ in found] == [1003, 1004, 1005]
    assert {record.version for record, _ in found} == {2}
    expected = world.expected(SLIDE)
    assert all(rows == expected[record.index] for record, rows in found)


def test_a_text_that_arrives_while_another_begins_is_not_lost() -> None:
    world = World(3)
    world.apply(world[0])
    second = TEXT.replace("GROUP BY", "WHERE product <> 'x' GROUP BY")
    third = TEXT.replace("GROUP BY", "WHERE product <> 'y' GROUP BY")
    for token, text in ((901, second), (902, third), (903, third)):
        world.post(0.1 * (token - 900), world[1], ctl.ClientRequest(token, "apply", {"text": text}, 0))
    world.run(20.0)
    replies = [world[1].replies[token].body for token in (901, 902, 903)]
    assert [(body["state"], body["version"]) for body in replies] == [
        ("reset", 2),
        ("reset", 3),
        ("unchanged", 3),
    ]
    assert "<> 'y'" in world.ask(world[1], "describe", {"job": "shop/top"}).body["text"]


def test_wrong_text_is_refused_with_its_place() -> None:
    world = World(1)
    reply = world.apply(world[0], "CREATE JOB a.b EVERY '1 s' AS SELECT nope(x) FROM clicks")
    assert reply.status == 400
    assert reply.body["code"] == 65
    assert reply.body["line"] >= 1
    plain = world.apply(world[0], "SELECT count(*) FROM clicks")
    assert plain.status == 400
    assert "CREATE JOB" in plain.body["hint"]


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


def test_a_long_poll_ends_when_its_time_is_over() -> None:
    world = World(2)
    world.apply(world[0])
    reply = world.ask(world[1], "offsets", {"job": "shop/top", "after": -1, "wait": 2})
    assert reply.body["latest"] == reply.body["earliest"] - 1
    assert world.ask(world[1], "schema", {"job": "shop/top"}).status == 409


def test_an_unanswered_request_is_refused_in_time() -> None:
    world = World(3)
    world.apply(world[0])
    master = world.master()
    asker = next(agent for agent in world.living if agent is not master)
    world.lost = lambda source, target, message: source is master
    reply = world.ask(asker, "describe", {"job": "shop/top"}, within=15.0)
    assert (reply.status, reply.body["code"]) == (503, 69)


def test_the_same_seed_gives_the_same_trace() -> None:
    def run() -> list[tuple[float, str, str]]:
        world = World(5)
        fill(world, intervals=3)
        world.apply(world[0])
        world.seal_all(BASE + 3 * SLIDE)
        world.run(5.0)
        return world.trace

    assert run() == run()


def test_a_straggler_behind_a_barrier_is_found_and_leapt_over() -> None:
    world = World(4)
    world.barrier = True
    fill(world, intervals=2)
    world.apply(world[0], TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER SKIP"))
    for number in (0, 1, 3):
        world[number].seal("clicks", BASE + SLIDE)
    world.run(1.5)
    assert world.results(world[0]) == [], "nothing was said yet, the barrier holds"
    world.run(8.0)
    ((record, _),) = world.results(world[0])
    assert (record.state, record.missing, record.agents_in) == ("SKIPPED", ["agent-2"], 3)


def test_an_agent_that_died_behind_a_barrier_is_named() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0])
    world.barrier = True
    dead = next(agent for agent in world.living if agent is not world.master())
    world.kill(dead)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(8.0)
    for record, _ in world.results(world.living[0]):
        assert (record.state, record.missing) == ("FINAL_PARTIAL", [f"agent-{dead.number}"])


def test_contributions_that_cannot_be_merged_are_named_and_the_interval_closes() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0])
    master = world.master()
    job = next(iter(master.control.leadership.masters))
    entry = master.control.leadership.masters[job].book.active[0]
    dropped = PartsDropped(job, 1, 1000, 1001, bitmap_of(1 << entry.number), "column v0: string and int64")
    world.post(0.0, master, dropped)
    for agent in world.living:
        if agent.me.id != entry.contact.id:
            agent.seal("clicks", BASE + SLIDE)
    world.agents[entry.contact.id].seal("clicks", BASE)
    world.run(2.0)
    ((record, _),) = world.results(world[0])
    assert (record.state, record.missing) == ("FINAL_PARTIAL", [entry.name])
    errors = world.ask(world[1], "describe", {"job": "shop/top"}).body["errors"]
    assert any("string and int64" in error for error in errors)


def test_a_result_that_cannot_be_finalised_is_skipped_and_said() -> None:
    world = World(2)
    fill(world, intervals=1)
    world.apply(world[0])
    world.poison = True
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    ((record, _),) = world.results(world[0])
    assert record.state == "SKIPPED"
    assert world.ask(world[1], "describe", {"job": "shop/top"}).body["errors"]
