"""With a majority of the acceptors alive and connected an agent leads soon, whichever it is (I12)."""

from __future__ import annotations

import random

import pytest

from elfmesh import ids
from elfmesh.machine import Message
from tests.control.member.support import Agent, agent_id
from tests.control.partition import SplitWorld
from tests.control.register.test_register_flows import JOB, acceptors, running, seal

LEADS_S = 40.0
"""Virtual time until an agent leads: silent sources, lost rounds and an attempt that is given up."""


class Storm:
    """Splits, deaths, restarts from disk, pauses and lost messages; then calm, with one voter gone."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = running(self.rng.randint(3, 6), 14)
        self.voting = acceptors(self.world)
        self.loss, losses = 0.0, random.Random(seed + 1)
        self.world.lost = lambda source, target, message: (
            self.loss > 0 and source is not target and losses.random() < self.loss
        )
        self.asleep: list[Agent] = []
        self.dead: list[Agent] = []

    def blow(self) -> None:
        for step in range(3, 9):
            self.loss = self.rng.choice([0.0, 0.0, 0.1, 0.4])
            seal(self.world, step)
            self.world.run(self.rng.choice([0.0, 0.001, 0.002, 0.003, 0.005, 0.3, 3.0]))
            for _ in range(self.rng.randrange(3)):
                self._fault(self.rng.choice(["split", "heal", "kill", "restart", "pause", "wake"]))
                self.world.run(self.rng.choice([0.0, 0.001, 0.002, 0.004, 0.6, 1.0, 4.0, 12.0]))

    def _fault(self, kind: str) -> None:
        world, several = self.world, len(self.world.living) > 1
        if world._sides:
            if kind == "heal":
                world.heal()
        elif kind == "split" and several and not self.asleep and not self.dead:
            world.split(self.rng.sample(world.living, 1))
        elif kind == "kill" and several:
            self.dead.append(self.rng.choice(world.living))
            world.kill(self.dead[-1])
        elif kind == "restart" and self.dead:
            world.restart(self.dead.pop(self.rng.randrange(len(self.dead))))
        elif kind == "pause" and several:
            self.asleep.append(self.rng.choice(world.living))
            world.pause(self.asleep[-1])
        elif kind == "wake" and self.asleep:
            world.wake(self.asleep.pop(self.rng.randrange(len(self.asleep))))

    def calm(self) -> None:
        """One voter at most stays away."""
        self.loss = 0.0
        if self.world._sides:
            self.world.heal()
        for agent in self.asleep:
            self.world.wake(agent)
        self.world.run(0.1)
        down = [agent for agent in self.dead if agent in self.voting]
        for agent in down[1:]:
            self.world.restart(agent)
        if not down:
            self.world.kill(self.rng.choice(self.voting))


@pytest.mark.parametrize("seed", range(100))
def test_after_any_storm_an_agent_leads_without_one_of_the_voters(seed: int) -> None:
    storm = Storm(seed)
    storm.blow()
    storm.calm()
    world = storm.world
    world.run(LEADS_S)
    world.master()
    seal(world, 14)
    world.run(60.0)
    records = world.terminal(JOB)
    assert list(records) == list(range(1000, 1014))
    epochs = [record.epoch for record in records.values()]
    assert epochs == sorted(epochs)


def newcomer(world: SplitWorld) -> int:
    """The number of an agent that is closer to the job than all others."""
    best = ids.distance(world.closest(JOB)[0].me.id, JOB)
    return next(number for number in range(100, 10_000) if ids.distance(agent_id(number), JOB) < best)


def test_two_of_three_acceptors_that_are_behind_fetch_from_the_third() -> None:
    """Who wants to lead has no record either."""
    world = running(5, 8)
    old = world.master()
    second, third = (agent for agent in acceptors(world) if agent is not old)
    sick: list[Agent] = [third]

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        """Who is sick does not hear the old master unless it has asked it."""
        name = type(message).__name__
        return source is old and target in sick and name in ("Accept", "Prepare", "Replica")

    world.lost = lost
    seal(world, 3)
    world.run(0.5)
    sick.append(second)
    seal(world, 4)
    world.run(0.5)
    held = {agent: agent.control.leadership.held(JOB)[1] for agent in (second, third)}
    votes = old.control.leadership.registers.acceptors.vote(JOB)
    assert votes.value is not None
    before = votes.value.value.before
    assert before == 1002
    assert all(copy is not None and not copy.reaches(before) for copy in held.values()), "both are behind"
    world.kill(old)
    successor = world.add(newcomer(world), streams={})
    world.restart(old)
    world.run(LEADS_S)
    assert world.master() is successor
    seal(world, 8)
    world.run(20.0)
    assert list(world.terminal(JOB)) == list(range(1000, 1008))
