"""Masters killed or stopped on a quiet machine: how long until another one answers, and closes again.

    python -m tests.chaos.failover FILE [--kind killed|silent|skipped] [--agents N] [--seconds S]

Nothing else goes wrong meanwhile: what is measured is how long the product takes, with real processes and
sockets, at an interval of a second. Each run adds a line to FILE; `python -m tests.chaos` writes them into
docs/reliability.md. Masters are killed (SIGKILL: their connections break), or fall silent (SIGSTOP). With
`skipped`, an agent stops reading at the fail point inside sealing; its job skips stragglers, and what is
measured is what its master says of itself: from the deadline of an interval to the decision to leap over it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.observer import GONE
from tests.chaos.process import UP, Victim
from tests.chaos.proxy import Link
from tests.chaos.storm import JOBS, STEP_S, Storm, Weather
from tests.chaos.verify import IDS, verify

KILL, SILENCE, SKIP = "killed", "silent", "skipped"
ASK_S = 0.05
ASKERS = 64
TIMEOUT_S = 1.5
"""Of one question: a fresh one goes out each `ASK_S`, to another agent; the first that is answered counts."""

PATIENCE_S = 60.0
CALM_S = (3.0, 5.0)
"""Between two fail-overs: the killed one is there again, and who votes has caught up."""

SILENT_S = 8.0
"""How long a stopped master is away: when it wakes up, another one leads. Its job waits for it longer."""

LAN = Link(0.0005, 0.002)
DEADLINE_S = 1.0
SKIPS = 8
"""Intervals that one straggler is leapt over."""

SKIPPING = f"LATENESS '500 ms' DEADLINE '{DEADLINE_S:g} s' ON STRAGGLER SKIP"


@dataclass
class Times:
    """Seconds of one kind of event, of one run.

    Attributes:
        kind: KILL, SILENCE or SKIP.
        agents: how many.
        load: of the machine, over a minute, before and after.
        answers: from the end of a master until another one has answered for the job, asked at any agent.
        results: from the same moment until a result could be read that could not be before.
        decided: from a straggler's deadline until its master has decided to leap over it.
        wrong: what the verifier said.
    """

    kind: str
    agents: int
    load: tuple[float, ...] = ()
    answers: list[float] = field(default_factory=list)
    results: list[float] = field(default_factory=list)
    decided: list[float] = field(default_factory=list)
    wrong: dict[str, list[str]] = field(default_factory=dict)


class Bench(Storm):
    """A storm of one kind of weather."""

    def __init__(self, directory: Path, seed: int, agents: int, kind: str) -> None:
        weather = Weather(agents=agents, link=LAN, down_s=(0.5, 1.0), kills=0, cuts=False)
        super().__init__(directory, seed, weather)
        self._directory = directory
        self.times = Times(kind, agents)
        self._known: set[int] = set()
        self._askers = ThreadPoolExecutor(ASKERS, "asker")

    def measure(self, seconds: float) -> Times:
        """As many events as fit into so many seconds."""
        load = os.getloadavg()[0]
        if self.times.kind == SKIP:
            self.clauses = SKIPPING
        try:
            self._begin()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self._wait(self._rng.uniform(*CALM_S))
                if self.times.kind == SKIP:
                    self._skips()
                else:
                    self._one(self._rng.choice(tuple(JOBS)))
            self._settle()
        finally:
            self._askers.shutdown(cancel_futures=True)
            self._end()
        self.times.load = (round(load, 1), round(os.getloadavg()[0], 1))
        self.times.wrong = verify(self._directory).problems
        return self.times

    # -- fail-over -------------------------------------------------------------------------------------

    def _one(self, job: str) -> None:
        """End one master and wait for the next."""
        notified = self._described(job)
        master = next(agent for agent in self.agents if agent.name == notified["master"])
        asked = [agent for agent in self._up() if agent is not master]
        first = max(each["index"] for each in notified["results"]) + 1
        began = time.monotonic()
        if self.times.kind == KILL:
            self._suffer("kill a master", master)
        else:
            master.pause()
            master.back_at = began + SILENT_S
        answered: list[float] = []
        closed: list[float] = []
        while not (answered and closed):
            agent = self._rng.choice(asked)
            if not answered:
                self._askers.submit(ask_master, agent, job, notified["epoch"], answered)
            if not closed:
                self._askers.submit(ask_result, agent, job, first, closed)
            self._wait(ASK_S)
            what = "result" if answered else "new master"
            assert time.monotonic() < began + PATIENCE_S, f"no {what} of {job}"
        self.times.answers.append(round(min(answered) - began, 3))
        self.times.results.append(round(min(closed) - began, 3))
        self._until(lambda: len(self._up()) == len(self.agents), PATIENCE_S, "all agents again")

    def _described(self, job: str) -> dict[str, Any]:
        while True:
            with suppress(*GONE):
                notified: dict[str, Any] = self._rng.choice(self._up()).get(f"/v1/jobs/{job}", TIMEOUT_S)
                if notified["results"]:
                    return notified
            self._wait(STEP_S)

    # -- stragglers ------------------------------------------------------------------------------------

    def _skips(self) -> None:
        """An agent that is there and reads no more, for some intervals."""
        notified = self._described(IDS)
        straggler = self._rng.choice([agent for agent in self.agents if agent.name != notified["master"]])
        straggler.fall()
        straggler.rise(
            [agent.advertised for agent in self.agents if agent is not straggler][:3], "seal:6:hang"
        )
        before = len(self.times.decided)
        end = time.monotonic() + PATIENCE_S
        while len(self.times.decided) < before + SKIPS and time.monotonic() < end:
            self._wait(1.0)
            notified = self._described(IDS)
            skipped = {each["index"] for each in notified["results"] if each["state"] == "SKIPPED"}
            for each in notified["spent"]:
                if each["index"] in skipped and each["index"] not in self._known:
                    self._known.add(each["index"])
                    self.times.decided.append(round(each["gathering"] - DEADLINE_S, 4))
        straggler.fall()
        straggler.back_at = time.monotonic()
        self._until(lambda: straggler.state == UP, PATIENCE_S, "the straggler")


def ask_master(agent: Victim, job: str, epoch: int, answered: list[float]) -> None:
    """Note when an agent knows of a later master."""
    with suppress(*GONE):
        if not answered and agent.get(f"/v1/jobs/{job}", TIMEOUT_S)["epoch"] > epoch:
            answered.append(time.monotonic())


def ask_result(agent: Victim, job: str, first: int, closed: list[float]) -> None:
    """Note when an agent gives a result of this interval or a later one."""
    with suppress(*GONE):
        path = f"/v1/jobs/{job}/results?limit=1&from={first}"
        if not closed and agent.ask("GET", path, timeout_s=TIMEOUT_S).strip():
            closed.append(time.monotonic())


def quantiles(values: list[float]) -> str:
    """Median, 99th percentile and most, for people."""
    ordered = sorted(values)
    if not ordered:
        return "none"
    notified = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99)]
    return f"{notified[0]:.3g} s, {notified[1]:.3g} s of {len(ordered)}"


def main() -> int:
    """Measure; 1 if the verifier found something wrong."""
    arguments = argparse.ArgumentParser(prog="python -m tests.chaos.failover", description=__doc__)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--kind", choices=(KILL, SILENCE, SKIP), default=KILL)
    arguments.add_argument("--agents", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), options.seed, options.agents, options.kind)
        times = bench.measure(options.seconds)
    with options.file.open("a") as file:
        file.write(json.dumps(asdict(times)) + "\n")
    for name in ("answers", "results", "decided"):
        print(f"{times.kind} {name}: {quantiles(getattr(times, name))}; load {times.load}; {times.wrong}")
    return 1 if times.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
