"""Real agents on a bad network, killed and stopped again and again: what happens is drawn from a seed.

The storm only acts and counts; whether the results are right is the verifier's to say (verify.py), from the
raw logs and the results alone. All waiting is for conditions: on a slow machine a storm takes longer.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.chaos.clients import Clients
from tests.chaos.logs import Servers
from tests.chaos.observer import GONE, Observer
from tests.chaos.process import DOWN, START_S, STARTING, STOPPED, UP, Victim
from tests.chaos.proxy import FaultProxy, Link
from tests.chaos.verify import IDS, SETTLED_FILE, SUMS, in_buckets
from tests.e2e.fleet import eventually
from tests.e2e.zygote import Zygote
from tests.patience import PATIENCE_S

CLAUSES = "LATENESS '500 ms' DEADLINE '1 s' HORIZON '{horizon_s:g} s'"
JOBS = {
    IDS: """CREATE JOB chaos.ids {clauses} AS SELECT id, count(*) AS n
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), id""",
    SUMS: """CREATE JOB chaos.sums {clauses} PARTITIONS 2 AS
SELECT k, count(*) AS n, sum(v) AS s, min(v) AS lo, max(v) AS hi
FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k""",
}
FAIL_POINTS = (
    "seal",
    "frame.write",
    "frame.sync",
    "frame.synced",
    "storage.append",
    "storage.sync",
    "storage.replace",
    "storage.replaced",
    "activate",
    "results.append",
    "results.appended",
    "persist",
    "persisted",
    "send.SegmentUp",
    "sent.SegmentUp",
    "send.SegmentAck",
)
DECLARED_AHEAD_S = 5.0
"""Beyond the intervals by which a master declares a new member ahead."""

SEVERAL = 3
"""Agents that are killed at the same moment, at most: as many as vote on a job."""

STEP_S = 0.05
SETTLE_S = 300.0
SETTLED = 12
"""Records in a row that lack no agent and have nothing `expired`. They may all have waited for one agent. It
learns after seconds what was closed without it, and counts that in the next interval that it seals; the storm
waits for this too."""


@dataclass(frozen=True)
class Weather:
    """What a storm is made of.

    Attributes:
        agents: how many.
        kills: it goes on until so many processes were killed, by us or by a fail point,
        pauses: so many were stopped for a while, and a killed master has had a successor.
        pause_s: shortest and longest pause; most are near the shortest.
        seconds: no fault later than so long after the beginning, whatever was reached: it is verified.
        down_s: shortest and longest time until a killed one is started again.
        every_s: mean time between two acts.
        down_max: so many are down or starting at the same time, at most.
        rate: lines per second of each server.
        rotate_s: mean time between rotations.
        link: of all directions.
        cuts: cut off agents for a while, masters as well.
        horizon_s: of the jobs.
        racks: the agents are spread over so many, and whole racks are killed (`rack_storm`); 0: agents are.
        rack_kills: it goes on until so many racks were killed.
        standby: clause of the jobs.
        requests: the clients stop when the outcomes of so many of their requests are known.
    """

    agents: int = 6
    kills: int = 30
    pauses: int = 3
    pause_s: tuple[float, float] = (0.5, 3.0)
    seconds: float = float("inf")
    down_s: tuple[float, float] = (0.0, 1.5)
    every_s: float = 0.7
    down_max: int = 2
    rate: float = 30.0
    rotate_s: float = 4.0
    link: Link = field(default_factory=lambda: Link(0.001, 0.004, 0.01, 0.02))
    cuts: bool = True
    horizon_s: float = 10.0
    racks: int = 0
    rack_kills: int = 0
    standby: str = ""
    requests: int = 12


@dataclass
class Toll:
    """What a storm has done."""

    acts: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    racks: int = 0
    pauses: int = 0
    fail_overs_s: list[float] = field(default_factory=list)
    settled_s: float = 0.0
    seconds: float = 0.0
    written: int = 0
    rotations: int = 0
    network: dict[str, int] = field(default_factory=dict)
    deaths: list[str] = field(default_factory=list)


class Storm:
    """One storm in a directory.

    Args:
        directory: logs, data and history of the agents; read by the verifier afterwards.
        seed: of everything that is drawn.
        weather: what is drawn from.
    """

    def __init__(self, directory: Path, seed: int, weather: Weather) -> None:
        self._directory, self.weather, self.toll = directory, weather, Toll()
        self._rng = random.Random(seed)
        self._proxy = FaultProxy(seed)
        self._proxy.everywhere(weather.link)
        self._zygote = Zygote()
        self.agents = [
            Victim(directory / f"agent-{n}", n, self._proxy, self._zygote) for n in range(weather.agents)
        ]
        homes = {agent.name: agent.directory for agent in self.agents}
        self._servers = Servers(homes, rate=weather.rate, rotate_s=weather.rotate_s, seed=seed)
        self._observer = Observer(directory / "history.ndjson", self._up, seed)
        self._clients = Clients(directory, self._up, seed)
        self.clauses = f"{CLAUSES.format(horizon_s=weather.horizon_s)} {weather.standby}".strip()
        self._healed_at: float | None = None
        self._begun = False
        self._settled: dict[str, int] = {}

    def run(self) -> Toll:
        """From the first agent to the last result; leaves no process behind."""
        began = time.monotonic()
        try:
            self._begin()
            end = began + self.weather.seconds
            while self._goes_on and time.monotonic() < end:
                self._act()
                self._wait(self._rng.expovariate(1 / self.weather.every_s))
            self._settle()
            self._after()
        finally:
            self._end()
        self.toll.seconds = time.monotonic() - began
        return self.toll

    @property
    def _goes_on(self) -> bool:
        enough = self.toll.kills >= self.weather.kills and self.toll.pauses >= self.weather.pauses
        return not (enough and self._observer.fail_overs)

    def _after(self) -> None:
        """What happens when all is settled: nothing more."""

    # -- before and after ------------------------------------------------------------------------------

    def _begin(self) -> None:
        for agent in self.agents:
            agent.rise([self.agents[0].advertised] if agent.number else [])
            if not agent.number:
                self._until(lambda: not self._starting(), START_S, "the first agent")
        self._until(lambda: len(self._up()) == len(self.agents), START_S, "all agents")
        for text in JOBS.values():
            self._until(partial(self._applied, text.format(clauses=self.clauses)), START_S, "a job")
        # Who had no place in the stream's tree yet is a member from an interval on that the master declares.
        self._until(self._all_members, START_S, "all agents as members")
        self._wait(DECLARED_AHEAD_S)
        self._servers.start()
        self._observer.start()
        self._until(lambda: set(self._observer.last) == set(JOBS), START_S, "first results")
        self._clients.start()
        self._begun = True

    def _applied(self, text: str) -> bool:
        """Whether a job is there; who has just come may be refused, and is to ask again."""
        try:
            self.agents[0].apply(text)
        except AssertionError as error:
            if ": 503 " not in str(error):
                raise
            return False
        return True

    def _all_members(self) -> bool:
        try:
            notified = [self.agents[0].get(f"/v1/jobs/{job}") for job in JOBS]
        except GONE:  # a machine that is busy: asked again
            return False
        return all(len(each["roster"]["agents"]) == len(self.agents) for each in notified)

    def _settle(self) -> None:
        """No more faults: whatever is due must close."""
        self._proxy.heal()
        self._proxy.everywhere(Link())
        for agent in self.agents:
            if agent.state == STOPPED:
                agent.go_on()
        self._until(lambda: len(self._up()) == len(self.agents), START_S, "all agents again")
        self._until(lambda: self._clients.known >= self.weather.requests, SETTLE_S, "the clients' outcomes")
        self._clients.stop()
        began, due = time.monotonic(), int(time.time())
        self._until(
            lambda: all(self._observer.last.get(job, 0) >= due for job in JOBS), SETTLE_S, f"interval {due}"
        )
        self.toll.settled_s = time.monotonic() - began
        self._until(
            lambda: all(self._observer.settled[job] >= SETTLED for job in JOBS), SETTLE_S, "all to be counted"
        )
        with suppress(AssertionError):  # the verifier names what is in no bucket
            self._until(self._is_in_buckets, SETTLE_S, "each record to be in a bucket")
        (self._directory / SETTLED_FILE).write_text(json.dumps(self._settled))

    def _is_in_buckets(self) -> bool:
        """Whether each record up to the newest interval is in a bucket; notes which interval that is."""
        newest = {job: self._observer.last[job] for job in JOBS}
        if newest == self._settled:
            return False
        self._settled, records = newest, self._observer.records
        return all(in_buckets(self._directory, job, newest[job], dict(records[job])) for job in JOBS)

    def _end(self) -> None:
        self._servers.stop()
        self._clients.stop()
        self._observer.stop()
        for agent in self.agents:
            if agent.process is not None and agent.state != DOWN:
                agent.go_on()
                agent.process.terminate()
        for agent in self.agents:
            if agent.process is not None and agent.state != DOWN:
                try:
                    agent.process.wait(PATIENCE_S)
                finally:
                    agent.fall()
        self._proxy.close()
        self._zygote.close()
        toll = self.toll
        toll.fail_overs_s = self._observer.fail_overs
        toll.written, toll.rotations = self._servers.written, self._servers.rotations
        toll.network = dict(self._proxy.counters)

    # -- faults ----------------------------------------------------------------------------------------

    def _act(self) -> None:
        """One fault, if an agent is left to suffer it."""
        up = self._up()
        starting = [agent for agent in self.agents if agent.state == STARTING]
        if starting and self._rng.random() < 0.08:
            self._suffer("kill at start", self._rng.choice(starting))
            return
        if len(self.agents) - len(up) >= self.weather.down_max or not up:
            return
        self._strike(up)

    def _strike(self, up: list[Victim]) -> None:
        acts = ["kill"] * 4 + ["kill a master"] * 4 + ["kill several"] * 2 + ["reset", "half open", "slow"]
        if self.toll.pauses < self.weather.pauses:
            acts += ["pause"] * 2
        if self.weather.cuts and self._healed_at is None:
            acts += ["cut", "cut one way"]
        act = self._rng.choice(acts)
        victim = self._rng.choice(up)
        if act == "kill a master":
            leading = [agent for agent in up if agent.name in self._masters()]
            victim = self._rng.choice(leading) if leading else victim
        room = self.weather.down_max - (len(self.agents) - len(up))
        several = (
            self._rng.sample(up, min(len(up), max(1, room), SEVERAL)) if act == "kill several" else [victim]
        )
        for each in several:
            self._suffer(act, each)

    def _suffer(self, act: str, victim: Victim) -> None:
        self.toll.acts[act] += 1
        others = [agent.name for agent in self.agents if agent is not victim]
        if act.startswith("kill"):
            self._observer.died(victim.name)
            victim.fall()
            self._fallen(victim)
        elif act == "pause":
            self.toll.pauses += 1
            victim.pause()
            shortest, longest = self.weather.pause_s
            victim.back_at = time.monotonic() + shortest * (longest / shortest) ** self._rng.random()
        elif act == "reset":
            self._proxy.reset(victim.name)
        elif act == "half open":
            self._proxy.half_open(victim.name)
        elif act == "slow":
            for other in others:
                self._proxy.between(victim.name, other, delay_s=self._rng.uniform(0.02, 0.3))
            self._healed_at = self._healed_at or time.monotonic() + self._rng.uniform(1, 4)
        else:
            self._proxy.isolate([victim.name], others, both=act == "cut")
            self._healed_at = time.monotonic() + self._rng.uniform(0.5, 4)

    def _fallen(self, victim: Victim) -> None:
        self.toll.kills += 1
        victim.back_at = time.monotonic() + self._rng.uniform(*self.weather.down_s)

    def _masters(self) -> set[str]:
        return {name for name, _ in self._observer.masters.values()}

    def _starting(self) -> int:
        return sum(agent.state == STARTING for agent in self.agents)

    def _up(self) -> list[Victim]:
        return [agent for agent in self.agents if agent.state == UP]

    # -- time ------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self._look()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(STEP_S, left))

    def _until(self, condition: object, timeout_s: float, what: str) -> None:
        assert callable(condition)

        def there() -> bool:
            self._look()
            return bool(condition())

        eventually(there, timeout_s, what)

    def _look(self) -> None:
        """What has happened by itself, and what is due."""
        now = time.monotonic()
        if self._healed_at is not None and now >= self._healed_at:
            self._healed_at = None
            self._proxy.heal()
        for agent in self.agents:
            if agent.process is None:
                continue
            code = agent.look() if agent.state in (UP, STARTING) else None
            if code is not None:
                self._ended(agent, code)
            elif agent.state == STOPPED and now >= agent.back_at:
                agent.go_on()
            elif agent.state == DOWN and now >= agent.back_at:
                self._raise(agent)

    def _ended(self, agent: Victim, code: int) -> None:
        if agent.armed and code == -9:
            self._observer.died(agent.name)
            self.toll.acts[f"at {agent.armed.split(':')[0]}"] += 1
        else:
            self.toll.deaths.append(f"{agent.name} ended with {code}:\n{agent.errors()[-3000:]}")
            assert self._begun, f"before the storm: {self.toll.deaths[-1]}"
        self._fallen(agent)

    def _raise(self, agent: Victim) -> None:
        """Start it again, one time in three with a place at which it dies."""
        others = [other.advertised for other in self._up() if other is not agent] or [
            other.advertised for other in self.agents if other is not agent
        ]
        point = ""
        if self._rng.random() < 0.35 and self.toll.kills < self.weather.kills:
            point = f"{self._rng.choice(FAIL_POINTS)}:{self._rng.choice((1, 1, 2, 3, 5, 8, 20))}"
        agent.rise(self._rng.sample(others, min(3, len(others))), point)
