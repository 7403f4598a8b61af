"""Files of a simulated agent that rot, while it runs and while it does not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.sim.swarm.host import Host


class Rotting:
    """Flips bits in the files of one agent: the others have every record."""

    def __init__(self, swarm: Any, rng: random.Random) -> None:
        self.swarm, self.rng = swarm, rng
        self._victim: Host | None = None

    async def results(self) -> None:
        """A bit of the results of one agent, always the same one: the others have every record."""
        running = self.swarm.running()
        if len(running) < len(self.swarm.hosts):
            return
        if self._victim is None:
            master = self.swarm.master()
            self._victim = (
                master if master is not None and self.rng.random() < 0.5 else self.rng.choice(running)
            )
        victim, prefix = self._victim, f"/{self._victim.folder}/data/"
        found = sorted(path for path in victim.disk.below(f"{prefix}results") if path.endswith(".seg"))
        found = [path for path in found if victim.disk.names[path].data]
        if not found:
            return
        down = self.rng.random() < 0.5
        if down:
            self.swarm.say(f"kill {victim.name}")
            victim.wanted = False
            victim.kill()
        path = self.rng.choice(found)
        at = self.rng.randrange(8 * len(victim.disk.names[path].data))
        self.swarm.say(f"bit {at} of {path.removeprefix(prefix)} at {victim.name} flips")
        victim.disk.flip(path, at)
        if down:
            await asyncio.sleep(self.rng.uniform(0.0, 3.0))
            victim.wanted = True
            victim.ensure()
