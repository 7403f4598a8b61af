"""Agents for benchmarks: the demo's fleet, with a probe in each agent's event loop and no clock of its own.

Logs grow only by what a benchmark appends; sources are never idle, so that event time alone closes intervals.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.agent import cpu_s, read_lags
from elfmesh.api.client.client import Client, connect
from elfmesh.cli.demo.fleet import STREAM, Fleet
from elfmesh.cli.demo.traffic import ShopTraffic
from elfmesh.errors import RuntimeFailure
from elfmesh.units import MICROS

START_US = 1_767_225_600 * MICROS
"""2026-01-01, the time of every replayed log's first line."""

READY_S = 60.0
"""How long eight interpreters may take to find each other on a busy machine."""

AGAIN_S = 0.1
PROBE_S = "0.02"
"""Between two looks at a loop: idle agents that are looked at more often do little else."""


class ProbedFleet(Fleet):
    """See the module.

    Args:
        directory: where logs and data go.
        count: how many agents.
        seed: of the shop.
        rate_per_s: lines per second of each log if `traffic` is started; else nothing is written by itself.
        idle: how long a source may be silent.
        read_from: where jobs begin: "beginning" or "end" of the logs.
        probe_s: between two looks at a loop; where lags are of no interest, they need not cost anything.
        beside: name of another stream, of JSON too; who writes its logs is not our matter.
    """

    def __init__(
        self,
        directory: Path,
        count: int,
        *,
        seed: int = 1,
        rate_per_s: float = 20.0,
        idle: str = "1 h",
        read_from: str = "beginning",
        probe_s: str = PROBE_S,
        beside: str = "",
    ) -> None:
        super().__init__(directory, count, seed=seed, rate_per_s=rate_per_s)
        self._idle, self._read_from, self._probe_s, self._beside = idle, read_from, probe_s, beside
        for path in self.beside.values():
            path.touch()

    @property
    def beside(self) -> dict[str, Path]:
        """The other stream's logs, by agent."""
        names = self.traffic.paths if self._beside else ()
        return {name: self.directory / f"{name}.{self._beside}" for name in names}

    def command(self, name: str, options: Sequence[str], join: str | None) -> list[str]:
        """The agent of `benchmarks.agent`, whatever the demo's options are."""
        how = f",format=json,idle={self._idle},read_from={self._read_from}"
        streams = [f"{STREAM}={self.traffic.paths[name]}{how}"]
        streams += [f"{self._beside}={self.beside[name]}{how}"] if self._beside else []
        words = ["\n".join(streams), str(self.directory / name), str(self._lags(name)), name, self._probe_s]
        return [sys.executable, "-m", "benchmarks.agent", *words, *([] if join is None else [join])]

    def _lags(self, name: str) -> Path:
        return self.directory / f"{name}.lags"

    def begin(self) -> Client:
        """Start all agents and wait until they know each other; a client of the last one."""
        self.open()
        client = connect(self.agents[-1].api)
        until(lambda: len(client.get("agents")) == self.count, "all agents")
        return client

    def cpu_s(self) -> float:
        """CPU time of all agents so far."""
        return sum(cpu_s(agent.process.pid) for agent in self.agents)

    def anonymous_bytes(self) -> int:
        """Anonymous memory of all agents, now."""
        return sum(anonymous(agent.process.pid) for agent in self.agents)

    def lags_s(self, began: float, ended: float) -> list[float]:
        """How late all loops were between two moments of the monotonic clock. Ends the agents."""
        self.stop()
        return [late for agent in self.agents for late in read_lags(self._lags(agent.name), began, ended)]


def until(condition: Callable[[], Any], what: str, within_s: float = READY_S) -> Any:
    """The first true value of `condition`.

    Raises:
        RuntimeFailure: none came in time.
    """
    end = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeFailure(f"{what} did not come within {within_s:g} s")
        time.sleep(AGAIN_S)
    return value


def replayed(number: int, lines: int, seconds: int, tail_s: int) -> bytes:
    """The log of an agent by its number: lines over seconds of event time, and one line `tail_s` later."""
    stamps = START_US + np.arange(lines, dtype=np.int64) * (seconds * MICROS) // lines
    traffic = ShopTraffic(number)
    return traffic.lines(stamps) + traffic.lines(np.array([START_US + (seconds + tail_s) * MICROS]))


def latest(client: Client) -> dict[str, int | None]:
    """The last interval with a record of every job."""
    return {row["job"]: row["latest"] for row in client.get("jobs")}


def canonical(rows: object) -> str:
    """Rows as text that is equal if and only if they are."""
    return json.dumps(rows, sort_keys=True)


def anonymous(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
