"""A fleet whose agents post to an ordered topic; spools are lists, the control machines are the real ones."""

from __future__ import annotations

import random

from elfmesh import ids
from elfmesh.control.protocol.events import PostsRead, ReadPosts, StopPosts
from elfmesh.control.protocol.messages_order import Ordered, OrderPosts, Post
from elfmesh.machine import Effect, Message
from elfmesh.srt.events import Publish
from tests.control.harness import World
from tests.control.member.support import Agent

TEXT = "CREATE TOPIC ads.clicks DELIVERY ORDERED"
JOB = ids.job_id("ads/clicks", "local")
CHUNK = 3
BASE_US = 1_700_000_000_000_000

Name = tuple[str, str, int]


class TopicWorld(World):
    """Agents with the stream `clicks`, into which programs post.

    Attributes:
        spools: what is posted at each agent; durable.
        seen: sequences that readers have read so far.
    """

    def __init__(self, agents: int, seed: int = 0) -> None:
        self.spools: dict[int, list[Post]] = {number: [] for number in range(agents)}
        self._at: dict[tuple[int, int, str], int] = {}
        self._wanted: dict[tuple[int, int, str], ReadPosts] = {}
        self.rng = random.Random(seed)
        self.seen: list[list[Name]] = []
        super().__init__(agents)

    def _host_effect(self, agent: Agent, effect: Effect) -> None:
        match effect:
            case ReadPosts():
                key = (agent.number, agent.incarnation, effect.incarnation)
                self._at.setdefault(key, int(effect.restart or b"0"))
                self._wanted[key] = effect
                self._deliver(agent)
            case StopPosts():
                for key in [each for each in self._wanted if each[0] == agent.number]:
                    del self._wanted[key]
            case _:
                super()._host_effect(agent, effect)

    def _publish(self, agent: Agent, effect: Publish) -> None:
        """Drop the multicast of an agent that has not heard yet that it is the root no more."""
        if self.roots[effect.tree] == agent.me.id:
            super()._publish(agent, effect)

    def _deliver(self, agent: Agent) -> None:
        spool = self.spools[agent.number]
        for key in [each for each in self._wanted if each[:2] == (agent.number, agent.incarnation)]:
            at = self._at[key]
            posts = tuple(spool[at : at + CHUNK])
            if posts:
                effect, self._at[key] = self._wanted.pop(key), at + len(posts)
                restart = str(self._at[key]).encode()
                self.post(0.001, agent, PostsRead(effect.job, effect.incarnation, posts, restart))

    def publish(self, number: int, producer: str, count: int = 1) -> None:
        """Posts at one agent, whether it runs or not: the spool is there."""
        spool = self.spools[number]
        for _ in range(count):
            position = sum(each.producer == producer for each in spool)
            at_us = BASE_US + round(self.now * 1e6)
            spool.append(Post(producer, position, at_us, f'"{number}/{producer}/{position}"'))
        if self[number].alive:
            self._deliver(self[number])

    def lose(self, chance: float) -> None:
        """Lose orders and confirmations, and let copies of orders come later."""

        def lost(source: Agent, target: Agent, message: Message) -> bool:
            return isinstance(message, OrderPosts | Ordered) and self.rng.random() < chance

        self.lost = lost

    def sequence(self, reader: Agent) -> list[Name]:
        """What a subscriber at an agent reads: agent, producer and position of each post, in its order."""
        reply = self.results(reader, "ads/clicks")
        assert [record.index for record, _ in reply] == sorted({record.index for record, _ in reply})
        return [(row["agent"], row["producer"], row["position"]) for _, rows in reply for row in rows]

    def look(self, reader: Agent) -> None:
        self.seen.append(self.sequence(reader))

    @property
    def posted(self) -> set[Name]:
        return {
            (f"agent-{number}", each.producer, each.position)
            for number, spool in self.spools.items()
            for each in spool
        }

    def check(self) -> list[Name]:
        """Each post is in the order once, in the order of its producer, and all readers see one order."""
        final = self.sequence(self.living[0])
        assert len(final) == len(set(final)), "a post is in the order twice"
        assert set(final) == self.posted, "a post is lost"
        for producer in {each[:2] for each in final}:
            positions = [position for *name, position in final if tuple(name) == producer]
            assert positions == sorted(positions), "the posts of a producer are out of order"
        for seen in (*self.seen, *(self.sequence(each) for each in self.living)):
            assert seen == final[: len(seen)], "two readers see different orders"
        return final


def storm(seed: int = 0, kills: int = 4) -> None:
    """Kill and restart publishers' agents and masters while messages are lost and programs post."""
    world = TopicWorld(5, seed)
    assert world.apply(world[0], TEXT).status == 200
    world.run(1.0)
    world.lose(0.2)
    rng = random.Random(f"storm/{seed}")
    for number in range(kills):
        for _ in range(rng.randrange(1, 6)):
            world.publish(rng.randrange(5), rng.choice("ab"), rng.randrange(1, 4))
            world.run(rng.choice((0.001, 0.002, 0.003, 0.01, 0.2)))
        victim = world.master("ads/clicks") if number % 2 else world[rng.randrange(5)]
        world.kill(victim)
        world.run(rng.choice((0.5, 2.0, 20.0)))
        world.restart(victim)
        world.run(rng.choice((0.01, 1.0, 10.0)))
        if rng.random() < 0.5:
            world.look(rng.choice(world.living))
    world.lose(0.0)
    world.run(60.0)
    world.check()
