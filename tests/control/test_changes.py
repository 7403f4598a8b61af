"""What happens to a job that is applied again, changed, paused or deleted."""

from __future__ import annotations

from elfmesh.control import events as ctl
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.members import TEXT


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
