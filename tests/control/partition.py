"""The harness with partitions and pauses: what is cut off or stopped neither hears nor is heard.

Each side of a partition has its own roots, look-ups and probes, as it would have once its overlay has
noticed. A paused agent is taken for dead by the others; what was sent to it waits until it wakes up.
"""

from __future__ import annotations

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.machine import Effect, Event, Received
from elfmesh.overlay import events as ov
from elfmesh.srt import events as srt
from tests.control.harness import DETECT_S, HOP_S, World
from tests.control.member.support import Agent

AS_ROOT = (srt.Publish, srt.Recollect, srt.Hasten)
"""Orders that an agent drops whose forest has learned already that it is not the root any more."""


class SplitWorld(World):
    """A world that can fall apart."""

    def __init__(self, agents: int = 0) -> None:
        self._side: int | None = None
        self._sides: dict[bytes, int] = {}
        self._roots: dict[int | None, dict[bytes, bytes]] = {}
        self._asleep: dict[bytes, list[Event]] = {}
        super().__init__(agents)

    @property
    def roots(self) -> dict[bytes, bytes]:
        return self._roots.setdefault(self._side, {})

    @roots.setter
    def roots(self, value: dict[bytes, bytes]) -> None:
        self._roots[self._side] = value

    @property
    def living(self) -> list[Agent]:
        return [
            agent
            for agent in self.agents.values()
            if agent.alive and agent.me.id not in self._asleep and self._reaches(agent)
        ]

    def _reaches(self, agent: Agent) -> bool:
        return self._side is None or self._sides[agent.me.id] == self._side

    def split(self, minority: list[Agent]) -> None:
        """Cut these agents off from the others."""
        cut = {agent.me.id for agent in minority}
        common = dict(self.roots)
        self._sides = {agent: int(agent in cut) for agent in self.agents}
        for agent in self.living:
            for other in self.living:
                if self._sides[agent.me.id] != self._sides[other.me.id]:
                    self.post(DETECT_S, agent, ov.PeerDown(other.me.id))
        for side in (0, 1):
            self._side = side
            self.roots.update(common)
            self._elect()
        self._side = None

    def heal(self) -> None:
        """One world again; of two roots of a tree the closer one stays."""
        rivals = [self._roots.pop(side, {}) for side in (0, 1)]
        self._sides = {}
        for tree, members in self.subscribed.items():
            best = self.closest(tree)[0].me.id if members else None
            old = {roots[tree] for roots in rivals if tree in roots}
            for root in sorted(old - {best}):
                self.post(0.0, self.agents[root], srt.LostRoot(tree))
            if best is None:
                self.roots.pop(tree, None)
                continue
            self.roots[tree] = best
            if best not in old:
                self.post(HOP_S, self.agents[best], srt.BecameRoot(tree))

    def pause(self, agent: Agent) -> None:
        """Stop an agent in mid-sentence; the others find it dead."""
        self._asleep[agent.me.id] = []
        for other in self.living:
            self.post(DETECT_S, other, ov.PeerDown(agent.me.id))
        self._later_elect = self.now + DETECT_S

    def wake(self, agent: Agent, *, deaf: bool = False) -> None:
        """It goes on where it was, hears what was sent to it unless it is deaf, and learns of its roots."""
        for event in self._asleep.pop(agent.me.id):
            if not deaf or not isinstance(event, Received | srt.Delivered | srt.LostRoot):
                self.post(0.0, agent, event)
        self._later_elect = self.now + DETECT_S

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        if agent.me.id in self._asleep:
            self._asleep[agent.me.id].append(event)
        elif self._reaches(agent):
            super().post(delay, agent, event)

    def _step(self, agent: Agent, event: Event) -> None:
        if agent.me.id in self._asleep:
            self._asleep[agent.me.id].append(event)
            return
        self._side = self._sides.get(agent.me.id)
        super()._step(agent, event)
        self._side = None

    def _carry_out(self, agent: Agent, effect: Effect) -> None:
        if isinstance(effect, ov.Probe):
            target = self.agents.get(effect.contact.id)
            alive = target in self.living
            self.post(HOP_S, agent, ov.ProbeDone(effect.token, effect.contact, alive))
        elif not isinstance(effect, AS_ROOT) or self.roots.get(effect.tree) == agent.me.id:
            super()._carry_out(agent, effect)

    def terminal(self, job: bytes) -> dict[int, ResultRecord]:
        """All terminal records in any log of any agent, of which there is one per interval at most (I2)."""
        found: dict[int, tuple[ResultRecord, bytes]] = {}
        for agent in self.agents.values():
            _, records = agent.results.get(job, ("", []))
            for record, rows in records:
                assert found.setdefault(record.index, (record, rows)) == (record, rows), "two records"
        return {index: found[index][0] for index in sorted(found)}
