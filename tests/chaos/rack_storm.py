"""Whole racks of real agents killed at the same moment, for a while, and in the end one for good."""

from __future__ import annotations

import time
from pathlib import Path

from tests.chaos.process import Victim
from tests.chaos.storm import JOBS, SETTLE_S, Storm, Weather

STANDBY = "STANDBY '50 %' ACROSS rack LAG '100 ms'"
AGENTS, RACKS = 6, 3
LATER = 3
"""Intervals that close without the rack that is lost for good."""


def rack_weather(kills: int, seconds: float = float("inf")) -> Weather:
    """Some racks return before the windows that they were lost in close, and others after."""
    return Weather(
        agents=AGENTS,
        racks=RACKS,
        rack_kills=kills,
        pauses=0,
        seconds=seconds,
        every_s=1.5,
        down_s=(0.2, 5.0),
        rate=20.0,
        cuts=False,
        horizon_s=1.0,
        standby=STANDBY,
    )


class RackStorm(Storm):
    """A storm whose faults are lost racks; agents are also killed at fail points while they start.

    A rack is killed only while all agents are up, so that the voters, which are spread over the racks, keep
    their majority.
    """

    def __init__(self, directory: Path, seed: int, weather: Weather) -> None:
        super().__init__(directory, seed, weather)
        for agent in self.agents:
            agent.extra += ["--label", f"rack=r{agent.number % weather.racks}"]

    @property
    def _goes_on(self) -> bool:
        return self.toll.racks < self.weather.rack_kills

    def _strike(self, up: list[Victim]) -> None:
        if len(up) == len(self.agents):
            self._kill_rack(self._rng.randrange(self.weather.racks))

    def _kill_rack(self, rack: int) -> None:
        self.toll.racks += 1
        for agent in self.agents:
            if agent.number % self.weather.racks == rack:
                self._suffer("kill a rack", agent)

    def _after(self) -> None:
        """Kill a rack for good. The jobs go on, and state what they contain of it."""
        self._kill_rack(self._rng.randrange(self.weather.racks))
        for agent in self.agents:
            if agent not in self._up():
                agent.back_at = float("inf")
        due = int(time.time()) + LATER
        self._until(
            lambda: all(self._observer.last.get(job, 0) >= due for job in JOBS),
            SETTLE_S,
            f"interval {due} without a rack",
        )
