"""What is told of a job of which two of three voters are gone, and what of it can be read."""

from __future__ import annotations

from elfmesh import ids
from tests.control.member.support import TEXT, Agent
from tests.control.partition import SplitWorld
from tests.control.register.test_lost_votes import health, running, voters

JOB = ids.job_id("shop/top", "local")


def without_two(agents: int = 3, *, master: bool = True) -> tuple[SplitWorld, list[Agent]]:
    """A job two of whose voters are killed, its master among them or not."""
    world = running(agents)
    leads = world.master()
    others = [agent for agent in voters(world) if agent is not leads]
    gone = [leads, others[0]] if master else others
    for agent in gone:
        world.kill(agent)
    for agent in world.living:
        agent.seal("clicks", 10**18)
    world.run(45.0)
    return world, gone


def test_it_is_in_the_list_and_health_and_why_report_what_is_missing() -> None:
    world, gone = without_two()
    (left,) = world.living
    (row,) = world.ask(left, "list").body["jobs"]
    assert (row["job"], row["state"], row["latest"]) == ("shop/top", "no majority", 1000)
    reported = health(world, left)
    assert reported["status"] == "degraded"
    assert "no majority of the agents that vote on shop/top answers" in reported["problem"]
    why = world.ask(left, "why", {"job": "shop/top"}).body
    for agent in gone:
        assert f"sim:{agent.number} does not answer" in why["because"]
    assert f"sim:{left.number} answers" in why["because"]
    for verb in ("describe", "delete", "pause"):
        reply = world.ask(left, verb, {"job": "shop/top"})
        assert reply.status == 503
        assert "no majority of the agents that vote" in reply.body["error"]
    assert "no majority" in world.apply(left).body["error"]


def test_a_master_without_its_voters_reports_the_same() -> None:
    world, gone = without_two(master=False)
    (left,) = world.living
    because = world.ask(left, "why", {"job": "shop/top"}).body["because"]
    assert f"sim:{left.number} answers" in because
    assert all(f"sim:{agent.number} does not answer" in because for agent in gone)
    (row,) = world.ask(left, "list").body["jobs"]
    assert row["state"] == "no majority"
    assert "shop/top" in health(world, left)["problem"]


def test_results_are_read_from_a_copy() -> None:
    world, _ = without_two()
    (left,) = world.living
    assert [record.index for record, _ in world.results(left)] == [1000], "the last one is only voted on"
    assert world.ask(left, "offsets", {"job": "shop/top"}).body["latest"] == 1000


def test_results_are_read_from_the_copy_of_another_agent() -> None:
    world, gone = without_two(6)
    left = next(agent for agent in world.living if not agent.results.get(JOB))
    assert [record.index for record, _ in world.results(left)] == [1000]
    (row,) = world.ask(left, "list").body["jobs"]
    assert row["state"] == "no majority"
    for agent in gone:
        world.restart(agent)
    world.run(60.0)
    (row,) = world.ask(left, "list").body["jobs"]
    assert row["state"] == "running"
    assert all(health(world, agent)["status"] == "ok" for agent in world.living)


def test_a_master_that_dies_is_replaced_and_health_stays_ok() -> None:
    world = running()
    world.kill(world.master())
    seen = set()
    for _ in range(100):
        world.run(0.1)
        seen |= {health(world, agent)["status"] for agent in world.living}
    assert seen == {"ok"}
    assert world.apply(world.living[0], TEXT).status == 200
