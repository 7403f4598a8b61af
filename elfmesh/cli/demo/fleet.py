"""The fleet of the demo: agent processes on loopback, each with a simulated web server that writes its log.

The module owns the thread that writes the logs. It does not know jobs or results. Invariant: after
`Fleet.stop`, no process and no thread of the fleet exists.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from elfmesh.cli.demo.traffic import ShopTraffic, TrafficWriter
from elfmesh.cli.host.local_agents import AgentProcess, LocalAgents
from elfmesh.errors import ElfError

STREAM = "clicks"
TICK_S = 0.02
USERS = 500
"""Small, so that within seconds some users like several products."""


class Fleet(LocalAgents):
    """Agents and their logs in one directory. Used as a context manager, it stops everything on exit.

    Args:
        directory: directory for logs and data directories.
        count: number of agents.
        seed: random seed of the shop's traffic.
        rate_per_s: lines per second of each web server.
    """

    def __init__(self, directory: Path, count: int, *, seed: int, rate_per_s: float) -> None:
        super().__init__(directory)
        self.count = count
        self.traffic = ShopLogs(
            {f"web{number}": directory / f"web{number}.ndjson" for number in range(1, count + 1)},
            seed=seed,
            rate_per_s=rate_per_s,
        )

    def open(self) -> None:
        """Start all agents, and wait for their ready lines. Raises RuntimeFailure without one."""
        self.start(
            {
                name: ["--label", "role=web", "--stream", f"{STREAM}={log},format=json,idle=1 s"]
                for name, log in self.traffic.paths.items()
            }
        )

    def kill(self, name: str) -> AgentProcess:
        agent = super().kill(name)
        self.traffic.silence(name)
        return agent

    def check(self, *, dead: str | None = None) -> None:
        """Raise RuntimeFailure if an agent other than `dead` has ended, or if writing the logs has failed."""
        super().check(dead=dead)
        self.traffic.check()

    def stop(self) -> None:
        """Stop the traffic, then terminate the agents; agents that do not end in time are killed."""
        self.traffic.stop()
        super().stop()


class ShopLogs:
    """The web servers: one thread that appends lines with the current time to the log of every agent.

    Args:
        paths: log file of each agent, by name.
        seed: random seed of the shop.
        rate_per_s: lines per second and log.
    """

    def __init__(self, paths: dict[str, Path], *, seed: int, rate_per_s: float) -> None:
        self.paths = paths
        self._seed = seed
        self._rate_per_s = rate_per_s
        self._writers: dict[str, TrafficWriter] = {}
        self._lock = threading.Lock()  # guards _writers and _silent
        self._silent: set[str] = set()
        self._stopping = threading.Event()
        self._failure: ElfError | None = None
        self._thread = threading.Thread(target=self._run, name="shop traffic", daemon=True)
        for path in paths.values():
            path.touch()

    def start(self) -> None:
        now = time.time_ns() // 1000
        with self._lock:
            self._writers = {
                name: TrafficWriter(
                    path,
                    ShopTraffic(number, seed=self._seed, users=USERS),
                    rate_per_s=self._rate_per_s,
                    now_us=now,
                )
                for number, (name, path) in enumerate(self.paths.items())
            }
        self._thread.start()

    def silence(self, name: str) -> None:
        with self._lock:
            self._silent.add(name)

    def check(self) -> None:
        """Raise the error that ended the thread, if there is one."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop all web servers. No line is written after this returns."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            for writer in self._writers.values():
                writer.close()

    @property
    def lines(self) -> int:
        with self._lock:
            return sum(writer.written for writer in self._writers.values())

    @property
    def last_us(self) -> int:
        """Timestamp of the newest line in all logs, in microseconds."""
        with self._lock:
            return max((writer.last_us for writer in self._writers.values()), default=0)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(TICK_S):
                with self._lock:
                    for name, writer in self._writers.items():
                        if name not in self._silent:
                            writer.advance(time.time_ns() // 1000)
        except ElfError as error:
            self._failure = error
