"""A reader of results who asks any agent that is up, and keeps every answer; and a stop-watch for masters."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path

from tests.chaos.process import Victim
from tests.chaos.verify import IDS, SUMS

PERIOD_S = 0.05
AGAIN = 30
"""Each so many looks, old results are read again from somebody: they must be what they were."""

BACK = 20


class Observer:
    """Reads on a thread of its own.

    Args:
        path: where every result that was read is written.
        alive: who can be asked.

    Attributes:
        fail_overs: seconds from the death of a master until another one answers for its job.
        last: newest terminal interval of each job that was read.
    """

    def __init__(self, path: Path, alive: Callable[[], list[Victim]], seed: int) -> None:
        self._path, self._alive, self._rng = path, alive, random.Random(seed)
        self.last: dict[str, int] = {}
        self.masters: dict[str, tuple[str, int]] = {}
        self.fail_overs: list[float] = []
        self.answers = 0
        self._deaths: dict[str, tuple[str, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def died(self, agent: str) -> None:
        """An agent was killed just now: if it is a master, the time until another one answers is taken."""
        for job, (master, _) in self.masters.items():
            if master == agent:
                self._deaths.setdefault(job, (agent, time.monotonic()))

    def _run(self) -> None:
        looks = 0
        with self._path.open("a") as history:
            while not self._stop.wait(PERIOD_S):
                agents = self._alive()
                if not agents:
                    continue
                looks += 1
                agent = self._rng.choice(agents)
                for job in (IDS, SUMS):
                    try:
                        self._master(agent, job)
                        if looks % 4 == 0:
                            self._read(agent, job, history.write, again=looks % AGAIN == 0)
                    except (AssertionError, OSError, urllib.error.URLError, ValueError):
                        continue  # it was killed meanwhile, or the job has no master just now

    def _master(self, agent: Victim, job: str) -> None:
        told = agent.get(f"/v1/jobs/{job}", timeout_s=2.0)
        self.answers += 1
        known = self.masters.get(job)
        if known is not None and told["epoch"] <= known[1]:
            return
        self.masters[job] = (told["master"], told["epoch"])
        death = self._deaths.pop(job, None)
        if death is not None:
            self.fail_overs.append(time.monotonic() - death[1])

    def _read(self, agent: Victim, job: str, write: Callable[[str], object], *, again: bool) -> None:
        newest = self.last.get(job)
        start = None if newest is None else newest + 1 - (BACK if again else 0)
        query = "limit=200" + ("" if start is None else f"&from={start}")
        for line in agent.ask("GET", f"/v1/jobs/{job}/results?{query}", timeout_s=3.0).splitlines():
            result = json.loads(line)
            write(line.decode() + "\n")
            index = result["interval"]["index"]
            self.last[job] = max(index, self.last.get(job, index))
