"""Voters whose votes rot away: what was decided stays decided, and other votes take their place."""

from __future__ import annotations

import random
from typing import Any, TypeVar

import pytest

from elfmesh import ids
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.lost_votes import KIND, Loss, encode_loss, found_loss
from elfmesh.machine import Event, Received
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.member.support import TEXT, Agent
from tests.control.partition import SplitWorld

JOB = ids.job_id("shop/top", "local")
W = TypeVar("W", bound=SplitWorld)
DELETED = ids.job_id("shop/gone", "local")
UPDATED = TEXT.replace("SELECT", "SELECT 2 AS two,", 1)


def rot(agent: Agent, *, all_of_it: bool = False) -> None:
    """What the state log gives the next boot of an agent whose file is damaged; that of a killed one."""
    for place in [place for place in agent.disk if all_of_it or place[0] == "vote"]:
        del agent.disk[place]
    loss = Loss(agent.incarnation + 1, "/data/state.log", "is damaged at byte 7")
    agent.disk[KIND, b""] = encode_loss(loss)


def voters(world: SplitWorld) -> list[Agent]:
    value = world.master().control.leadership.masters[JOB].term.committer.cell.value
    assert not value.former
    return [world.agents[contact.id] for contact in value.acceptors]


def running(agents: int = 3) -> SplitWorld:
    return begun(SplitWorld(agents))


def begun(world: W) -> W:
    """A job runs, and has closed its first intervals."""
    fill(world, intervals=40)
    assert world.apply(world[0]).status == 200
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    return world


def votes(agent: Agent, job: bytes = JOB) -> bool:
    return agent.control.leadership.registers.acceptors.vote(job).value is not None


def go_on(world: SplitWorld, intervals: int, seconds: float = 10.0) -> None:
    for agent in world.living:
        agent.seal("clicks", BASE + intervals * SLIDE)
    world.run(seconds)


def correct(world: SplitWorld, agent: Agent, intervals: int) -> None:
    """Each interval so far has one record, the same everywhere, and a complete one has all that was read."""
    expected, found = world.expected(SLIDE), world.results(agent, limit=100)
    assert [record.index for record, _ in found] == list(range(1000, 1000 + intervals))
    assert all(rows == expected[record.index] for record, rows in found if record.completeness == 1.0)
    assert list(world.terminal(JOB)) == [record.index for record, _ in found]


def health(world: SplitWorld, agent: Agent) -> dict[str, Any]:
    return dict(world.ask(agent, "health").body)


def an_update_and_a_delete_that_two_of_three_know() -> tuple[SplitWorld, Agent, Agent, Agent]:
    """One voter is away while a job is updated and another one deleted; then the two others are killed."""
    world = SplitWorld(3)
    fill(world, intervals=40)
    world.apply(world[0])
    world.apply(world[0], TEXT.replace("shop.top", "shop.gone"))
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    leads = {world.master(), world.master("shop/gone")}
    away = next(agent for agent in world.living if agent not in leads)
    world.kill(away)
    world.run(2.0)
    one, two = world.living
    assert world.ask(one, "apply", {"text": UPDATED, "job": "shop/top"}).body["version"] == 2
    assert world.ask(one, "delete", {"job": "shop/gone"}).body["state"] == "deleted"
    world.run(10.0)
    world.kill(one)
    world.kill(two)
    world.run(2.0)
    return world, one, two, away


def led(world: SplitWorld) -> dict[str, int]:
    """Version of each job that is led."""
    masters = [master for agent in world.living for master in agent.control.leadership.masters.values()]
    return {master.term.manifest.qualified: master.term.manifest.version for master in masters}


def test_a_deleted_job_and_an_old_version_stay_gone_when_a_voter_has_lost_its_votes() -> None:
    world, one, two, away = an_update_and_a_delete_that_two_of_three_know()
    rot(one, all_of_it=True)
    world.restart(one)
    world.restart(away)
    world.run(180.0)
    assert led(world) == {}, "of those that are there none knows what was decided"
    world.restart(two)
    world.run(120.0)
    assert led(world) == {"shop/top": 2}
    assert set(voters(world)) == {one, two, away}


def test_without_the_refusal_both_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acceptors, "_is_lost", lambda self, job: False)
    world, one, _, away = an_update_and_a_delete_that_two_of_three_know()
    rot(one, all_of_it=True)
    world.restart(one)
    world.restart(away)
    world.run(180.0)
    assert led(world) == {"shop/top": 1, "shop/gone": 1}


@pytest.mark.parametrize("all_of_it", [False, True], ids=["votes", "everything"])
def test_a_voter_that_has_lost_its_votes_is_replaced_at_once_and_votes_again_later(all_of_it: bool) -> None:
    world = running()
    victim = next(agent for agent in voters(world) if agent is not world.master())
    world.kill(victim)
    world.run(1.0)
    rot(victim, all_of_it=all_of_it)
    world.restart(victim)
    go_on(world, 4, 2.0)
    assert not votes(victim)
    reported = health(world, victim)
    assert reported["status"] == "degraded"
    assert "/data/state.log is damaged at byte 7" in reported["problem"]
    go_on(world, 6, 40.0)
    assert set(voters(world)) == set(world.living)
    assert votes(victim)
    assert health(world, victim)["status"] == "ok"
    assert not world.master().control.leadership.masters[JOB].proposer.lost
    others = [agent for agent in world.living if agent is not victim]
    world.kill(others[0])
    go_on(world, 8, 30.0)
    correct(world, victim, 8)


class SlowWorld(SplitWorld):
    """A world in which what one agent sends comes late."""

    slow: Agent | None = None

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        late = isinstance(event, Received) and self.slow is not None and event.sender == self.slow.me
        super().post(delay + 0.05 * late, agent, event)


def test_a_voter_that_comes_back_stays_although_the_others_answer_before_it() -> None:
    world = begun(SlowWorld(3))
    victim = next(agent for agent in voters(world) if agent is not world.master())
    world.kill(victim)
    world.run(1.0)
    rot(victim)
    world.restart(victim)
    world.slow = victim
    go_on(world, 6, 40.0)
    assert set(voters(world)) == set(world.living)
    assert world.master().control.context.stats["control.acceptors_changed"] == 2


def test_another_agent_takes_the_place_where_there_is_one() -> None:
    world = running(4)
    before = voters(world)
    (spare,) = [agent for agent in world.living if agent not in before]
    victim = next(agent for agent in before if agent is not world.master())
    world.kill(victim)
    world.run(1.0)
    rot(victim)
    world.restart(victim)
    go_on(world, 6, 20.0)
    assert spare in voters(world)
    assert victim not in voters(world)
    assert health(world, victim)["status"] == "degraded"  # a register may ask it yet
    world.run(120.0)
    assert health(world, victim)["status"] == "ok"


def test_a_master_that_has_lost_its_votes_has_itself_replaced() -> None:
    world = running()
    victim = world.master()
    world.kill(victim)
    world.run(3.0)
    rot(victim)
    world.restart(victim)
    go_on(world, 6, 60.0)
    assert set(voters(world)) == set(world.living)
    assert votes(victim)
    correct(world, victim, 6)


def test_why_and_describe_name_the_voter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.control.register.members.READY_S", 1e9)  # no agent comes in its place
    world = running(4)
    victim = next(agent for agent in voters(world) if agent is not world.master())
    world.kill(victim)
    world.run(1.0)
    rot(victim)
    world.restart(victim)
    go_on(world, 4)
    address = f"sim:{victim.number}"
    assert world.ask(world[0], "describe", {"job": "shop/top"}).body["voters_without_votes"] == [address]
    reported = world.ask(world[0], "why", {"job": "shop/top"}).body
    assert reported["voters_without_votes"] == [address]
    assert reported["because"].endswith(f"lost their votes, and are being replaced: {address}")


def test_without_a_majority_a_voter_that_has_lost_its_votes_does_not_make_one() -> None:
    world = running()
    victim, gone = (agent for agent in voters(world) if agent is not world.master())
    world.kill(victim)
    world.kill(gone)
    rot(victim)
    world.restart(victim)
    go_on(world, 6, 60.0)
    assert list(world.terminal(JOB)) == [1000, 1001]
    world.restart(gone)
    go_on(world, 6, 60.0)
    assert list(world.terminal(JOB)) == [1000, 1001, 1002, 1003, 1004, 1005]


def test_a_job_of_which_most_voters_have_lost_their_votes_waits_for_a_recovery() -> None:
    """An agent that is there and has lost its votes counts as one that does not answer."""
    world = running()
    victims = [agent for agent in voters(world) if agent is not world.master()]
    for victim in victims:
        world.kill(victim)
        rot(victim)
        world.restart(victim)
    go_on(world, 6, 60.0)
    assert list(world.terminal(JOB)) == [1000, 1001]
    (row,) = world.ask(victims[0], "list").body["jobs"]
    assert row["state"] == "no majority"
    reply = world.ask(world.master(), "recover", {"job": "shop/top", "accept_loss": True})
    assert (reply.status, reply.body["state"]) == (200, "recovered")
    go_on(world, 8, 60.0)
    assert set(voters(world)) == set(world.living)
    assert world.results(world.living[0])[-1][0].index == 1007


def test_a_register_of_one_waits_and_new_jobs_are_founded_all_the_same() -> None:
    world = running(1)
    world.kill(world[0])
    rot(world[0])
    world.restart(world[0])
    go_on(world, 6, 60.0)
    assert list(world.terminal(JOB)) == [1000, 1001]
    assert health(world, world[0])["status"] == "degraded"
    assert "shop/top" in health(world, world[0])["problem"]
    assert world.apply(world[0], TEXT.replace("shop.top", "shop.new")).status == 200
    world.kill(world[0])
    world.restart(world[0])
    world.run(10.0)
    assert led(world) == {"shop/new": 1}, "what it votes on since the loss it remembers"


def test_of_two_agents_the_other_one_votes_first() -> None:
    world = SplitWorld(2)
    new = ids.job_id("shop/top", "local")
    near = world.closest(new)[0]
    world.kill(near)
    rot(near)
    world.restart(near)
    world.run(2.0)
    assert world.apply(near).status == 200
    assert voters(world) == [agent for agent in world.living if agent is not near]


@pytest.mark.parametrize("seed", range(8))
def test_rot_kills_and_restarts_in_any_order_contradict_nothing(seed: int) -> None:
    """Every agent loses its votes some time, never two of a register at once."""
    rng = random.Random(seed)
    world = running(rng.choice([3, 3, 4, 5]))
    for round_ in range(4):
        victim = rng.choice(world.living)
        world.kill(victim)
        world.run(rng.uniform(0.0, 5.0))
        rot(victim, all_of_it=rng.random() < 0.3)
        world.restart(victim)
        go_on(world, 3 + 3 * round_, rng.uniform(1.0, 4.0))
        if rng.random() < 0.5:
            other = rng.choice([agent for agent in world.living if agent is not victim])
            world.kill(other)
            world.run(rng.uniform(0.0, 5.0))
            world.restart(other)
        go_on(world, 4 + 3 * round_, 60.0)
        assert all(votes(agent) for agent in voters(world))
    world.run(30.0)
    correct(world, world.living[0], 13)


def test_an_answer_that_another_agent_has_seen_proves_a_loss_if_it_is_newer_than_all_of_this_agent() -> None:
    assert found_loss(boot=3, votes=7, incarnation=3, count=7) is None
    older = found_loss(boot=3, votes=8, incarnation=3, count=7)
    twice = found_loss(boot=4, votes=0, incarnation=3, count=7)
    assert older is not None
    assert twice is not None
    assert (older.boot, twice.boot) == (4, 4), "until its next boot the agent is no acceptor"
    assert older.reason == "has gone back in time: 8 of its votes were seen, and it knows 7"
    assert twice.reason.startswith(
        "is an old copy, or one of two: an agent of this id has answered in start 4"
    )
