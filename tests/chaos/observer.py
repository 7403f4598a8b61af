"""A reader of results who asks any agent that is up, and keeps every answer; and a stop-watch for masters."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos.process import Victim
from tests.chaos.verify import IDS, SUMS

PERIOD_S = 0.1
AGAIN = 32
"""Each so many looks, old results are read again from some agent: they must be what they were."""

BACK = 20
ASKERS = 24
GONE = (AssertionError, OSError, urllib.error.URLError, ValueError, http.client.HTTPException)
"""Who was asked has been killed meanwhile, or the job has no master just now."""


class Observer:
    """Reads on a thread of its own.

    Args:
        path: where every result that was read is written.
        alive: who can be asked.

    Attributes:
        fail_overs: seconds from the death of a master until another one answers for its job.
        last: newest terminal interval of each job that was read.
        records: the terminal records of each job that were read, by interval.
        settled: how many of the newest records of each job in a row lack no agent and have nothing `expired`.
    """

    def __init__(self, path: Path, alive: Callable[[], list[Victim]], seed: int) -> None:
        self._path, self._alive, self._rng = path, alive, random.Random(seed)
        self.last: dict[str, int] = {}
        self.records: dict[str, dict[int, dict[str, Any]]] = {IDS: {}, SUMS: {}}
        self.settled: Counter[str] = Counter()
        self.masters: dict[str, tuple[str, int]] = {}
        self.fail_overs: list[float] = []
        self._deaths: dict[str, float] = {}
        self._lock = threading.Lock()
        self._askers = ThreadPoolExecutor(ASKERS, "asker")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()
        self._askers.shutdown(cancel_futures=True)

    def died(self, agent: str) -> None:
        """An agent was killed just now: if it is a master, the time until another one answers is taken."""
        for job, (master, _) in self.masters.items():
            if master == agent:
                self._deaths.setdefault(job, time.monotonic())

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
                    # A question that was under way when a master died waits for its turn; a new one does not.
                    if job in self._deaths or looks % 8 == 0:
                        self._askers.submit(self._master, agent, job)
                    if looks % 8 == 0:
                        with suppress(*GONE):
                            self._read(agent, job, history.write, again=looks % AGAIN == 0)

    def _master(self, agent: Victim, job: str) -> None:
        with suppress(*GONE):
            notified = agent.get(f"/v1/jobs/{job}", timeout_s=8.0)
            now = time.monotonic()
            with self._lock:
                known = self.masters.get(job)
                if known is None or notified["epoch"] > known[1]:
                    self.masters[job] = (notified["master"], notified["epoch"])
                    death = self._deaths.pop(job, None)
                    if death is not None:
                        self.fail_overs.append(now - death)

    def _read(self, agent: Victim, job: str, write: Callable[[str], object], *, again: bool) -> None:
        newest = self.last.get(job)
        start = None if newest is None else newest + 1 - (BACK if again else 0)
        query = "limit=200" + ("" if start is None else f"&from={start}")
        for line in agent.ask("GET", f"/v1/jobs/{job}/results?{query}", timeout_s=10.0).splitlines():
            result = json.loads(line)
            write(line.decode() + "\n")
            index = result["interval"]["index"]
            self.records[job][index] = result
            if index > self.last.get(job, -1):
                whole = result["state"] == "FINAL" and not result["counts"].get("expired")
                self.settled[job] = self.settled[job] + 1 if whole else 0
            self.last[job] = max(index, self.last.get(job, index))
