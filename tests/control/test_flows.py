"""Results are the oracle's, from whichever agents there are and whichever is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT


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


def test_intervals_of_a_range_without_input_leave_no_record() -> None:
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


def test_the_same_seed_gives_the_same_trace() -> None:
    def run() -> list[tuple[float, str, str]]:
        world = World(5)
        fill(world, intervals=3)
        world.apply(world[0])
        world.seal_all(BASE + 3 * SLIDE)
        world.run(5.0)
        return world.trace

    assert run() == run()
