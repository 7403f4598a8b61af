"""A real master of one job, in the harness, as the requests about the job see it."""

from __future__ import annotations

from typing import Any

import msgspec

from elfmesh import ids
from elfmesh.control.master.master import Master
from elfmesh.control.requests.describe import description, job_row
from elfmesh.control.requests.why import explanation
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

JOB = ids.job_id("shop/top", "local")


def shown(reply: msgspec.Struct) -> dict[str, Any]:
    """A reply with the names of its JSON."""
    found: dict[str, Any] = msgspec.to_builtins(reply)
    return found


class Led:
    """A job of three agents with two closed intervals, at its master."""

    def __init__(self, text: str = TEXT) -> None:
        self.world = World(3)
        fill(self.world, intervals=4)
        self.world.apply(self.world[0], text)
        self.world.seal_all(BASE + 2 * SLIDE)
        self.world.run(2.0)
        self.agent: Agent = self.world.master()
        self.context = self.agent.control.leadership._context
        self.master: Master = self.agent.control.leadership.masters[JOB]

    def late(self, seconds: float) -> Agent:
        """All agents but one seal a third interval, so long ago; that one."""
        late, *others = [agent for agent in self.world.living if agent is not self.agent]
        for agent in (self.agent, *others):
            agent.seal("clicks", BASE + 3 * SLIDE)
        self.world.run(seconds)
        return late

    def row(self) -> dict[str, Any]:
        return shown(job_row(self.context, self.master))

    def described(self) -> dict[str, Any]:
        return shown(description(self.context, self.master))

    def why(self) -> dict[str, Any]:
        return shown(explanation(self.context, self.master))
