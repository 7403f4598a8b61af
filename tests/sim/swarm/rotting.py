"""Files of a simulated agent that rot, or go back in time, while it runs and while it does not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from elfmesh.control.register.lost_votes import DIRECTORY
from elfmesh.storage.identity import IDENTITY_FILE
from elfmesh.storage.statelog import NAME as STATE
from tests.sim.swarm.host import Host

NOTICED_S = 15.0
"""How long a voter that went back in time is asked for votes before it is looked at."""


class Rotting:
    """Changes files of one agent at a time: the others have what it has lost."""

    def __init__(self, swarm: Any, rng: random.Random) -> None:
        self.swarm, self.rng = swarm, rng
        self._victim: Host | None = None
        self._back = False

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

    async def goes_back(self) -> None:
        """What a voter remembers goes back, within seconds, to what it was before its last start.

        The start that follows has the number of the forgotten one. The master has seen the votes of that one.
        """
        master, voters = self.swarm.master(), self.swarm.voters()
        rest = [host for host in self.swarm.running() if host.id in voters and host is not master]
        if self._back or master is None or not rest:
            return
        self._back, victim = True, self.rng.choice(rest)
        paths = [f"/{victim.folder}/data/{name}" for name in (IDENTITY_FILE, STATE)]
        victim.kill()
        saved = {path: bytes(victim.disk.names[path].data) for path in paths}
        self.swarm.say(f"{victim.name} is copied, and started")
        victim.ensure()
        await asyncio.sleep(self.rng.uniform(6.0, 30.0))
        voted = victim.local is not None and victim.local.control.leadership.registers.acceptors.count
        victim.kill()
        for path, content in saved.items():
            victim.disk.put(path, content)
        self.swarm.say(f"{victim.name} goes back in time")
        self.swarm.history.lost_state[victim.name] = "it went back in time"
        victim.ensure()
        acceptors = victim.local.control.leadership.registers.acceptors
        lacks = acceptors.count < voted
        if lacks:
            self.swarm.history.forgot[victim.id] = self.swarm.history.now()
        await asyncio.sleep(NOTICED_S)
        loss = acceptors.lost.loss
        if lacks and (loss is None or loss.path != DIRECTORY):
            self.swarm.history.unnoticed.append(f"{victim.name} went back in time and votes on")
        victim.kill()
        victim.ensure()
        self._back = False
